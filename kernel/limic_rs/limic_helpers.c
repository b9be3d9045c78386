// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#include "limic_helpers.h"

#ifndef CONFIG_MMU_NOTIFIER
#error "limic needs CONFIG_MMU_NOTIFIER: without it pins would outlive exec"
#endif
#ifndef CONFIG_64BIT
#error "limic needs a 64-bit kernel: it reaches pages through the kernel's own mapping of all memory"
#endif

/* ---- Changes and end of an address space ---- */

/* An address space with watches: one notifier, however many they are. */
struct limic_space {
	struct mmu_notifier notifier;
	/* Changed with both locks held, so that either is enough to read it. */
	struct list_head watches;
	unsigned int nr_watches;
	/* Changes that have begun and not ended. */
	unsigned int under_way;
	spinlock_t lock;
	/* For those who sleep while they go through the watches. */
	struct mutex ends;
};

struct limic_mm_watch {
	struct list_head link;
	struct limic_space *space;
	struct work_struct sweep;
	void *owner;
	const struct limic_mm_events *events;
};

static struct mmu_notifier *limic_mm_alloc(struct mm_struct *mm)
{
	struct limic_space *space = kzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);

	if (!space)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&space->watches);
	spin_lock_init(&space->lock);
	mutex_init(&space->ends);
	return &space->notifier;
}

static void limic_mm_free(struct mmu_notifier *notifier)
{
	kfree(container_of(notifier, struct limic_space, notifier));
}

static void limic_mm_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct limic_space *space = container_of(notifier, struct limic_space, notifier);
	struct limic_mm_watch *watch;

	mutex_lock(&space->ends);
	list_for_each_entry(watch, &space->watches, link)
		watch->events->end(watch->owner);
	mutex_unlock(&space->ends);
}

static int limic_mm_change_begins(struct mmu_notifier *notifier,
				  const struct mmu_notifier_range *range)
{
	struct limic_space *space = container_of(notifier, struct limic_space, notifier);
	struct limic_mm_watch *watch;

	spin_lock(&space->lock);
	space->under_way++;
	list_for_each_entry(watch, &space->watches, link) {
		if (watch->events->change_begins(watch->owner, range->start, range->end))
			schedule_work(&watch->sweep);
	}
	spin_unlock(&space->lock);
	return 0;
}

static void limic_mm_change_ends(struct mmu_notifier *notifier,
				 const struct mmu_notifier_range *range)
{
	struct limic_space *space = container_of(notifier, struct limic_space, notifier);
	struct limic_mm_watch *watch;

	spin_lock(&space->lock);
	space->under_way--;
	list_for_each_entry(watch, &space->watches, link)
		watch->events->change_ends(watch->owner);
	spin_unlock(&space->lock);
}

static void limic_mm_sweep(struct work_struct *work)
{
	struct limic_mm_watch *watch = container_of(work, struct limic_mm_watch, sweep);

	watch->events->sweep(watch->owner);
}

static const struct mmu_notifier_ops limic_mm_ops = {
	.release = limic_mm_release,
	.invalidate_range_start = limic_mm_change_begins,
	.invalidate_range_end = limic_mm_change_ends,
	.alloc_notifier = limic_mm_alloc,
	.free_notifier = limic_mm_free,
};

struct limic_mm_watch *limic_mm_watch_start(struct mm_struct *mm, unsigned int most, void *owner,
					    const struct limic_mm_events *events)
{
	struct limic_mm_watch *watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	struct mmu_notifier *notifier;
	struct limic_space *space;
	bool room;

	if (!watch)
		return ERR_PTR(-ENOMEM);
	/* Finds the notifier of this mm, or registers one. */
	notifier = mmu_notifier_get(&limic_mm_ops, mm);
	if (IS_ERR(notifier)) {
		kfree(watch);
		/* It gives up for every signal; the call begins again behind the handler. */
		if (PTR_ERR(notifier) == -EINTR)
			return ERR_PTR(-ERESTARTNOINTR);
		return ERR_CAST(notifier);
	}
	space = container_of(notifier, struct limic_space, notifier);
	watch->space = space;
	watch->owner = owner;
	watch->events = events;
	INIT_WORK(&watch->sweep, limic_mm_sweep);

	mutex_lock(&space->ends);
	spin_lock(&space->lock);
	room = space->nr_watches < most;
	if (room) {
		list_add_tail(&watch->link, &space->watches);
		space->nr_watches++;
		/* A notifier that was there before may be in the middle of changes. */
		events->begin(owner, space->under_way);
	}
	spin_unlock(&space->lock);
	mutex_unlock(&space->ends);
	if (!room) {
		mmu_notifier_put(notifier);
		kfree(watch);
		return ERR_PTR(-EMFILE);
	}
	return watch;
}

void limic_mm_watch_stop(struct limic_mm_watch *watch)
{
	struct limic_space *space = watch->space;

	mutex_lock(&space->ends);
	spin_lock(&space->lock);
	list_del(&watch->link);
	space->nr_watches--;
	spin_unlock(&space->lock);
	mutex_unlock(&space->ends);
	/* It is in no list, so nothing schedules it again. */
	cancel_work_sync(&watch->sweep);
	kfree(watch);
	mmu_notifier_put(&space->notifier);
}

void limic_mm_watches_freed(void)
{
	mmu_notifier_synchronize();
}

/* ---- The calling task ---- */

struct mm_struct *limic_current_mm(void)
{
	return current->mm;
}

bool limic_fatal_signal(void)
{
	return fatal_signal_pending(current);
}

void limic_resched(void)
{
	cond_resched();
}

unsigned int limic_cpu(void)
{
	return raw_smp_processor_id();
}

/* ---- Pages ---- */

int limic_charge(struct mm_struct *mm, unsigned long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	u64 now = atomic64_add_return(pages, &mm->pinned_vm);

	if (now > limit && !capable(CAP_IPC_LOCK)) {
		atomic64_sub(pages, &mm->pinned_vm);
		return -EAGAIN;
	}
	return 0;
}

void limic_uncharge(struct mm_struct *mm, unsigned long pages)
{
	atomic64_sub(pages, &mm->pinned_vm);
}

bool limic_page_follows(struct page *last, struct page *page)
{
	struct folio *folio = page_folio(page);

	if (last + 1 != page || page_to_pfn(last) + 1 != page_to_pfn(page))
		return false;
	/* Hardened usercopy refuses a copy that leaves a large folio; small ones it does not look at. */
	return page_folio(last) == folio ||
	       (!folio_test_large(folio) && !folio_test_large(page_folio(last)));
}

struct page *limic_page_nth(struct page *page, unsigned long n)
{
	return page + n;
}

/* ---- Copies ---- */

unsigned long limic_untagged(unsigned long addr)
{
	return untagged_addr(addr);
}

bool limic_user_range(unsigned long addr, unsigned long len)
{
	return access_ok((void __user *)addr, len);
}

unsigned long limic_copy_out(unsigned long to, struct page *run, unsigned long off, unsigned long len)
{
	unsigned long left;

	pagefault_disable();
	left = __copy_to_user_inatomic((void __user *)to, page_address(run) + off, len);
	pagefault_enable();
	return left;
}

unsigned long limic_copy_in(struct page *run, unsigned long off, unsigned long from, unsigned long len)
{
	unsigned long left;

	pagefault_disable();
	left = __copy_from_user_inatomic(page_address(run) + off, (const void __user *)from, len);
	pagefault_enable();
	return left;
}

unsigned long limic_fault_in(unsigned long addr, unsigned long len, bool write)
{
	/* The writing form does not write: what is there stays if the copy fails. */
	if (write)
		return fault_in_safe_writeable((const char __user *)addr, len);
	return fault_in_readable((const char __user *)addr, len);
}

/* ---- Words that user space also writes ---- */

void limic_set_bits(atomic_t *word, int bits)
{
	/* A value is returned, so it is fully ordered. */
	(void)atomic_fetch_or(bits, word);
}

/* ---- Waiting for a counter ---- */

void limic_wait_until(atomic_t *users, int value)
{
	wait_var_event(users, atomic_read_acquire(users) == value);
}

void limic_wake(atomic_t *users)
{
	/* wake_up_var() needs the new value to be visible before it looks for sleepers. */
	smp_mb();
	wake_up_var(users);
}

/* ---- The status area ---- */

void *limic_area_alloc(unsigned long bytes)
{
	/* vmalloc_user() would not charge it to the caller's memory cgroup. */
	return __vmalloc(bytes, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
}

void limic_area_free(void *area)
{
	vfree(area);
}

int limic_area_map(struct vm_area_struct *vma, void *area)
{
	unsigned long addr;
	int err;

	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (addr = vma->vm_start; addr < vma->vm_end; addr += PAGE_SIZE, area += PAGE_SIZE) {
		err = vm_insert_page(vma, addr, vmalloc_to_page(area));
		if (err)
			return err;
	}
	return 0;
}

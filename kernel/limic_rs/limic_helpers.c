// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
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

struct limic_mm_watch {
	struct mmu_notifier notifier;
	struct work_struct sweep;
	void *owner;
	const struct limic_mm_events *events;
};

static void limic_mm_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct limic_mm_watch *watch = container_of(notifier, struct limic_mm_watch, notifier);

	watch->events->end(watch->owner);
}

static int limic_mm_change_begins(struct mmu_notifier *notifier,
				  const struct mmu_notifier_range *range)
{
	struct limic_mm_watch *watch = container_of(notifier, struct limic_mm_watch, notifier);

	if (watch->events->change_begins(watch->owner, range->start, range->end))
		schedule_work(&watch->sweep);
	return 0;
}

static void limic_mm_change_ends(struct mmu_notifier *notifier,
				 const struct mmu_notifier_range *range)
{
	struct limic_mm_watch *watch = container_of(notifier, struct limic_mm_watch, notifier);

	watch->events->change_ends(watch->owner);
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
};

struct limic_mm_watch *limic_mm_watch_start(struct mm_struct *mm, void *owner,
					    const struct limic_mm_events *events)
{
	struct limic_mm_watch *watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	int err;

	if (!watch)
		return ERR_PTR(-ENOMEM);
	watch->notifier.ops = &limic_mm_ops;
	watch->owner = owner;
	watch->events = events;
	INIT_WORK(&watch->sweep, limic_mm_sweep);
	err = mmu_notifier_register(&watch->notifier, mm);
	if (err) {
		kfree(watch);
		return ERR_PTR(err);
	}
	return watch;
}

void limic_mm_watch_stop(struct limic_mm_watch *watch)
{
	mmu_notifier_unregister(&watch->notifier, watch->notifier.mm);
	/* No notifier runs any more, so nothing schedules it again. */
	cancel_work_sync(&watch->sweep);
	kfree(watch);
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

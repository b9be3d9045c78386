/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Rust cannot call: macros, inline functions, and C structures that must be embedded.
 *
 * Keep it small: no policy, no limic object, only one kernel service per function.
 */
#ifndef _LIMIC_HELPERS_H
#define _LIMIC_HELPERS_H

#include <linux/atomic.h>
#include <linux/mm.h>

struct limic_mm_watch;

/* What a watch over an address space calls, with its owner. */
struct limic_mm_events {
	/* The watch begins while so many changes are under way, whose ends it is told of; must not
	 * sleep. */
	void (*begin)(void *owner, unsigned int under_way);
	/* The address space is torn down. */
	void (*end)(void *owner);
	/* Pages between the two addresses are about to be changed, protected or unmapped; must not sleep.
	 * True: sweep. */
	bool (*change_begins)(void *owner, unsigned long start, unsigned long end);
	/* The end of each change that had begun, also before the watch did; must not sleep. */
	void (*change_ends)(void *owner);
	/* A little after a change_begins() that said so, where it may sleep. */
	void (*sweep)(void *owner);
};

/* Starts one over the caller's own mm. -EMFILE if it has so many already; -ERESTARTNOINTR if a
 * signal came. */
struct limic_mm_watch *limic_mm_watch_start(struct mm_struct *mm, unsigned int most, void *owner,
					    const struct limic_mm_events *events);
/* Stops it: afterwards no call is under way or will come. Sleeps. */
void limic_mm_watch_stop(struct limic_mm_watch *watch);
/* Waits until nothing of the watches that were stopped needs this module's code. */
void limic_mm_watches_freed(void);

struct mm_struct *limic_current_mm(void);
bool limic_fatal_signal(void);
void limic_resched(void);
unsigned int limic_cpu(void);

/* Charges pages to mm->pinned_vm within RLIMIT_MEMLOCK of the caller. 0 or -EAGAIN. */
int limic_charge(struct mm_struct *mm, unsigned long pages);
void limic_uncharge(struct mm_struct *mm, unsigned long pages);

/* Whether the page extends a run that ends with the page last: its bytes follow in the kernel's own
 * mapping. */
bool limic_page_follows(struct page *last, struct page *page);
struct page *limic_page_nth(struct page *page, unsigned long n);

/* The address without the bits that the caller's processor ignores (arm64's tags, x86's LAM). */
unsigned long limic_untagged(unsigned long addr);
bool limic_user_range(unsigned long addr, unsigned long len);
/* Copy between bytes from off on in a run of pages and user memory, without taking a fault. Bytes
 * not copied. */
unsigned long limic_copy_out(unsigned long to, struct page *run, unsigned long off, unsigned long len);
unsigned long limic_copy_in(struct page *run, unsigned long off, unsigned long from, unsigned long len);
/* Bring user pages in. Bytes that could not be. */
unsigned long limic_fault_in(unsigned long addr, unsigned long len, bool write);

/* Sets bits in one atomic step, fully ordered, whatever the word holds. */
void limic_set_bits(atomic_t *word, int bits);

/* Sleep until *users is value; wake those who do. */
void limic_wait_until(atomic_t *users, int value);
void limic_wake(atomic_t *users);

/* Zeroed memory, charged to the caller's memory cgroup, that can be mapped into user space, whole
 * or its beginning. */
void *limic_area_alloc(unsigned long bytes);
void limic_area_free(void *area);
int limic_area_map(struct vm_area_struct *vma, void *area);

#endif /* _LIMIC_HELPERS_H */

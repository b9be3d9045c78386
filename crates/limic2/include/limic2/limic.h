/*
 * LiMIC2's interface, version 0.5.6, as limic provides it: one copy from process to process.
 *
 * A process prepares a buffer (limic_tx_init) and sends the filled-in limic_user to another one by
 * whatever channel they have. That one copies out of the buffer (limic_rx_comp) or into it
 * (limic_tx_comp). See docs/limic2.md.
 */
#ifndef LIMIC2_LIMIC_H
#define LIMIC2_LIMIC_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What LiMIC2's ioctls returned. No function here does; programs may still name them. */
#define LIMIC_TX_DONE 1
#define LIMIC_RX_DONE 2
#define LIMIC_VERSION_OK 3
#define LIMIC_TXW_DONE 4

/*
 * A prepared buffer. The part that the next copy begins with is at
 *
 *     (va rounded down to a page) + offset
 *
 * and has `length` bytes. A program may change these three between copies to name any part of what
 * was prepared; a copy that begins before it or ends behind it is refused. nr_pages is not looked
 * at. mm and tsk are the library's: no addresses, but a random handle and where it is registered. A
 * copy with others in their place is refused.
 */
typedef struct limic_user {
    int nr_pages;     /* pages that hold the bytes */
    size_t offset;    /* of the first byte in its page */
    size_t length;    /* bytes */
    unsigned long va; /* address of the first byte in the process that prepared the buffer */
    void *mm;
    void *tsk;
} limic_user;

/*
 * Opens LiMIC2 and gives a descriptor for the other functions, or -1 (errno says why). Close it
 * with limic_close. The threads of a process may share it; a forked child opens its own.
 */
extern int limic_open(void);

/* Closes it. What was prepared through it is refused from then on. Copies under way have to be
 * over. What is no descriptor of limic_open is left alone. */
extern void limic_close(int fd);

/*
 * Prepares `len` bytes at `buf` for copies by others, and fills in `lu`. Returns len; or 0, with
 * errno: EINVAL for a length of 0, a null pointer, or a range that is no memory; EBADF for a
 * descriptor that is not open in this process.
 *
 * Others may read and write the buffer from now on. LiMIC2 knows no call that ends this: the last
 * 262112 buffers stay prepared (without the kernel module, the same buffer prepared again counts
 * once), until limic_close.
 *
 * With LIMIC2_PATH=kmod also EAGAIN if RLIMIT_MEMLOCK allows no more, and EFAULT for memory that
 * cannot be pinned.
 */
extern size_t limic_tx_init(int fd, void *buf, size_t len, limic_user *lu);

/*
 * Copies the first bytes that `lu` names into `buf`: `len` or lu->length bytes, whichever is less.
 * Sets lu->length to the bytes copied and returns that; or returns 0, with `lu` unchanged and
 * errno: EINVAL for a length of 0, EACCES for a part outside of what was prepared, ESTALE for a
 * handle that is not (or no longer) prepared, ESRCH if the process is gone, EPERM if the kernel
 * forbids the copy, EFAULT if either side's memory is not there.
 */
extern size_t limic_rx_comp(int fd, void *buf, size_t len, limic_user *lu);

/* The same in the other direction: copies from `buf` into the bytes that `lu` names. */
extern size_t limic_tx_comp(int fd, void *buf, size_t len, limic_user *lu);

#ifdef __cplusplus
}
#endif

#endif

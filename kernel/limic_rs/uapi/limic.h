/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT OR Apache-2.0 */
/*
 * /dev/limic: one copy between processes, made by the kernel.
 *
 * Two sets of calls over one device:
 *
 * - Primitives. A process exposes a buffer to peers that it names and gets a random 64-bit
 *   handle, which it may send them by any channel. Who was named copies any part of the buffer from
 *   or to its own memory, until the owner revokes the handle. Matching stays in user space.
 * - Messages. Members of a group send and receive by rank, tag and mask. The kernel
 *   matches; whoever comes first is pinned and queued, whoever comes second copies, in its own
 *   call. Nothing waits but LIMIC_IOC_WAIT, and nobody has to call it: completion is a word in
 *   mapped memory.
 *
 * Sessions
 *   An open file is a session. It belongs to the address space that opened it: after fork (in the
 *   child), after exec, or in a process that was passed the descriptor, every call fails with
 *   ESTALE. All that the session holds is undone when the last descriptor and mapping of it goes,
 *   or when that address space does (exit, exec, SIGKILL), whichever comes first, even if another
 *   process still holds the descriptor. LIMIC_IOC_END undoes it at once. Threads may share a
 *   session. The first call is LIMIC_IOC_HELLO; the others fail with EPROTO before it.
 *
 * Who reaches whom
 *   Only sessions whose opener had the same effective user id and was in the same user namespace.
 *   To all others, to members of other groups, and to peers that an exposure does not name, a
 *   handle does not exist: ENOENT, the same as for a number that never was one.
 *
 * Structures
 *   Every structure has the same layout for 32-bit and 64-bit callers (addresses are 64 bits wide),
 *   so one handler serves both. Its size is part of the ioctl number. Reserved fields and unused
 *   bits of flags must be zero, else EINVAL. Output fields may hold anything on entry. A call that
 *   fails changes nothing, except where it says so: a structure that cannot be written is refused
 *   before anything happens; only if it becomes so during the call (another thread unmaps it), what
 *   the call did may stay. An unknown call is ENOTTY.
 *
 * Lengths are in bytes. Errors that any call may give: EFAULT (the structure, or a list it names,
 * cannot be read or written), EINVAL, ENOMEM, ENOTTY, EPROTO, ESTALE, and EINTR (a fatal signal;
 * the caller does not see it).
 */
#ifndef _UAPI_LIMIC_H
#define _UAPI_LIMIC_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define LIMIC_DEVICE "/dev/limic"

/*
 * Version of this interface. It grows when a call changes its meaning; additions show in
 * limic_hello.features. LIMIC_VERSION is another number, that of liblimic.
 */
#define LIMIC_UAPI_VERSION 1

#define LIMIC_IOC_MAGIC 0xC7

/* Pieces in one list, at most. */
#define LIMIC_MAX_IOV 1024
/* Bytes that one list names, at most. */
#define LIMIC_MAX_LEN (1ULL << 40)
/* Requests of one session at a time, at most. */
#define LIMIC_MAX_SLOTS 4096
/* Unexpected messages that wait at one session, at most. */
#define LIMIC_MAX_UNEXPECTED 65536
/* Ranks of one group, at most. */
#define LIMIC_MAX_RANKS 65536
/* Slots in one LIMIC_IOC_WAIT, at most. */
#define LIMIC_MAX_WAIT 4096
/* Bytes of a message with LIMIC_SEND_BUFFERED, at most. */
#define LIMIC_MAX_BUFFERED 4096
/* Sessions of one process that have said LIMIC_IOC_HELLO, at most. */
#define LIMIC_MAX_SESSIONS 64

/* A rank field: any sender; or, in LIMIC_IOC_JOIN, the next rank that is free. */
#define LIMIC_ANY_RANK 0xffffffffU

/* MPI's labels in 64 bits: the context id above, the tag below. Tags are not negative, so that the
 * top bit of the lower half tells a library's own messages from its user's, and MPI_ANY_TAG keeps
 * it in the mask.
 */
#define LIMIC_MPI_TAG(context, tag) (((__u64)(context) << 32) | (__u32)(tag))
#define LIMIC_MPI_EXACT (~0ULL)
#define LIMIC_MPI_ANY_TAG 0xffffffff80000000ULL

/* limic_hello.features: what a module has beyond the first version 1. */
#define LIMIC_FEATURE_JOIN_FD (1ULL << 0)	/* LIMIC_JOIN_FD */
#define LIMIC_FEATURE_IMMEDIATE (1ULL << 1)	/* LIMIC_SEND_IMMEDIATE */
#define LIMIC_FEATURE_CLOSED (1ULL << 2)	/* LIMIC_MEMBER_CLOSED is told from LIMIC_MEMBER_LEFT */
#define LIMIC_FEATURE_KEEP (1ULL << 3)		/* LIMIC_EXPOSE_KEEP, LIMIC_SEND_KEEP, LIMIC_RECV_KEEP */
#define LIMIC_FEATURE_LATCH (1ULL << 4)		/* LIMIC_EXPOSE_LATCH */
#define LIMIC_FEATURE_END (1ULL << 5)		/* LIMIC_IOC_END, LIMIC_CANCEL_FORCE */

/* A piece of the caller's memory. The pieces of a list are walked in order; empty ones are allowed.
 */
struct limic_iov {
	__aligned_u64 base;
	__aligned_u64 len;
};

/* ---- Session
 * ----------------------------------------------------------------------------------------------------
 */

/*
 * LIMIC_IOC_HELLO: version handshake, and the size of the session.
 *
 * A session with slots == 0 has the primitives only and takes next to no memory. Else it may also
 * use messages; slots and unexpected are then fixed for its life, and status_bytes can be mapped:
 *
 *   mmap(NULL, status_bytes, PROT_READ, MAP_SHARED, fd, 0)
 *
 * gives struct limic_status_header and then struct limic_status for each slot. The mapping is
 * read-only (EACCES) and is not inherited by fork.
 *
 * EPROTONOSUPPORT: the module speaks another version; .version holds it. EALREADY: said before.
 * EMFILE: the process has LIMIC_MAX_SESSIONS sessions already; close one.
 */
struct limic_hello {
	__u32 version;			/* in: LIMIC_UAPI_VERSION; out: the module's */
	__u32 flags;			/* in: 0 */
	__u32 slots;			/* in: 0 .. LIMIC_MAX_SLOTS */
	__u32 unexpected;		/* in: 0 (for 1024) .. LIMIC_MAX_UNEXPECTED; 0 if slots is; out: granted */
	__aligned_u64 features;		/* out: LIMIC_FEATURE_* */
	__aligned_u64 session;		/* out: random, not 0: by it others name this session in LIMIC_IOC_EXPOSE */
	__aligned_u64 status_bytes;	/* out: 0 if slots is */
	__aligned_u64 reserved[3];	/* in: 0 */
};

/*
 * LIMIC_IOC_END: end the session, also if another process or a mapping still holds it. It takes no
 * argument. When it returns 0, no peer touches memory of the session any more, nothing is pinned
 * for it, it counts no more towards LIMIC_MAX_SESSIONS, and members of its group are told
 * LIMIC_MEMBER_CLOSED. Requests that were pending are forgotten: their status stays as it is. It
 * waits for peers as LIMIC_IOC_REVOKE does, and for nobody else. Another LIMIC_IOC_END does
 * nothing; every other call fails with ESTALE from then on.
 *
 * EBUSY: another thread is in a call on this session. That call goes on (LIMIC_IOC_WAIT returns),
 * no further one begins, and the session is still to be ended: call again.
 */

/* The first 64 bytes of the mapping. The counters wrap; each is written (release) behind what it
 * counts, so read it first (acquire).
 */
struct limic_status_header {
	__u32 version;
	__u32 slots;
	__u32 completions;	/* requests of this session that were completed by others' calls */
	__u32 arrivals;		/* messages that joined the unexpected queue */
	__u32 departures;	/* members of the group that left; one of them may be a rank one waits for */
	__u32 ended;		/* not 0: the session is over */
	__u32 reserved[10];
};

/* limic_status.state; written last (release), so read it first (acquire). */
#define LIMIC_IDLE 0		/* never used */
#define LIMIC_PENDING 1		/* posted; the memory belongs to the request */
#define LIMIC_DONE 2		/* over: the fields are valid, the memory is the caller's again, the slot free */

#define LIMIC_STATUS_IMMEDIATE (1U << 0)

/* One slot: 64 bytes, slot n at (n + 1) * 64. */
struct limic_status {
	__u32 state;		/* LIMIC_IDLE ... */
	__s32 error;		/* 0, or -errno (see LIMIC_IOC_SEND, LIMIC_IOC_RECV) */
	__aligned_u64 len;	/* bytes delivered */
	__aligned_u64 full_len;	/* bytes of the message: more than len if it was cut off */
	__aligned_u64 tag;	/* of the message */
	__aligned_u64 cookie;	/* as posted */
	__u32 source;		/* rank of the sender */
	__u32 flags;		/* LIMIC_STATUS_* */
	__aligned_u64 immediate; /* with LIMIC_STATUS_IMMEDIATE: the word that came beside the bytes, else 0 */
	__aligned_u64 reserved;
};

/* ---- Group
 * ------------------------------------------------------------------------------------------------------
 */

#define LIMIC_JOIN_CREATE (1U << 0)	/* make the group if it is not there */
#define LIMIC_JOIN_FD (1U << 1)		/* the group of which the session behind .fd is a member */

/*
 * LIMIC_IOC_JOIN: become a member of a group. A session joins at most one, and stays until it ends.
 *
 * The token is the capability: 128 random bits that the members of a job share. With
 * LIMIC_JOIN_CREATE and a token of 0 the kernel draws it; with LIMIC_JOIN_CREATE and a token of the
 * caller's the first one makes the group and the others join it, so that a job that has a secret
 * already needs no further exchange. Tokens of other users or user namespaces are other tokens. A
 * group ends with its last member.
 *
 * With LIMIC_JOIN_FD no token is needed: whoever holds the descriptor of a member's session,
 * inherited or passed over a Unix socket, joins its group with a session of its own. Nothing else
 * can be done with a descriptor that is not one's own, and the rule of user and user namespace
 * holds all the same.
 *
 * A rank is given out once in the life of a group: who left is not replaced, so a group takes as
 * many sessions in all as it has ranks, LIMIC_MAX_RANKS at most, and the next one gets ENOSPC.
 * Ranks begin anew with a new group: one of another token, or of the same token when the last
 * member is gone.
 *
 * ENOENT: no such group (or a token of 0 without LIMIC_JOIN_CREATE). EALREADY: this session is a
 * member already. EADDRINUSE: the rank was given out. ENOSPC: all ranks were. EINVAL: rank or size
 * too large; or LIMIC_JOIN_FD with another flag, a token or a size. EBADF: .fd is no open
 * descriptor of this device. ENOENT also: its session is in no group (any more), or of another
 * user.
 */
struct limic_join {
	__aligned_u64 token[2];		/* in and out */
	__u32 flags;			/* in: LIMIC_JOIN_* */
	__u32 rank;			/* in: wanted, or LIMIC_ANY_RANK for the lowest free one; out: given */
	__u32 size;			/* in: ranks of a new group, 0 for 1024; out: those of the group */
	__s32 fd;			/* in: with LIMIC_JOIN_FD, else 0 */
	__aligned_u64 reserved[4];	/* in: 0 */
};

#define LIMIC_MEMBER_ABSENT 0	/* the rank was not given out yet */
#define LIMIC_MEMBER_PRESENT 1
#define LIMIC_MEMBER_LEFT 2	/* its session is over, for good: its process ended, or runs another program */
#define LIMIC_MEMBER_CLOSED 3	/* its session is over, for good: its process closed it */

/* LIMIC_IOC_MEMBER: whether a rank is there. ENOTCONN: not in a group. EINVAL: not a rank of the
 * group. */
struct limic_member {
	__u32 rank;			/* in */
	__u32 state;			/* out: LIMIC_MEMBER_* */
	__aligned_u64 reserved;		/* in: 0 */
};

/* ---- Primitives
 * -------------------------------------------------------------------------------------------- */

#define LIMIC_EXPOSE_READ (1U << 0)	/* peers may copy from it */
#define LIMIC_EXPOSE_WRITE (1U << 1)	/* peers may copy to it */
#define LIMIC_EXPOSE_ONCE (1U << 2)	/* the first copy call that finds it uses it up, whatever part it copies */
#define LIMIC_EXPOSE_KEEP (1U << 3)	/* the pages may stay pinned behind it, for the next one (see "Kept pins") */
#define LIMIC_EXPOSE_LATCH (1U << 4)	/* peers reach it only while its latch is open (see "Latches") */

#define LIMIC_TO_GROUP 0	/* every member of the owner's group (ENOTCONN if it is in none) */
#define LIMIC_TO_RANK 1		/* that member only */
#define LIMIC_TO_SESSION 2	/* that session only (limic_hello.session), be it in a group or not, or not there yet */

/*
 * LIMIC_IOC_EXPOSE: pin a buffer and let peers reach it.
 *
 * The pages stay pinned until the handle is gone, and count against RLIMIT_MEMLOCK of the process
 * (CAP_IPC_LOCK exempts). Peers reach the pages that were there at the time of the call, whatever
 * the owner maps, unmaps or protects later.
 *
 * EFAULT: not mapped, not permitted (LIMIC_EXPOSE_WRITE needs it writable), or memory that cannot
 * be pinned for long, such as a writable shared mapping of a file on disk. EAGAIN: RLIMIT_MEMLOCK,
 * or the module's limit of exposures per session, is reached. EINVAL also: neither READ nor WRITE,
 * too many pieces or bytes, no byte at all. With LIMIC_EXPOSE_LATCH also EINVAL: LIMIC_EXPOSE_ONCE,
 * not one piece, no such latch, latches not mapped; EBUSY: the latch is in use, or memory of the
 * process was being changed just now, so that the pages may be those from before; ENOSPC: more
 * would stay pinned than the module's parameter "kept" allows.
 */
struct limic_expose {
	__aligned_u64 iov;		/* in: address of struct limic_iov[nr_iov] */
	__u32 nr_iov;			/* in: 1 .. LIMIC_MAX_IOV */
	__u32 flags;			/* in: LIMIC_EXPOSE_* */
	__u32 to;			/* in: LIMIC_TO_* */
	__u32 rank;			/* in: with LIMIC_TO_RANK, else 0 */
	__aligned_u64 session;		/* in: with LIMIC_TO_SESSION, else 0 */
	__aligned_u64 handle;		/* out: random, not 0 */
	__aligned_u64 len;		/* out: sum of the pieces */
	__u32 latch;			/* in: with LIMIC_EXPOSE_LATCH, 0 .. LIMIC_LATCHES - 1; else 0 */
	__u32 reserved0;		/* in: 0 */
	__aligned_u64 reserved;		/* in: 0 */
};

/*
 * Kept pins. With LIMIC_EXPOSE_KEEP, LIMIC_SEND_KEEP or LIMIC_RECV_KEEP, a buffer of one piece may
 * stay pinned when the exposure or request is over, and a later call with the flag that names
 * memory inside of it is spared the pinning. Who may copy, and until when, is the same as without:
 * only the pins stay. They go as soon as the process unmaps, remaps, protects or gives back a page
 * of the buffer (munmap, mremap, mprotect, MADV_DONTNEED, fork ...), so that memory that comes in
 * its place is never taken for it; when other buffers need the room (32 buffers and the module's
 * parameter "kept" per session); when RLIMIT_MEMLOCK, against which they count, would refuse a
 * call; and with the session.
 */

/*
 * Latches. An exposure with LIMIC_EXPOSE_LATCH may stay for many messages, and yet be reached only
 * while one of them is under way, which its owner says without a call. After LIMIC_IOC_HELLO,
 *
 *   mmap(NULL, LIMIC_LATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, LIMIC_LATCH_OFFSET)
 *
 * gives struct limic_latch[LIMIC_LATCHES], which fork does not inherit. One that no exposure has is
 * free, and is shut when an exposure takes it; all accesses to its words have to be atomic.
 *
 * To open it, the owner adds 1 to .open, by a compare-and-swap, unless LIMIC_LATCH_STRUCK is set.
 * To shut it, it subtracts 1 again, and if that leaves no more than LIMIC_LATCH_STRUCK, it loads
 * .inside, both sequentially consistent: 0 says that no peer touches the buffer any more. Else a
 * peer is copying, which had no reason to: LIMIC_IOC_REVOKE waits for it. While .open is 0, copies
 * fail with ECANCELED; the handle is still taken.
 *
 * LIMIC_LATCH_STRUCK keeps a latch from being opened. The module sets it by an atomic OR. The owner
 * may set it too, by a compare-and-swap of 0, so that nobody opens the latch before the exposure
 * behind it is revoked. Nobody clears it but the module, when an exposure takes the latch: it
 * stores 0 into .open.
 *
 * Before memory of the buffer changes (munmap, mremap, mprotect, MADV_DONTNEED, fork ...), the
 * module sets LIMIC_LATCH_STRUCK. Messages that are under way go on with the pages that were there
 * when the latch was opened. What is shut when it is struck, the module ends by itself, a little
 * later; what is open then, the owner has to revoke when it has shut it. In both cases revoking
 * frees the latch at once, unless another thread or the module is just ending it.
 */
#define LIMIC_LATCHES 64
#define LIMIC_LATCH_BYTES 4096
#define LIMIC_LATCH_OFFSET 0x100000

/* In limic_latch.open. */
#define LIMIC_LATCH_STRUCK (1U << 31)

struct limic_latch {
	__u32 open;			/* for how many messages it is open; the owner counts; LIMIC_LATCH_STRUCK */
	__u32 inside;			/* peers' copies that are inside just now; the module counts */
	__u32 reserved[14];
};

#define LIMIC_COPY_READ (1U << 0)	/* from the exposed buffer to the caller's pieces */
#define LIMIC_COPY_WRITE (1U << 1)	/* from the caller's pieces to the exposed buffer */

/*
 * LIMIC_IOC_COPY: copy between the caller's memory and an exposed buffer, from .offset on, as many
 * bytes as the pieces have. The call ends early only for a reason: then it fails, and .copied says
 * how many bytes certainly got through.
 *
 * ENOENT: no such handle for this caller. EACCES: exposed, but not in this direction. ERANGE:
 * offset plus length goes beyond the exposure. EFAULT: the caller's memory; a fault in it may last
 * as long as whoever answers it likes (userfaultfd), and nobody else waits for that. ECANCELED:
 * revoked, or its owner is gone, while copying; or its latch is shut.
 */
struct limic_copy {
	__aligned_u64 handle;		/* in */
	__aligned_u64 offset;		/* in */
	__aligned_u64 iov;		/* in: address of struct limic_iov[nr_iov] */
	__u32 nr_iov;			/* in: 0 .. LIMIC_MAX_IOV */
	__u32 flags;			/* in: LIMIC_COPY_READ or LIMIC_COPY_WRITE */
	__aligned_u64 copied;		/* out, also if the call fails with one of the five errors above or EINTR */
	__aligned_u64 reserved[3];	/* in: 0 */
};

/*
 * LIMIC_IOC_REVOKE: end an exposure of this session. When it returns, no peer touches the buffer
 * any more: it waits for the piece (at most 128 KiB) that a peer is copying just then, never for a
 * peer's page faults.
 *
 * ENOENT: not an exposure of this session (any more), as after a LIMIC_EXPOSE_ONCE was used up and
 * its copy is over, or after another thread or the module has ended it. Then, too, no peer touches
 * the buffer any more.
 */
struct limic_revoke {
	__aligned_u64 handle;		/* in */
	__aligned_u64 reserved;		/* in: 0 */
};

/* ---- Messages
 * ------------------------------------------------------------------------------------------- */

/*
 * All of these need slots (EPERM without) and a group (ENOTCONN).
 *
 * A request lives in a slot that the caller picks: any whose state is not LIMIC_PENDING (else
 * EBUSY). Its outcome appears in the slot's struct limic_status; the slot is free again at that
 * moment, so nothing has to be released. Messages of one sender match in the order in which they
 * were sent.
 *
 * Outcomes (limic_status.error):
 *   0 delivered -EMSGSIZE receive: the message was longer than the buffer; the first .len bytes are
 *   there. The send succeeds. -ECANCELED LIMIC_IOC_CANCEL -EPIPE the other side left, took its
 *   request back by force, or its memory could not be read or written, before all bytes got
 *   through; .len bytes certainly did
 *   -EFAULT this side's memory could not be read or written while its own call copied. The message
 *   is lost -EINTR this side was killed while copying (nobody reads that, but the process may have
 *   shared the mapping)
 */

#define LIMIC_SEND_IMMEDIATE (1U << 1)	/* .immediate goes beside the bytes, as InfiniBand's immediate data does */
#define LIMIC_SEND_KEEP (1U << 2)	/* if the buffer is pinned, it may stay so (see "Kept pins") */
#define LIMIC_SEND_BUFFERED (1U << 0)	/* if there is no receive yet, the kernel keeps the bytes (LIMIC_MAX_BUFFERED
					 * at most, else EINVAL): the request is done when the call returns */

/*
 * LIMIC_IOC_SEND: if a receive that fits is posted, copy and be done; else pin the buffer and queue
 * it there.
 *
 * EPIPE: the rank has left, or has no slots. ESRCH: it has not come yet. EINVAL: not a rank of the
 * group. ENOBUFS: the receiver's unexpected queue is full; try again when it has had time to
 * receive. EFAULT, EAGAIN: as for LIMIC_IOC_EXPOSE.
 */
struct limic_send {
	__aligned_u64 iov;		/* in: address of struct limic_iov[nr_iov] */
	__u32 nr_iov;			/* in: 0 .. LIMIC_MAX_IOV */
	__u32 flags;			/* in: LIMIC_SEND_* */
	__aligned_u64 tag;		/* in */
	__aligned_u64 cookie;		/* in: for limic_status.cookie */
	__u32 rank;			/* in: receiver; one's own rank is allowed */
	__u32 slot;			/* in */
	__u32 state;			/* out: LIMIC_PENDING or LIMIC_DONE */
	__u32 reserved0;		/* in: 0 */
	__aligned_u64 immediate;	/* in: with LIMIC_SEND_IMMEDIATE, else 0 */
	__aligned_u64 reserved;		/* in: 0 */
};

#define LIMIC_RECV_KEEP (1U << 1)	/* if the buffer is pinned, it may stay so (see "Kept pins") */
#define LIMIC_RECV_MESSAGE (1U << 0)	/* receive the message that LIMIC_IOC_PROBE took: .message names it, tag, mask
					 * and rank must be 0 */

/*
 * LIMIC_IOC_RECV: if a message that fits is there, copy it and be done; else pin the buffer and
 * queue it. A message fits if the rank is the sender's or LIMIC_ANY_RANK and (tag ^ its tag) & mask
 * == 0.
 *
 * EPIPE: that rank has left, and no message of it is here. A receive that is already posted ends so
 * too; receives from any rank stay: watch limic_status_header.departures. ENOENT: no such message
 * was taken. EFAULT, EAGAIN: as for LIMIC_IOC_EXPOSE.
 */
struct limic_recv {
	__aligned_u64 iov;		/* in: address of struct limic_iov[nr_iov] */
	__u32 nr_iov;			/* in: 0 .. LIMIC_MAX_IOV */
	__u32 flags;			/* in: LIMIC_RECV_* */
	__aligned_u64 tag;		/* in */
	__aligned_u64 mask;		/* in: bits that must be equal */
	__aligned_u64 cookie;		/* in: for limic_status.cookie */
	__aligned_u64 message;		/* in: with LIMIC_RECV_MESSAGE, else 0 */
	__u32 rank;			/* in: sender, or LIMIC_ANY_RANK */
	__u32 slot;			/* in */
	__u32 state;			/* out: LIMIC_PENDING or LIMIC_DONE */
	__u32 reserved0;		/* in: 0 */
};

#define LIMIC_PROBE_IMMEDIATE (1U << 1)	/* out: the message has a word beside its bytes */
#define LIMIC_PROBE_TAKE (1U << 0)	/* take the message out of the queue: only LIMIC_RECV_MESSAGE finds it then
					 * (MPI_Mprobe). Receive it; else it goes with the session */

/* LIMIC_IOC_PROBE: the oldest message that fits and is here. EAGAIN: none. EPIPE: none, and that
 * rank has left. */
struct limic_probe {
	__aligned_u64 tag;		/* in: as in struct limic_recv; out: of the message */
	__aligned_u64 mask;		/* in */
	__u32 rank;			/* in: sender, or LIMIC_ANY_RANK; out: sender */
	__u32 flags;			/* in: LIMIC_PROBE_TAKE or 0; out: LIMIC_PROBE_IMMEDIATE or 0 */
	__aligned_u64 len;		/* out: bytes of the message */
	__aligned_u64 message;		/* out: with LIMIC_PROBE_TAKE its name, else 0 */
	__aligned_u64 immediate;	/* in: 0; out: the word, 0 without one */
	__aligned_u64 reserved[2];	/* in: 0 */
};

#define LIMIC_CANCEL_FORCE (1U << 0)	/* also if it has matched (LIMIC_FEATURE_END) */

/*
 * LIMIC_IOC_CANCEL: take back a request that has not matched. Its outcome is then -ECANCELED, and
 * the memory is the caller's when the call returns.
 *
 * With LIMIC_CANCEL_FORCE also one that has matched: the memory is shut, as LIMIC_IOC_REVOKE does
 * it, the outcome here is -ECANCELED with a .len of 0, whatever got through, and the message is
 * lost. The other side is told -EPIPE, or, if it was past its last byte, that all went well.
 *
 * EALREADY: it has matched; its outcome comes by itself. With LIMIC_CANCEL_FORCE: it is over, or
 * about to be, and no other process touches the memory. EINVAL: nothing was posted in this slot.
 */
struct limic_cancel {
	__u32 slot;			/* in */
	__u32 flags;			/* in: LIMIC_CANCEL_FORCE or 0 */
	__aligned_u64 reserved;		/* in: 0 */
};

#define LIMIC_WAIT_ARRIVAL (1U << 0)	/* also return when limic_status_header.arrivals is not .arrivals */
#define LIMIC_WAIT_DEPARTURE (1U << 1)	/* also return when limic_status_header.departures is not .departures */

/*
 * LIMIC_IOC_WAIT: sleep until at least .min of the slots are not pending, or one of the events in
 * .flags has happened, or the time is up. With timeout_ns == 0 it is a test. It returns 0 in all
 * three cases; the output fields say why.
 *
 * poll() on the descriptor gives POLLIN if a completion, an arrival or a departure happened since
 * the last LIMIC_IOC_WAIT (for edge-triggered epoll: since it was reported), and POLLHUP when the
 * session is over.
 *
 * EINTR: a signal came, and its handler has run. A wait without limit goes on by itself if the
 * handler was installed with SA_RESTART.
 */
struct limic_wait {
	__aligned_u64 slots;		/* in: address of __u32[nr] */
	__u32 nr;			/* in: 0 .. LIMIC_MAX_WAIT */
	__u32 min;			/* in: 0 .. nr; 0: only the events and the time count */
	__aligned_s64 timeout_ns;	/* in: < 0: no limit */
	__u32 flags;			/* in: LIMIC_WAIT_* */
	__u32 done;			/* out: how many of the slots are not pending */
	__u32 arrivals;			/* in: the value that the caller has seen; out: the value now */
	__u32 departures;		/* in: the value that the caller has seen; out: the value now */
	__aligned_u64 reserved[3];	/* in: 0 */
};

/* ---- Calls
 * ------------------------------------------------------------------------------------------------------
 */

#define LIMIC_IOC_HELLO _IOWR(LIMIC_IOC_MAGIC, 0x00, struct limic_hello)
#define LIMIC_IOC_JOIN _IOWR(LIMIC_IOC_MAGIC, 0x01, struct limic_join)
#define LIMIC_IOC_MEMBER _IOWR(LIMIC_IOC_MAGIC, 0x02, struct limic_member)
/* Does nothing, before LIMIC_IOC_HELLO too: what a trap costs. */
#define LIMIC_IOC_PING _IO(LIMIC_IOC_MAGIC, 0x03)
#define LIMIC_IOC_END _IO(LIMIC_IOC_MAGIC, 0x04)

#define LIMIC_IOC_EXPOSE _IOWR(LIMIC_IOC_MAGIC, 0x10, struct limic_expose)
#define LIMIC_IOC_COPY _IOWR(LIMIC_IOC_MAGIC, 0x11, struct limic_copy)
#define LIMIC_IOC_REVOKE _IOW(LIMIC_IOC_MAGIC, 0x12, struct limic_revoke)

#define LIMIC_IOC_SEND _IOWR(LIMIC_IOC_MAGIC, 0x20, struct limic_send)
#define LIMIC_IOC_RECV _IOWR(LIMIC_IOC_MAGIC, 0x21, struct limic_recv)
#define LIMIC_IOC_PROBE _IOWR(LIMIC_IOC_MAGIC, 0x22, struct limic_probe)
#define LIMIC_IOC_CANCEL _IOW(LIMIC_IOC_MAGIC, 0x23, struct limic_cancel)
#define LIMIC_IOC_WAIT _IOWR(LIMIC_IOC_MAGIC, 0x24, struct limic_wait)

#endif /* _UAPI_LIMIC_H */

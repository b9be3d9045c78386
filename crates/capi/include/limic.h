/*
 * limic: tagged messages between processes, on one machine and between machines.
 *
 * Made from crates/capi/src by cbindgen (cargo xtask header): do not edit.
 *
 * RETURN VALUES
 *   Functions return LIMIC_OK (0) or a negative limic_error. limic_strerror gives the code's text,
 *   limic_last_error what happened in particular, for the calling thread. After an error, what the
 *   function would have set is unchanged, except where it says otherwise.
 *
 * HANDLES
 *   Endpoints, requests, messages, loans and regions are numbers, not addresses. One that is stale,
 *   belongs to another endpoint, or was never given out gives an error code. A handle of all zeros
 *   (LIMIC_..._NULL) is none.
 *
 * MEMORY
 *   A buffer belongs to the library from the start of an operation until a function reports that
 *   its request is done: leave it alone, and do not free it. Lists of pieces, settings and texts
 *   are read during the call only. Lengths are bytes, times are nanoseconds.
 *
 * THREADS
 *   An endpoint is used by one thread at a time, or by any at any time if it was opened so: see
 *   limic_options.threads. Different endpoints are independent of each other. limic_strerror,
 *   limic_last_error, limic_version, limic_path_count and limic_path_name may be called by any
 *   thread at any time. Nothing may be called from a signal handler; a call on an endpoint that the
 *   same thread is inside of gives LIMIC_ERR_BUSY. No thread of the library moves messages: they
 *   move while some call of the endpoint runs.
 *
 * FORK
 *   A forked child cannot use its parent's endpoints (LIMIC_ERR_FORKED), but can open its own.
 *
 * GROWTH
 *   Structures begin with their size, set by the caller; begin with their LIMIC_..._INIT. A program
 *   runs with every library of the same major version (soname liblimic.so.1) that is not older than
 *   its header.
 */


#ifndef LIMIC_H
#define LIMIC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#ifdef __cplusplus
#define LIMIC_LITERAL_(type) type
#else
#define LIMIC_LITERAL_(type) (type)
#endif

/** No endpoint, request, message, loan, region. */
#define LIMIC_ENDPOINT_NULL LIMIC_LITERAL_(limic_endpoint){0}
#define LIMIC_REQUEST_NULL LIMIC_LITERAL_(limic_request){0, 0}
#define LIMIC_MESSAGE_NULL LIMIC_LITERAL_(limic_message){0, 0}
#define LIMIC_LOAN_NULL LIMIC_LITERAL_(limic_loan){0, 0}
#define LIMIC_REGION_NULL LIMIC_LITERAL_(limic_region){0, 0}

/** The tag of 64 bits that a context and a tag are, as of a status: see limic_tag_send. */
#define LIMIC_TAG(context, tag) ((uint64_t)(context) << 32 | (uint32_t)(tag))

/** First values of structures: limic_status status = LIMIC_STATUS_INIT; */
#define LIMIC_STATUS_INIT {sizeof(limic_status), 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define LIMIC_OPTIONS_INIT {sizeof(limic_options), 0, 0, 0, NULL}
#define LIMIC_COUNTERS_INIT {sizeof(limic_counters), 0, {0, 0}, {0, 0}, 0, 0, 0, {0}}


/**
 * The version of the interface that this header describes: major version * 65536 + minor version.
 */
#define LIMIC_VERSION 0x00010001

/** As the source of a receive or probe: any peer. */
#define LIMIC_ANY_SOURCE UINT32_MAX

/** As the tag of a receive or probe: any tag. No message can have this tag. */
#define LIMIC_ANY_TAG UINT32_MAX

/** The highest context id; the one above is the library's. */
#define LIMIC_CONTEXT_MAX (UINT32_MAX - 1)

/** The highest tag of 64 bits; those above are the library's. */
#define LIMIC_TAG_MAX UINT64_C(0xfffffffeffffffff)

/**
 * Every path within one node, picked for each message, and the networks to other nodes
 * (LIMIC_FABRIC). The default.
 */
#define LIMIC_KIND_HYBRID 0

/** Shared memory only: no process reads another's memory, and no other node is reached. */
#define LIMIC_KIND_SHM 1

/**
 * Messages that the kernel module matches and copies: needs /dev/limic. All endpoints that talk to
 * each other have to be of this kind and in one group (LIMIC_KERNEL_GROUP; by itself it is the
 * launcher's job).
 */
#define LIMIC_KIND_KERNEL 2

/**
 * One thread owns the endpoint: the one that opened it, until it is handed on
 * (limic_endpoint_release, limic_endpoint_adopt). The default, and the quickest.
 */
#define LIMIC_THREADS_OWNER 0

/**
 * Any thread may call, one at a time: the program sees to that with its own lock. A call while
 * another thread is inside fails with LIMIC_ERR_THREAD.
 */
#define LIMIC_THREADS_SERIALIZED 1

/**
 * Since 1.1: any thread may call at any time; the library has the lock, and a call that waits lets
 * other threads in meanwhile. limic_endpoint_close and limic_world_finalize fail with
 * LIMIC_ERR_THREAD while another thread waits.
 */
#define LIMIC_THREADS_MULTIPLE 2

/** Length of an endpoint's address in bytes. */
#define LIMIC_ADDRESS_LENGTH 64

/** As a time-out: wait without end. Any negative number means the same. */
#define LIMIC_FOREVER (-1)

/** As a flag of limic_tag_isendv: the word immediate goes with the message. */
#define LIMIC_SEND_IMMEDIATE 1

/**
 * As a flag of limic_tag_isendv: the request is done when the message reaches its receiver whatever
 * becomes of this process.
 */
#define LIMIC_SEND_DELIVERED 2

/**
 * As a flag of limic_tag_isendv: the request is done when a receive has taken the message, as in
 * MPI's synchronous mode. A probe takes nothing.
 */
#define LIMIC_SEND_MATCHED 4

/** As a level of limic_log_to: something does not work. */
#define LIMIC_LOG_ERROR 1

/**
 * As a level of limic_log_to: something to be looked at. Without a function, some of these go to
 * standard error (LIMIC_LOG=off ends that).
 */
#define LIMIC_LOG_WARNING 2

/** As a level of limic_log_to: worth knowing. */
#define LIMIC_LOG_INFO 3

/** As a level of limic_log_to: for those who look for a fault. */
#define LIMIC_LOG_DEBUG 4

/**
 * What the functions return: LIMIC_OK or a negative code. limic_strerror gives its text,
 * limic_last_error what happened in particular.
 */
typedef enum limic_error {
    /** It worked. */
    LIMIC_OK = 0,
    /** A pointer is NULL that must not be. */
    LIMIC_ERR_NULL = -1,
    /**
     * The field size of a structure is 0 or too small, or a structure has set fields that this
     * library does not know, or a buffer is too small for what it is to hold.
     */
    LIMIC_ERR_SIZE = -2,
    /**
     * An argument is out of range: an unknown enumeration value, a reserved tag or context, a
     * length above PTRDIFF_MAX, a negative count.
     */
    LIMIC_ERR_INVALID = -3,
    /**
     * There is no such endpoint: never opened, or closed; or the handles of one call belong to
     * different endpoints.
     */
    LIMIC_ERR_ENDPOINT = -4,
    /** The endpoint is in the hands of another thread. */
    LIMIC_ERR_THREAD = -5,
    /** The endpoint is inside of another call of this thread: this is a signal handler. */
    LIMIC_ERR_BUSY = -6,
    /** The endpoint belongs to the process that this one was forked from. */
    LIMIC_ERR_FORKED = -7,
    /**
     * The request, message, loan or region is not known (any more): completed, used or given back
     * already.
     */
    LIMIC_ERR_REQUEST = -8,
    /** Not within the time given. Nothing was consumed: the request is still pending. */
    LIMIC_ERR_TIMEOUT = -9,
    /**
     * The message was longer than the room for it. What fits was delivered; limic_status.length is
     * the full length.
     */
    LIMIC_ERR_TRUNCATED = -10,
    /** The operation was cancelled before it matched. */
    LIMIC_ERR_CANCELLED = -11,
    /**
     * The other side is gone: its process ended, or it closed its endpoint. limic_status.source
     * names it.
     */
    LIMIC_ERR_PEER_FAILED = -12,
    /** The endpoint never handed out this peer, or the job does not have this rank. */
    LIMIC_ERR_UNKNOWN_PEER = -13,
    /** The bytes are not the address of an endpoint. */
    LIMIC_ERR_ADDRESS = -14,
    /**
     * The peer exposes no region under this key (any more), or a peer is in the middle of an access
     * to a region of this endpoint that is to be revoked.
     */
    LIMIC_ERR_REGION = -15,
    /** The access reaches outside of the region, or is longer than the loan. */
    LIMIC_ERR_RANGE = -16,
    /** No path can carry the message. */
    LIMIC_ERR_NO_PATH = -17,
    /** Memory, or a table of fixed size, is used up. */
    LIMIC_ERR_NO_MEMORY = -18,
    /** The operating system refused something. */
    LIMIC_ERR_SYSTEM = -19,
    /** A setting (environment, file, or limic_options.settings) makes no sense. */
    LIMIC_ERR_SETTINGS = -20,
    /** The job's start-up failed. */
    LIMIC_ERR_STARTUP = -21,
    /** The endpoint was not opened by limic_world_open. */
    LIMIC_ERR_NOT_WORLD = -22,
    /**
     * A fault in this library. The endpoint takes no further calls but limic_endpoint_close. Until
     * that has returned, buffers of its operations may still be written, also of a call that waited
     * in another thread and gives this code.
     */
    LIMIC_ERR_INTERNAL = -23,
} limic_error;

/**
 * How an endpoint is opened. limic_options options = LIMIC_OPTIONS_INIT; and NULL mean the
 * defaults.
 */
typedef struct limic_options {
    /** Size of this structure in bytes, set by the caller. */
    uint32_t size;
    /** LIMIC_KIND_HYBRID, LIMIC_KIND_SHM or LIMIC_KIND_KERNEL. */
    uint32_t kind;
    /** LIMIC_THREADS_OWNER, LIMIC_THREADS_SERIALIZED or LIMIC_THREADS_MULTIPLE. */
    uint32_t threads;
    /** 0. */
    uint32_t reserved;
    /**
     * Settings of the form LIMIC_NAME=value, with a NULL behind the last; or NULL. They win over
     * the environment. limic info --all lists the names. The strings are the caller's; the library
     * copies what it keeps.
     */
    const char *const *settings;
} limic_options;

/**
 * An endpoint. Made by limic_endpoint_open and limic_world_open, ended by limic_endpoint_close and
 * limic_world_finalize. Copies of the value are the same endpoint.
 */
typedef struct limic_endpoint {
    /** Private. */
    uint64_t id;
} limic_endpoint;

/**
 * What a finished operation or a probe tells. The caller sets size; everything else is set by the
 * library, fields that it does not know yet to 0. limic_status status = LIMIC_STATUS_INIT;
 */
typedef struct limic_status {
    /**
     * Size of this structure in bytes, set by the caller. In an array, that of the first one counts
     * for all.
     */
    uint32_t size;
    /** LIMIC_OK, or what went wrong with this operation. */
    int error;
    /**
     * The other side: the sender of a received message, the receiver of a sent one. If a peer
     * failed: which. LIMIC_ANY_SOURCE where there is none.
     */
    uint32_t source;
    /** The message's tag. */
    uint32_t tag;
    /** The message's context. */
    uint32_t context;
    /** 0. */
    uint32_t reserved;
    /**
     * The length of the message in bytes, as it was sent: more than the buffer's for
     * LIMIC_ERR_TRUNCATED.
     */
    uint64_t length;
    /** Since 1.1: the word that came beside the bytes, if has_immediate is 1; else 0. */
    uint64_t immediate;
    /** Since 1.1: 1 if the sender gave such a word (LIMIC_SEND_IMMEDIATE), else 0. */
    uint32_t has_immediate;
    /** 0. */
    uint32_t reserved_too;
} limic_status;

/**
 * An operation under way. Set by the functions that start one, and set back to LIMIC_REQUEST_NULL
 * by the functions that wait when it is done. Copies name the same operation, which can be waited
 * for once.
 */
typedef struct limic_request {
    /** Private. */
    uint64_t endpoint;
    /** Private. */
    uint64_t number;
} limic_request;

/**
 * A message that a matched probe took out of matching. Receive it with limic_mrecv, limic_imrecv or
 * limic_imrecvv, or throw it away with limic_message_drop.
 */
typedef struct limic_message {
    /** Private. */
    uint64_t endpoint;
    /** Private. */
    uint64_t number;
} limic_message;

/**
 * A buffer in shared memory: lent by limic_loan_get, or a message received by limic_loan_recv. Ends
 * when it is sent or given back.
 */
typedef struct limic_loan {
    /** Private. */
    uint64_t endpoint;
    /** Private. */
    uint64_t number;
} limic_loan;

/**
 * Memory that peers may read and write. Made by limic_region_allocate or limic_region_expose, ended
 * by limic_region_revoke.
 */
typedef struct limic_region {
    /** Private. */
    uint64_t endpoint;
    /** Private. */
    uint64_t number;
} limic_region;

/** Messages and bytes of payload. */
typedef struct limic_traffic {
    /** Messages. */
    uint64_t messages;
    /** Bytes of payload. */
    uint64_t bytes;
} limic_traffic;

/**
 * What an endpoint has moved since it was opened. limic_counters counters = LIMIC_COUNTERS_INIT;
 */
typedef struct limic_counters {
    /** Size of this structure in bytes, set by the caller. */
    uint32_t size;
    /** 0. */
    uint32_t reserved;
    /** Sent to all peers. */
    struct limic_traffic sent;
    /** Received from all peers. */
    struct limic_traffic received;
    /** Messages that arrived before their receive was posted. */
    uint64_t unexpected;
    /** Bytes of unexpected messages that are held now. */
    uint64_t unexpected_bytes;
    /** Times that the endpoint slept. */
    uint64_t sleeps;
    /** Sends by size: class 0 is the empty message, class k holds 2^(k-1) to 2^k - 1 bytes. */
    uint64_t sizes[65];
} limic_counters;

/**
 * A function that gets the lines of the log: what limic_log_to was given as context, the line's
 * level, and the line, without an end of line, valid during the call.
 */
typedef void (*limic_log_function)(void *context, int level, const char *text);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* ---- Error codes, their text, and the detail of the last error of a thread - */

/**
 * The text of an error code: one line, never NULL, also for a number that is no code. The memory is
 * the library's and stays valid.
 */
const char *limic_strerror(int code);

/**
 * What went wrong in the last call of this thread that failed: with the peer, the lengths, the
 * system's error and what to do, as far as they are known. Never NULL; empty if no call failed yet.
 * A call in a signal handler that gives LIMIC_ERR_BUSY leaves it as it is.
 *
 * The memory is the library's. It stays valid until the next call of this thread that fails, or the
 * thread ends.
 */
const char *limic_last_error(void);

/**
 * The version of the interface that the library has: major version * 65536 + minor version. A
 * program that was built with an older minor version of the same major version runs with it:
 * compare with LIMIC_VERSION.
 */
uint32_t limic_version(void);

/* ---- Endpoints: open, close, addresses, peers, and the thread that owns one  */

/**
 * Opens an endpoint: memory for its messages, and a place where peers find it. Nobody is contacted.
 *
 * - options: how; NULL for the defaults.
 * - endpoint: set to the endpoint. Close it with limic_endpoint_close.
 *
 * Errors: LIMIC_ERR_SETTINGS, LIMIC_ERR_NO_MEMORY, LIMIC_ERR_SYSTEM; misuse.
 *
 * Requires: options is NULL or a structure with its size set, endpoint is NULL or writable.
 */
int limic_endpoint_open(const struct limic_options *options, struct limic_endpoint *endpoint);

/**
 * Closes an endpoint of either kind. What was sent goes out as far as peers take it within the
 * linger time (LIMIC_LINGER_MS); the peers are told; loans and regions end. Operations under way
 * are over when it returns: their buffers are the caller's, their requests void.
 *
 * For a world this leaves the job without waiting for the others; limic_world_finalize waits.
 *
 * Two buffers are exceptions. If the linger time is over and a receiver is in the middle of a
 * single copy, it gets what lies in the buffer then. If a sender is stopped in the middle of a
 * write into a buffer, it may write there until it goes on or ends; a warning names it.
 *
 * Errors: LIMIC_ERR_REGION if a peer is stopped in the middle of an access to a region. The
 * endpoint is closed, but memory of limic_region_expose may be read and written until that peer has
 * ended; memory of limic_region_allocate is never freed.
 */
int limic_endpoint_close(struct limic_endpoint endpoint);

/**
 * The address of an endpoint: LIMIC_ADDRESS_LENGTH bytes that travel to the other processes in any
 * way, and that limic_connect takes there.
 *
 * - address: where to put it. length: bytes of room there.
 *
 * Whoever holds an address can exchange messages with the endpoint: hand it to the job's own
 * processes only.
 *
 * Requires: address is NULL or writable for length bytes.
 */
int limic_address(struct limic_endpoint endpoint, void *address, size_t length);

/**
 * Decodes an address and names its owner. Nobody is contacted: a peer that is gone shows at the
 * first message. The same address gives the same peer.
 *
 * - address, length: what limic_address gave there.
 * - peer: set to the peer, a small number that means something at this endpoint only.
 *
 * Errors: LIMIC_ERR_ADDRESS; LIMIC_ERR_NO_PATH if it is on another machine, and no network leads
 * there; misuse.
 *
 * Requires: address is NULL or readable for length bytes, peer is NULL or writable.
 */
int limic_connect(struct limic_endpoint endpoint, const void *address, size_t length,
        uint32_t *peer);

/**
 * The address of a peer, also of one that made the first contact itself. Arguments as for
 * limic_address.
 *
 * Errors: LIMIC_ERR_UNKNOWN_PEER; misuse.
 *
 * Requires: as limic_address.
 */
int limic_peer_address(struct limic_endpoint endpoint, uint32_t peer, void *address, size_t length);

/**
 * The endpoint as its own peer, for messages to oneself.
 *
 * Requires: peer is NULL or writable.
 */
int limic_myself(struct limic_endpoint endpoint, uint32_t *peer);

/**
 * Gives the endpoint up: the next thread that calls limic_endpoint_adopt owns it. Requests, loans
 * and regions go with it. With LIMIC_THREADS_SERIALIZED and LIMIC_THREADS_MULTIPLE there is nothing
 * to do, and nothing is done.
 */
int limic_endpoint_release(struct limic_endpoint endpoint);

/**
 * Takes an endpoint that its owner has given up, or whose owner has ended.
 *
 * Errors: LIMIC_ERR_THREAD if another thread still owns it.
 */
int limic_endpoint_adopt(struct limic_endpoint endpoint);

/* ---- Worlds: endpoints with a job around them ------------------------------ */

/**
 * Joins the job that this process was started in, by limic run, Hydra's mpiexec (PMI-1), prterun or
 * srun --mpi=pmix (PMIx); a process that nobody started is a job of one rank. All ranks of the job
 * call it. The peers 0 to size - 1 are the ranks.
 *
 * Arguments as for limic_endpoint_open. Errors: as there, and LIMIC_ERR_STARTUP (which launcher,
 * which step, what to do).
 *
 * Requires: as limic_endpoint_open.
 */
int limic_world_open(const struct limic_options *options, struct limic_endpoint *endpoint);

/**
 * This process's number in the job, 0 to size - 1.
 *
 * Requires: rank is NULL or writable.
 */
int limic_world_rank(struct limic_endpoint endpoint, uint32_t *rank);

/**
 * How many processes the job has.
 *
 * Requires: size is NULL or writable.
 */
int limic_world_size(struct limic_endpoint endpoint, uint32_t *size);

/**
 * How the job was started: "pmi1", "pmix" or "single". The memory is the library's and stays valid.
 *
 * Requires: launcher is NULL or writable.
 */
int limic_world_launcher(struct limic_endpoint endpoint, const char **launcher);

/**
 * Returns when all ranks have called it. With LIMIC_THREADS_MULTIPLE each thread's call counts as
 * one of its rank.
 *
 * Errors: LIMIC_ERR_PEER_FAILED if a rank is gone, at every other one, with its name in
 * limic_last_error; misuse.
 */
int limic_world_barrier(struct limic_endpoint endpoint);

/**
 * Leaves the job in good order and closes the endpoint: waits until all ranks do, so that nobody
 * misses a message. The handle is void afterwards, also after an error of the transport.
 *
 * Errors: LIMIC_ERR_PEER_FAILED if a rank died, LIMIC_ERR_STARTUP, LIMIC_ERR_INTERNAL for an
 * endpoint that failed; LIMIC_ERR_REGION as limic_endpoint_close; and, with the handle still valid,
 * misuse.
 */
int limic_world_finalize(struct limic_endpoint endpoint);

/**
 * Ends the whole job: every rank is killed, and the launcher returns code. Does not return, unless
 * the handle is no world, or another thread owns it (LIMIC_ERR_THREAD). Waits for no peer, and with
 * LIMIC_THREADS_MULTIPLE for no other thread. An endpoint that failed (LIMIC_ERR_INTERNAL) does it
 * too.
 *
 * - message: what the launcher is to print; may be NULL.
 *
 * Requires: message is NULL or a string.
 */
int limic_world_abort(struct limic_endpoint endpoint, int code, const char *message);

/* ---- Send and receive, of one piece of memory ------------------------------ */

/**
 * Sends length bytes at data to the peer destination under tag and context, and returns when data
 * may be used again. That does not mean that the message was received.
 *
 * - data: may be NULL if length is 0.
 * - destination: a peer of this endpoint; in a world, the rank.
 * - tag: anything but LIMIC_ANY_TAG. context: at most LIMIC_CONTEXT_MAX.
 *
 * Errors: LIMIC_ERR_PEER_FAILED, LIMIC_ERR_UNKNOWN_PEER, LIMIC_ERR_NO_PATH, LIMIC_ERR_NO_MEMORY;
 * misuse.
 *
 * Requires: data is readable for length bytes.
 */
int limic_send(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint32_t tag, uint32_t context);

/**
 * Receives one message into length bytes at data, and waits for it.
 *
 * - source: a peer, or LIMIC_ANY_SOURCE. tag: a tag, or LIMIC_ANY_TAG. context: always counts.
 * - status: who sent it, its tag and its length; NULL if that is not wanted.
 *
 * Messages of one peer in one context match in the order in which they were sent.
 *
 * Errors: LIMIC_ERR_TRUNCATED (the first length bytes were delivered), LIMIC_ERR_PEER_FAILED (the
 * peer named; for any source, the death of any peer, which ends all such receives that are posted,
 * or else the next one), LIMIC_ERR_UNKNOWN_PEER; misuse.
 *
 * Requires: data is writable for length bytes and nobody else touches them meanwhile; status is
 * NULL or a structure with its size set.
 */
int limic_recv(struct limic_endpoint endpoint, void *data, size_t length, uint32_t source,
        uint32_t tag, uint32_t context, struct limic_status *status);

/**
 * Starts a send and does not wait. data belongs to the library until the request is done. Over TCP
 * a short one that follows another one at once goes with the next call that waits, tests or makes
 * progress.
 *
 * - request: set to the operation; wait for it with limic_wait or its relatives.
 *
 * Errors: as limic_send, now or from the request. After an error *request is unchanged and data is
 * the caller's.
 *
 * Requires: data is readable for length bytes, and nobody writes there, until the request is done;
 * request is NULL or writable.
 */
int limic_isend(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint32_t tag, uint32_t context, struct limic_request *request);

/**
 * Starts a receive and does not wait. data belongs to the library until the request is done.
 *
 * Arguments as for limic_recv; the status comes from the request. Receives match in the order in
 * which they were posted.
 *
 * Errors: as limic_recv, now or from the request. After an error *request is unchanged and data is
 * the caller's.
 *
 * Requires: data is writable for length bytes, and nobody else touches them, until the request is
 * done; request is NULL or writable.
 */
int limic_irecv(struct limic_endpoint endpoint, void *data, size_t length, uint32_t source,
        uint32_t tag, uint32_t context, struct limic_request *request);

/**
 * Sends one message and receives another one at the same time: the way to exchange without a
 * deadlock.
 *
 * Arguments as for limic_send and limic_recv, with one context. Both operations are over when it
 * returns, also after an error.
 *
 * Errors: those of the receive, else those of the send. If the receive cannot be started, nothing
 * is sent; if the send cannot be started, the receive is cancelled.
 *
 * Requires: as limic_send and limic_recv; the two buffers do not overlap.
 */
int limic_sendrecv(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint32_t tag, void *receive_data, size_t receive_length,
        uint32_t source, uint32_t receive_tag, uint32_t context, struct limic_status *status);

/* ---- Send and receive of memory in several pieces -------------------------- */

/**
 * Like limic_isend, for a message in count pieces, sent one behind the other. The list itself may
 * be reused when it returns; the pieces belong to the library until the request is done.
 *
 * Requires: pieces is readable for count entries, and each piece as limic_isend says.
 */
int limic_isendv(struct limic_endpoint endpoint, const struct iovec *pieces, int count,
        uint32_t destination, uint32_t tag, uint32_t context, struct limic_request *request);

/**
 * Like limic_irecv, into count pieces that are filled one after the other.
 *
 * Requires: pieces is readable for count entries, and each piece as limic_irecv says; the pieces do
 * not overlap.
 */
int limic_irecvv(struct limic_endpoint endpoint, const struct iovec *pieces, int count,
        uint32_t source, uint32_t tag, uint32_t context, struct limic_request *request);

/**
 * Like limic_imrecv, into count pieces that are filled one after the other.
 *
 * Requires: as limic_irecvv; message is NULL or readable and writable.
 */
int limic_imrecvv(struct limic_message *message, const struct iovec *pieces, int count,
        struct limic_request *request);

/* ---- Requests: test, wait, cancel ------------------------------------------ */

/**
 * Looks whether an operation is done, after moving messages along once.
 *
 * - request: set to LIMIC_REQUEST_NULL if it is done. LIMIC_REQUEST_NULL is done at once, with an
 *   empty status.
 * - done: set to 1 if it is done, else 0.
 * - status: set if it is done; may be NULL.
 *
 * Returns what became of the operation if it is done, LIMIC_OK if not. Errors: LIMIC_ERR_REQUEST,
 * and those of the operation.
 *
 * Requires: request and done are NULL or valid; status is NULL or a structure with its size set.
 */
int limic_test(struct limic_request *request, int *done, struct limic_status *status);

/**
 * Waits until an operation is done, at most timeout_ns nanoseconds; LIMIC_FOREVER waits without
 * end, 0 looks once.
 *
 * request and status as for limic_test. Returns what became of the operation, or LIMIC_ERR_TIMEOUT:
 * the request is then still pending. Waiting polls, then yields, then sleeps.
 *
 * Requires: as limic_test.
 */
int limic_wait(struct limic_request *request, int64_t timeout_ns, struct limic_status *status);

/**
 * Asks that an operation be cancelled. The request stays pending and is waited for as usual: it
 * ends with LIMIC_ERR_CANCELLED, or as if nothing had been asked if it had matched already.
 *
 * Errors: LIMIC_ERR_REQUEST if it is not pending any more.
 *
 * Requires: request is NULL or readable.
 */
int limic_cancel(const struct limic_request *request);

/**
 * Whether an operation is done, without moving messages along, freeing the request or telling what
 * became of it.
 *
 * - done: set to 1 or 0; 1 also for a request that is not known any more.
 *
 * Requires: request is NULL or readable, done is NULL or writable.
 */
int limic_is_done(const struct limic_request *request, int *done);

/* ---- Lists of requests: wait for one, some or all -------------------------- */

/**
 * Waits until one of count operations is done.
 *
 * - requests: of one endpoint; LIMIC_REQUEST_NULL entries are passed over. The one that is done
 *   becomes LIMIC_REQUEST_NULL.
 * - index: set to its position; to -1 if no entry is a request.
 * - timeout_ns, status: as for limic_wait.
 *
 * Returns what became of that operation, or LIMIC_ERR_TIMEOUT (with -1 in index).
 *
 * Requires: requests is valid for count entries, index is NULL or writable, status as for
 * limic_test.
 */
int limic_wait_any(int count, struct limic_request *requests, int64_t timeout_ns, int *index,
        struct limic_status *status);

/**
 * Waits until at least one of count operations is done, and takes all that are.
 *
 * - requests: as for limic_wait_any.
 * - done: set to how many are done; to 0 if no entry is a request.
 * - indices: room for count positions; the first done are set.
 * - statuses: room for count, in the order of indices; or NULL.
 *
 * Returns LIMIC_OK, the first error of an operation that is done (the statuses tell whose), or
 * LIMIC_ERR_TIMEOUT.
 *
 * Requires: as limic_wait_any; indices is writable for count entries, and statuses is NULL or valid
 * for count structures, the first of which has its size set.
 */
int limic_wait_some(int count, struct limic_request *requests, int64_t timeout_ns, int *done,
        int *indices, struct limic_status *statuses);

/**
 * Waits until all of count operations are done.
 *
 * - requests: as for limic_wait_any; those that are done become LIMIC_REQUEST_NULL, also if it
 *   returns an error.
 * - statuses: room for count, in the order of requests; or NULL. Those of entries that were
 *   LIMIC_REQUEST_NULL or are still pending are left as they are.
 *
 * Returns LIMIC_OK, or the first error: that of an operation (the statuses tell whose; the others
 * are waited for all the same), or LIMIC_ERR_TIMEOUT if some are still pending.
 *
 * Requires: as limic_wait_some.
 */
int limic_wait_all(int count, struct limic_request *requests, int64_t timeout_ns,
        struct limic_status *statuses);

/* ---- Probe and matched probe ----------------------------------------------- */

/**
 * Waits until a message that fits has arrived, at most timeout_ns nanoseconds (0 looks once,
 * LIMIC_FOREVER waits without end), and describes it without taking it.
 *
 * Arguments as for limic_recv. Errors: LIMIC_ERR_TIMEOUT if there is none, LIMIC_ERR_PEER_FAILED,
 * LIMIC_ERR_UNKNOWN_PEER; misuse.
 *
 * Requires: status is NULL or a structure with its size set.
 */
int limic_probe(struct limic_endpoint endpoint, uint32_t source, uint32_t tag, uint32_t context,
        int64_t timeout_ns, struct limic_status *status);

/**
 * Like limic_probe, but takes the message out of matching: only limic_mrecv, limic_imrecv and
 * limic_imrecvv can receive it. Between probe and receive nobody else can come.
 *
 * - message: set to the message. Receive it or drop it: its sender may be waiting.
 *
 * Requires: as limic_probe; message is NULL or writable.
 */
int limic_mprobe(struct limic_endpoint endpoint, uint32_t source, uint32_t tag, uint32_t context,
        int64_t timeout_ns, struct limic_message *message, struct limic_status *status);

/**
 * Receives a message that limic_mprobe took, and waits for it. message becomes LIMIC_MESSAGE_NULL.
 *
 * Errors: as limic_recv; LIMIC_ERR_REQUEST if it was received or dropped already.
 *
 * Requires: as limic_recv; message is NULL or readable and writable.
 */
int limic_mrecv(struct limic_message *message, void *data, size_t length,
        struct limic_status *status);

/**
 * Starts to receive a message that limic_mprobe took. message becomes LIMIC_MESSAGE_NULL; data
 * belongs to the library until the request is done.
 *
 * Requires: as limic_irecv; message is NULL or readable and writable.
 */
int limic_imrecv(struct limic_message *message, void *data, size_t length,
        struct limic_request *request);

/**
 * Throws away a message that limic_mprobe took, so that its sender completes. message becomes
 * LIMIC_MESSAGE_NULL.
 *
 * Requires: message is NULL or readable and writable.
 */
int limic_message_drop(struct limic_message *message);

/* ---- Tags of 64 bits, and masks -------------------------------------------- */

/**
 * Like limic_send, under a tag of 64 bits: at most LIMIC_TAG_MAX.
 *
 * LIMIC_TAG(context, tag) is that of a message of limic_send, and of a status; so the functions
 * with and without a context can be mixed.
 *
 * Requires: as limic_send.
 */
int limic_tag_send(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint64_t tag);

/**
 * Like limic_recv, for a message whose tag agrees with tag in the bits that are 1 in mask.
 *
 * - source: a peer, or LIMIC_ANY_SOURCE.
 * - mask: UINT64_MAX for this tag alone, 0 for any tag whose highest bit is that of tag: the
 *   highest bit always counts, and is 1 in those of a context of 0x80000000 or more. Under a tag
 *   that has it, mask has to keep off the tags above LIMIC_TAG_MAX.
 *
 * The tag is in status. So for any message whose kind, in the lowest byte, is 3:
 *
 *     limic_tag_recv(endpoint, data, sizeof data, LIMIC_ANY_SOURCE, 3, 0xff, &status);
 *     uint64_t tag = LIMIC_TAG(status.context, status.tag);
 *
 * Requires: as limic_recv.
 */
int limic_tag_recv(struct limic_endpoint endpoint, void *data, size_t length, uint32_t source,
        uint64_t tag, uint64_t mask, struct limic_status *status);

/**
 * Like limic_isend, under a tag as of limic_tag_send.
 *
 * Requires: as limic_isend.
 */
int limic_tag_isend(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint64_t tag, struct limic_request *request);

/**
 * Like limic_isendv, under a tag as of limic_tag_send, with more than its bytes, or done later.
 *
 * - flags: 0, or any of LIMIC_SEND_IMMEDIATE, LIMIC_SEND_DELIVERED, LIMIC_SEND_MATCHED.
 * - immediate: with LIMIC_SEND_IMMEDIATE, a word for limic_status.immediate of the receiver.
 *
 * A send that waits for its receive, and tells the number of a frame:
 *
 *     struct iovec piece = {data, length};
 *     limic_tag_isendv(endpoint, &piece, 1, peer, tag, LIMIC_SEND_MATCHED | LIMIC_SEND_IMMEDIATE,
 *                      frame, &request);
 *     limic_wait(&request, LIMIC_FOREVER, NULL);
 *
 * Errors: as limic_isend; LIMIC_ERR_INVALID for another flag; LIMIC_ERR_SYSTEM for
 * LIMIC_SEND_MATCHED from an endpoint of LIMIC_KIND_KERNEL.
 *
 * Requires: as limic_isendv.
 */
int limic_tag_isendv(struct limic_endpoint endpoint, const struct iovec *pieces, int count,
        uint32_t destination, uint64_t tag, uint32_t flags, uint64_t immediate,
        struct limic_request *request);

/**
 * Like limic_irecv, for a message as limic_tag_recv asks for it.
 *
 * Requires: as limic_irecv.
 */
int limic_tag_irecv(struct limic_endpoint endpoint, void *data, size_t length, uint32_t source,
        uint64_t tag, uint64_t mask, struct limic_request *request);

/**
 * Like limic_irecvv, for a message as limic_tag_recv asks for it.
 *
 * Requires: as limic_irecvv.
 */
int limic_tag_irecvv(struct limic_endpoint endpoint, const struct iovec *pieces, int count,
        uint32_t source, uint64_t tag, uint64_t mask, struct limic_request *request);

/**
 * Like limic_probe, for a message as limic_tag_recv asks for it.
 *
 * Requires: as limic_probe.
 */
int limic_tag_probe(struct limic_endpoint endpoint, uint32_t source, uint64_t tag, uint64_t mask,
        int64_t timeout_ns, struct limic_status *status);

/**
 * Like limic_mprobe, for a message as limic_tag_recv asks for it.
 *
 * Requires: as limic_mprobe.
 */
int limic_tag_mprobe(struct limic_endpoint endpoint, uint32_t source, uint64_t tag, uint64_t mask,
        int64_t timeout_ns, struct limic_message *message, struct limic_status *status);

/**
 * Like limic_loan_isend, under a tag as of limic_tag_send.
 *
 * Requires: as limic_loan_isend.
 */
int limic_tag_loan_isend(struct limic_loan *loan, size_t length, uint32_t destination, uint64_t tag,
        struct limic_request *request);

/**
 * Like limic_loan_recv, for a message as limic_tag_recv asks for it.
 *
 * Requires: as limic_loan_recv.
 */
int limic_tag_loan_recv(struct limic_endpoint endpoint, uint32_t source, uint64_t tag,
        uint64_t mask, int64_t timeout_ns, struct limic_loan *loan, const void **data,
        struct limic_status *status);

/* ---- Buffers that peers may read. They belong to the process, not to an endpoint  */

/**
 * Allocates length bytes, all 0, that peers on this node may read and cannot write: a message out
 * of them, or out of any part of them, is copied once, by its receiver. They are used as any memory
 * is, by any endpoint and thread, and sent as often as wanted.
 *
 * - data: set to the first byte, on a page.
 *
 * If the system gives no such memory, it is ordinary memory. A forked child has a copy, which no
 * peer can read.
 *
 * Errors: LIMIC_ERR_NO_MEMORY, LIMIC_ERR_INVALID.
 *
 * Requires: data is NULL or writable.
 */
int limic_buffer_alloc(size_t length, void **data);

/**
 * Gives a buffer back. NULL is none, and nothing happens.
 *
 * Errors: LIMIC_ERR_INVALID if data is not the first byte of a buffer.
 *
 * Requires: data is NULL, or no operation and nobody else uses the buffer any more.
 */
int limic_buffer_free(void *data);

/* ---- Loans: messages that are built, and read, in shared memory ------------ */

/**
 * Lends length bytes of shared memory, to be filled and sent without a copy.
 *
 * - loan: set to the loan. data: set to its first byte; aligned to 64 bytes at least; what lies
 *   there is undefined.
 *
 * The memory is the caller's until limic_loan_isend or limic_loan_return.
 *
 * Errors: LIMIC_ERR_NO_MEMORY names the limit that was hit (LIMIC_LOAN_BYTES); loans that receivers
 * have not given back are part of it.
 *
 * Requires: loan and data are NULL or writable.
 */
int limic_loan_get(struct limic_endpoint endpoint, size_t length, struct limic_loan *loan,
        void **data);

/**
 * Starts to send the first length bytes of a loan. The time does not depend on the length; only the
 * first loan to a peer waits until that one answers. loan becomes LIMIC_LOAN_NULL: its memory is
 * not the caller's any more, also after an error of the transport.
 *
 * Arguments as for limic_isend. Errors: as limic_isend; and, with the loan still the caller's,
 * LIMIC_ERR_RANGE if the loan is shorter, LIMIC_ERR_REQUEST if it is not (any more) one that was
 * lent for sending, misuse.
 *
 * Requires: loan is NULL or readable and writable, request is NULL or writable; nobody touches the
 * loan's memory any more.
 */
int limic_loan_isend(struct limic_loan *loan, size_t length, uint32_t destination, uint32_t tag,
        uint32_t context, struct limic_request *request);

/**
 * Waits for a message, at most timeout_ns nanoseconds, and takes it where it lies: without a copy
 * if it was sent as a loan.
 *
 * - loan: set to the loan; give it back with limic_loan_return. data: set to the first byte; the
 *   length is in status.
 *
 * Other arguments as for limic_recv. The memory may be read only, until it is given back. It is the
 * sender's process that could still write there: copy first what must not change under your eyes.
 *
 * Errors: LIMIC_ERR_TIMEOUT, LIMIC_ERR_PEER_FAILED, LIMIC_ERR_NO_MEMORY; misuse.
 *
 * Requires: loan and data are NULL or writable, status is NULL or a structure with its size set.
 */
int limic_loan_recv(struct limic_endpoint endpoint, uint32_t source, uint32_t tag, uint32_t context,
        int64_t timeout_ns, struct limic_loan *loan, const void **data,
        struct limic_status *status);

/**
 * Gives a loan back: one that was not sent, or a received one. loan becomes LIMIC_LOAN_NULL.
 *
 * Requires: loan is NULL or readable and writable; nobody touches the loan's memory any more.
 */
int limic_loan_return(struct limic_loan *loan);

/* ---- One-sided access: memory that peers read and write without this side's help  */

/**
 * Exposes length bytes of the caller's memory at data: peers that are given the key can read and
 * write them, until limic_region_revoke.
 *
 * - region: set to the region. key: set to what peers need to name it; a random number, to be sent
 *   to them in a message.
 *
 * Writes of peers show up at any time. What a write means for this side has to be agreed upon by
 * messages: a write is in place when the writer's request is done.
 *
 * Errors: LIMIC_ERR_NO_MEMORY if the table of regions is full; misuse.
 *
 * Requires: data is readable and writable for length bytes until the region is revoked or the
 * endpoint closed; region and key are NULL or writable.
 */
int limic_region_expose(struct limic_endpoint endpoint, void *data, size_t length,
        struct limic_region *region, uint64_t *key);

/**
 * Like limic_region_expose, with length bytes of zeroed memory that the library makes, and frees
 * when the region is revoked.
 *
 * - data: set to the first byte.
 *
 * Requires: data, region and key are NULL or writable; nobody touches the memory after the region
 * was revoked.
 */
int limic_region_allocate(struct limic_endpoint endpoint, size_t length, void **data,
        struct limic_region *region, uint64_t *key);

/**
 * Ends an exposure, after the accesses under way have finished. Memory of limic_region_expose is
 * the caller's again, memory of limic_region_allocate is freed. region becomes LIMIC_REGION_NULL.
 *
 * Errors: LIMIC_ERR_REQUEST if it was revoked already. LIMIC_ERR_REGION if a peer is in the middle
 * of an access and nothing of that moves for ten seconds, as when it is stopped, or if accesses go
 * on for a minute: no other access begins, but region and its memory stay as they are, and the call
 * can be made again.
 *
 * Requires: region is NULL or readable and writable.
 */
int limic_region_revoke(struct limic_region *region);

/**
 * Starts to read length bytes at byte offset of the region that peer exposes under key, into data.
 * data belongs to the library until the request is done. The first contact with a peer waits for
 * that peer to answer.
 *
 * Errors: LIMIC_ERR_REGION if there is no such region (any more), LIMIC_ERR_RANGE outside of it,
 * LIMIC_ERR_PEER_FAILED, LIMIC_ERR_UNKNOWN_PEER, now or from the request; misuse.
 *
 * Requires: as limic_irecv.
 */
int limic_iread(struct limic_endpoint endpoint, uint32_t peer, uint64_t key, uint64_t offset,
        void *data, size_t length, struct limic_request *request);

/**
 * Starts to write length bytes at data to byte offset of the region that peer exposes under key.
 * When the request is done, the bytes are in place. Errors as for limic_iread.
 *
 * Requires: as limic_isend.
 */
int limic_iwrite(struct limic_endpoint endpoint, uint32_t peer, uint64_t key, uint64_t offset,
        const void *data, size_t length, struct limic_request *request);

/* ---- Moving messages along, and fitting into a program's own loop ---------- */

/**
 * Moves messages along once, without waiting. No thread of the library moves messages: they move
 * only while some call of the endpoint runs.
 *
 * - moved: set to 1 if anything moved, else 0; may be NULL.
 *
 * Requires: moved is NULL or writable.
 */
int limic_progress(struct limic_endpoint endpoint, int *moved);

/**
 * Sleeps until something may have happened, at most timeout_ns nanoseconds, and at most a quarter
 * of a second: call it in a loop. Returns at once if there is work already.
 */
int limic_sleep(struct limic_endpoint endpoint, int64_t timeout_ns);

/**
 * A file descriptor that becomes readable when the endpoint is wanted, for poll, select or epoll.
 *
 * - fd: set to the descriptor. It is the library's, the same for the life of the endpoint: do not
 *   read from it or close it.
 *
 * The loop: limic_arm; if that says that there is work, limic_progress and tests until nothing
 * moves, and again; else poll, then limic_progress.
 *
 * Requires: fd is NULL or writable.
 */
int limic_wake_fd(struct limic_endpoint endpoint, int *fd);

/**
 * Asks senders to ring from now on, before the descriptor of limic_wake_fd is polled.
 *
 * - armed: set to 1: poll now. Set to 0: there is work already, do not poll.
 *
 * With LIMIC_THREADS_SERIALIZED and LIMIC_THREADS_MULTIPLE one thread at a time polls, and a call
 * that waits with LIMIC_THREADS_MULTIPLE is one too: it may take the news. Calls of other threads
 * make the descriptor readable if they see to what senders rang for, or end the ringing; arm and
 * look again then.
 *
 * Requires: armed is NULL or writable.
 */
int limic_arm(struct limic_endpoint endpoint, int *armed);

/**
 * Moves messages along at count endpoints until something moves at one of them, at most for
 * timeout_ns nanoseconds. Waiting polls, then yields, then sleeps.
 *
 * Returns at once if an operation has ended there, or a message has come before its receive, since
 * this thread called it last with that endpoint in its list: in any call of any thread. It may
 * return for what the caller knows already: look, and call it again.
 *
 * - endpoints: endpoints that this thread may use.
 * - index: set to the position of that one; to -1 without one.
 *
 *     for (;;) {
 *         int at, done = 0;
 *         for (at = 0; at < 2 && !done; at++)
 *             limic_test(&requests[at], &done, &status);
 *         if (done)
 *             break;
 *         limic_wait_endpoints(2, endpoints, LIMIC_FOREVER, &at);
 *     }
 *
 * Errors: LIMIC_ERR_TIMEOUT; LIMIC_ERR_INVALID for no endpoints; misuse.
 *
 * Requires: endpoints is readable for count entries, index is NULL or writable.
 */
int limic_wait_endpoints(int count, const struct limic_endpoint *endpoints, int64_t timeout_ns,
        int *index);

/* ---- What was moved so far ------------------------------------------------- */

/**
 * Reads the counters.
 *
 * Requires: counters is NULL or a structure with its size set.
 */
int limic_counters_read(struct limic_endpoint endpoint, struct limic_counters *counters);

/**
 * Reads what was exchanged with one peer.
 *
 * - sent, received: set; may be NULL.
 *
 * Errors: LIMIC_ERR_UNKNOWN_PEER; misuse.
 *
 * Requires: sent and received are NULL or writable.
 */
int limic_counters_peer(struct limic_endpoint endpoint, uint32_t peer, struct limic_traffic *sent,
        struct limic_traffic *received);

/**
 * Reads what went by one path. Long messages count where their path is chosen: at the receiver.
 *
 * - path: 0 to limic_path_count() - 1.
 *
 * Requires: traffic is NULL or writable.
 */
int limic_counters_path(struct limic_endpoint endpoint, uint32_t path,
        struct limic_traffic *traffic);

/** How many paths this library knows. */
uint32_t limic_path_count(void);

/**
 * The name of a path, as in the settings: "inline", "eager", "cma" and so on. NULL for a number
 * that is no path. The memory is the library's and stays valid.
 */
const char *limic_path_name(uint32_t path);

/* ---- What the library has to say beside its return values ------------------ */

/**
 * Has function get the lines of the log up to level, in place of the function before. There is one
 * for the process; the threads that call it are those that are inside of the library, one at a
 * time, and none any more for the function before when this returns.
 *
 * - function: must call nothing of the library but limic_strerror, return (no exception, no
 *   longjmp), not fork, and wait for nothing that a caller of the library holds: it may run in the
 *   middle of any call, and other threads wait for it; NULL for none.
 * - context: the function's first argument; the library does not look at it.
 * - level: LIMIC_LOG_ERROR to LIMIC_LOG_DEBUG. No message costs more by it.
 *
 *     static void tell(void *program, int level, const char *text)
 *     {
 *         fprintf(stderr, "%s: limic (%d): %s\n", (const char *)program, level, text);
 *     }
 *
 *     limic_log_to(tell, argv[0], LIMIC_LOG_WARNING);
 *
 * Errors: LIMIC_ERR_INVALID for another level; LIMIC_ERR_BUSY from inside of the function;
 * LIMIC_ERR_SYSTEM if the library is a part of a Rust program that has the log.
 *
 * Requires: function is NULL, or may be called with context by any thread until another one is set.
 */
int limic_log_to(limic_log_function function, void *context, int level);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIMIC_H */

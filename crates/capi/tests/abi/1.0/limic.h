/* limic.h of version 1.0, without comments: what programs of that version were compiled with. */
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
#define LIMIC_ENDPOINT_NULL LIMIC_LITERAL_(limic_endpoint){0}
#define LIMIC_REQUEST_NULL LIMIC_LITERAL_(limic_request){0, 0}
#define LIMIC_MESSAGE_NULL LIMIC_LITERAL_(limic_message){0, 0}
#define LIMIC_LOAN_NULL LIMIC_LITERAL_(limic_loan){0, 0}
#define LIMIC_REGION_NULL LIMIC_LITERAL_(limic_region){0, 0}
#define LIMIC_STATUS_INIT {sizeof(limic_status), 0, 0, 0, 0, 0, 0}
#define LIMIC_OPTIONS_INIT {sizeof(limic_options), 0, 0, 0, NULL}
#define LIMIC_COUNTERS_INIT {sizeof(limic_counters), 0, {0, 0}, {0, 0}, 0, 0, 0, {0}}
#define LIMIC_VERSION 0x00010000
#define LIMIC_ANY_SOURCE UINT32_MAX
#define LIMIC_ANY_TAG UINT32_MAX
#define LIMIC_CONTEXT_MAX (UINT32_MAX - 1)
#define LIMIC_KIND_HYBRID 0
#define LIMIC_KIND_SHM 1
#define LIMIC_KIND_KERNEL 2
#define LIMIC_THREADS_OWNER 0
#define LIMIC_THREADS_SERIALIZED 1
#define LIMIC_ADDRESS_LENGTH 64
#define LIMIC_FOREVER (-1)
typedef enum limic_error {
    LIMIC_OK = 0,
    LIMIC_ERR_NULL = -1,
    LIMIC_ERR_SIZE = -2,
    LIMIC_ERR_INVALID = -3,
    LIMIC_ERR_ENDPOINT = -4,
    LIMIC_ERR_THREAD = -5,
    LIMIC_ERR_BUSY = -6,
    LIMIC_ERR_FORKED = -7,
    LIMIC_ERR_REQUEST = -8,
    LIMIC_ERR_TIMEOUT = -9,
    LIMIC_ERR_TRUNCATED = -10,
    LIMIC_ERR_CANCELLED = -11,
    LIMIC_ERR_PEER_FAILED = -12,
    LIMIC_ERR_UNKNOWN_PEER = -13,
    LIMIC_ERR_ADDRESS = -14,
    LIMIC_ERR_REGION = -15,
    LIMIC_ERR_RANGE = -16,
    LIMIC_ERR_NO_PATH = -17,
    LIMIC_ERR_NO_MEMORY = -18,
    LIMIC_ERR_SYSTEM = -19,
    LIMIC_ERR_SETTINGS = -20,
    LIMIC_ERR_STARTUP = -21,
    LIMIC_ERR_NOT_WORLD = -22,
    LIMIC_ERR_INTERNAL = -23,
} limic_error;
typedef struct limic_options {
    uint32_t size;
    uint32_t kind;
    uint32_t threads;
    uint32_t reserved;
    const char *const *settings;
} limic_options;
typedef struct limic_endpoint {
    uint64_t id;
} limic_endpoint;
typedef struct limic_status {
    uint32_t size;
    int error;
    uint32_t source;
    uint32_t tag;
    uint32_t context;
    uint32_t reserved;
    uint64_t length;
} limic_status;
typedef struct limic_request {
    uint64_t endpoint;
    uint64_t number;
} limic_request;
typedef struct limic_message {
    uint64_t endpoint;
    uint64_t number;
} limic_message;
typedef struct limic_loan {
    uint64_t endpoint;
    uint64_t number;
} limic_loan;
typedef struct limic_region {
    uint64_t endpoint;
    uint64_t number;
} limic_region;
typedef struct limic_traffic {
    uint64_t messages;
    uint64_t bytes;
} limic_traffic;
typedef struct limic_counters {
    uint32_t size;
    uint32_t reserved;
    struct limic_traffic sent;
    struct limic_traffic received;
    uint64_t unexpected;
    uint64_t unexpected_bytes;
    uint64_t sleeps;
    uint64_t sizes[65];
} limic_counters;
#ifdef __cplusplus
extern "C" {
#endif
const char *limic_strerror(int code);
const char *limic_last_error(void);
uint32_t limic_version(void);
int limic_endpoint_open(const struct limic_options *options, struct limic_endpoint *endpoint);
int limic_endpoint_close(struct limic_endpoint endpoint);
int limic_address(struct limic_endpoint endpoint, void *address, size_t length);
int limic_connect(struct limic_endpoint endpoint, const void *address, size_t length,
        uint32_t *peer);
int limic_peer_address(struct limic_endpoint endpoint, uint32_t peer, void *address, size_t length);
int limic_myself(struct limic_endpoint endpoint, uint32_t *peer);
int limic_endpoint_release(struct limic_endpoint endpoint);
int limic_endpoint_adopt(struct limic_endpoint endpoint);
int limic_world_open(const struct limic_options *options, struct limic_endpoint *endpoint);
int limic_world_rank(struct limic_endpoint endpoint, uint32_t *rank);
int limic_world_size(struct limic_endpoint endpoint, uint32_t *size);
int limic_world_launcher(struct limic_endpoint endpoint, const char **launcher);
int limic_world_barrier(struct limic_endpoint endpoint);
int limic_world_finalize(struct limic_endpoint endpoint);
int limic_world_abort(struct limic_endpoint endpoint, int code, const char *message);
int limic_send(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint32_t tag, uint32_t context);
int limic_recv(struct limic_endpoint endpoint, void *data, size_t length, uint32_t source,
        uint32_t tag, uint32_t context, struct limic_status *status);
int limic_isend(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint32_t tag, uint32_t context, struct limic_request *request);
int limic_irecv(struct limic_endpoint endpoint, void *data, size_t length, uint32_t source,
        uint32_t tag, uint32_t context, struct limic_request *request);
int limic_sendrecv(struct limic_endpoint endpoint, const void *data, size_t length,
        uint32_t destination, uint32_t tag, void *receive_data, size_t receive_length,
        uint32_t source, uint32_t receive_tag, uint32_t context, struct limic_status *status);
int limic_isendv(struct limic_endpoint endpoint, const struct iovec *pieces, int count,
        uint32_t destination, uint32_t tag, uint32_t context, struct limic_request *request);
int limic_irecvv(struct limic_endpoint endpoint, const struct iovec *pieces, int count,
        uint32_t source, uint32_t tag, uint32_t context, struct limic_request *request);
int limic_imrecvv(struct limic_message *message, const struct iovec *pieces, int count,
        struct limic_request *request);
int limic_test(struct limic_request *request, int *done, struct limic_status *status);
int limic_wait(struct limic_request *request, int64_t timeout_ns, struct limic_status *status);
int limic_cancel(const struct limic_request *request);
int limic_is_done(const struct limic_request *request, int *done);
int limic_wait_any(int count, struct limic_request *requests, int64_t timeout_ns, int *index,
        struct limic_status *status);
int limic_wait_some(int count, struct limic_request *requests, int64_t timeout_ns, int *done,
        int *indices, struct limic_status *statuses);
int limic_wait_all(int count, struct limic_request *requests, int64_t timeout_ns,
        struct limic_status *statuses);
int limic_probe(struct limic_endpoint endpoint, uint32_t source, uint32_t tag, uint32_t context,
        int64_t timeout_ns, struct limic_status *status);
int limic_mprobe(struct limic_endpoint endpoint, uint32_t source, uint32_t tag, uint32_t context,
        int64_t timeout_ns, struct limic_message *message, struct limic_status *status);
int limic_mrecv(struct limic_message *message, void *data, size_t length,
        struct limic_status *status);
int limic_imrecv(struct limic_message *message, void *data, size_t length,
        struct limic_request *request);
int limic_message_drop(struct limic_message *message);
int limic_buffer_alloc(size_t length, void **data);
int limic_buffer_free(void *data);
int limic_loan_get(struct limic_endpoint endpoint, size_t length, struct limic_loan *loan,
        void **data);
int limic_loan_isend(struct limic_loan *loan, size_t length, uint32_t destination, uint32_t tag,
        uint32_t context, struct limic_request *request);
int limic_loan_recv(struct limic_endpoint endpoint, uint32_t source, uint32_t tag, uint32_t context,
        int64_t timeout_ns, struct limic_loan *loan, const void **data,
        struct limic_status *status);
int limic_loan_return(struct limic_loan *loan);
int limic_region_expose(struct limic_endpoint endpoint, void *data, size_t length,
        struct limic_region *region, uint64_t *key);
int limic_region_allocate(struct limic_endpoint endpoint, size_t length, void **data,
        struct limic_region *region, uint64_t *key);
int limic_region_revoke(struct limic_region *region);
int limic_iread(struct limic_endpoint endpoint, uint32_t peer, uint64_t key, uint64_t offset,
        void *data, size_t length, struct limic_request *request);
int limic_iwrite(struct limic_endpoint endpoint, uint32_t peer, uint64_t key, uint64_t offset,
        const void *data, size_t length, struct limic_request *request);
int limic_progress(struct limic_endpoint endpoint, int *moved);
int limic_sleep(struct limic_endpoint endpoint, int64_t timeout_ns);
int limic_wake_fd(struct limic_endpoint endpoint, int *fd);
int limic_arm(struct limic_endpoint endpoint, int *armed);
int limic_counters_read(struct limic_endpoint endpoint, struct limic_counters *counters);
int limic_counters_peer(struct limic_endpoint endpoint, uint32_t peer, struct limic_traffic *sent,
        struct limic_traffic *received);
int limic_counters_path(struct limic_endpoint endpoint, uint32_t path,
        struct limic_traffic *traffic);
uint32_t limic_path_count(void);
const char *limic_path_name(uint32_t path);
#ifdef __cplusplus
}
#endif
#endif

/* Endpoints that are found by node and service, and addresses as text. */
#include "calls.h"

#include <stddef.h>
#include <sys/un.h>

static struct fi_info *ask(const char *node, const char *service, uint64_t flags, uint32_t format, int result)
{
    struct fi_info *hints = fi_allocinfo(), *found = NULL;
    hints->caps = info->caps;
    hints->mode = info->mode;
    hints->addr_format = format;
    hints->domain_attr->threading = info->domain_attr->threading;
    hints->fabric_attr->prov_name = strdup("limic");
    CHECK(fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &found) == result);
    fi_freeinfo(hints);
    return found;
}

/* An endpoint like that info, that reports all operations. */
static struct fid_ep *open_named(struct fi_info *like)
{
    struct fid_ep *end;
    OK(fi_endpoint(domain, like, &end, NULL));
    OK(fi_ep_bind(end, &av->fid, 0));
    OK(fi_ep_bind(end, &cq->fid, FI_TRANSMIT | FI_RECV));
    return end;
}

/* An endpoint with a vector and a queue of its own. */
struct own {
    struct fid_av *vector;
    struct fid_cq *queue;
    struct fid_ep *end;
};

static struct own open_own_with(struct fid_domain *within, struct fi_info *like, uint64_t flags)
{
    struct own own;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .flags = flags};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    OK(fi_av_open(within, &av_attr, &own.vector, NULL));
    OK(fi_cq_open(within, &cq_attr, &own.queue, NULL));
    OK(fi_endpoint(within, like, &own.end, NULL));
    OK(fi_ep_bind(own.end, &own.vector->fid, 0));
    OK(fi_ep_bind(own.end, &own.queue->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_enable(own.end));
    return own;
}

static struct own open_own(struct fid_domain *within, struct fi_info *like)
{
    return open_own_with(within, like, 0);
}

static void close_own(struct own own)
{
    OK(fi_close(&own.end->fid));
    OK(fi_close(&own.queue->fid));
    OK(fi_close(&own.vector->fid));
}

static void send_name(struct fid_ep *end, fi_addr_t to)
{
    char name[64];
    size_t len = sizeof name;
    OK(fi_getname(&end->fid, name, &len));
    CHECK(len == sizeof name);
    OK(fi_tsend(end, name, len, NULL, to, 1, &contexts[1]));
}

/* A name comes: its sender can be answered, and is told as the source. */
static fi_addr_t receive_name(struct fid_ep *end, char *name)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source, at;
    ssize_t count;
    OK(fi_trecv(end, name, 64, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    do {
        count = fi_cq_readfrom(cq, &entry, 1, &source);
        CHECK(count == 1 || count == -FI_EAGAIN);
    } while (count != 1 || entry.op_context != &contexts[0]);
    CHECK(fi_av_insert(av, name, 1, &at, 0, NULL) == 1);
    return source == FI_ADDR_NOTAVAIL ? at : source;
}

/* The second process has a service, and the first one knows no more of it. */
static void by_service(void)
{
    char service[32], name[64], again[64];
    size_t len = sizeof again;
    snprintf(service, sizeof service, "test-%d", (int) (me ? getppid() : getpid()));
    if (me == 1) {
        struct fi_info *mine = ask(NULL, service, FI_SOURCE, FI_FORMAT_UNSPEC, 0);
        CHECK(mine->src_addr && mine->src_addrlen == 64 && !mine->dest_addr);
        struct fid_ep *end = open_named(mine), *second;
        OK(fi_enable(end));
        CHECK(fi_endpoint(domain, mine, &second, NULL) == -FI_EADDRINUSE);
        /* Peers elsewhere can do nothing with the service. */
        OK(fi_getname(&end->fid, again, &len));
        CHECK(len == 64 && memcmp(again, "fi_limic://", 11));
        meet();
        fi_addr_t from = receive_name(end, name);
        send_name(end, from);
        CHECK(completion().op_context == &contexts[1]);
        meet();
        OK(fi_close(&end->fid));
        /* Now it is free. */
        OK(fi_endpoint(domain, mine, &second, NULL));
        OK(fi_close(&second->fid));
        fi_freeinfo(mine);
    } else {
        meet();
        struct fi_info *theirs = ask("127.0.0.1", service, 0, FI_FORMAT_UNSPEC, 0);
        CHECK(theirs->dest_addr && theirs->dest_addrlen == 64 && theirs->src_addrlen == 64);
        fi_addr_t server;
        CHECK(fi_av_insert(av, theirs->dest_addr, 1, &server, 0, NULL) == 1);
        struct fid_ep *end = open_named(info);
        OK(fi_enable(end));
        send_name(end, server);
        CHECK(receive_name(end, name) == server);
        OK(fi_av_lookup(av, server, again, &len));
        CHECK(len == 64 && !memcmp(again, name, len));
        meet();
        OK(fi_close(&end->fid));
        fi_freeinfo(theirs);
    }
    meet();
}

/* A node alone names nobody: each endpoint that is opened like that has an address of its own. */
static void unnamed(uint32_t format)
{
    struct fi_info *like = ask("localhost", NULL, FI_SOURCE, format, 0), *found;
    struct fid_domain *within;
    struct fid_ep *first, *second;
    char name[256], another[256];
    size_t len = sizeof name;
    size_t own_len = format == FI_ADDR_STR ? sizeof "fi_limic://localhost" : 64;
    CHECK(like->src_addr && like->src_addrlen == own_len);
    /* It can be handed back as it is. */
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, like, &found));
    CHECK(found->src_addrlen == own_len && !memcmp(found->src_addr, like->src_addr, own_len));
    OK(fi_domain(fabric, found, &within, NULL));
    OK(fi_endpoint(within, found, &first, NULL));
    OK(fi_endpoint(within, found, &second, NULL));
    OK(fi_getname(&first->fid, name, &len));
    OK(fi_getname(&second->fid, another, &len));
    CHECK(memcmp(name, another, len) && memcmp(name, found->src_addr, own_len));
    OK(fi_close(&second->fid));
    fi_freeinfo(found);
    /* One without bytes is none, though it may be somewhere. */
    like->src_addrlen = 0;
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, like, &found));
    OK(fi_endpoint(within, like, &second, NULL));
    OK(fi_close(&second->fid));
    OK(fi_close(&first->fid));
    OK(fi_close(&within->fid));
    fi_freeinfo(found);
    fi_freeinfo(like);
}

/* A node alone is answered, and its address can be handed back. It is nobody's to send to. */
static void node_alone(uint32_t format)
{
    struct fi_info *theirs = ask("localhost", NULL, 0, format, 0), *found;
    struct fi_av_attr attr = {0};
    struct fid_domain *within;
    struct fid_av *vector;
    fi_addr_t nobody;
    CHECK(theirs->dest_addr && theirs->dest_addrlen);
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, theirs, &found));
    OK(fi_domain(fabric, found, &within, NULL));
    OK(fi_av_open(within, &attr, &vector, NULL));
    const void *address = found->dest_addr;
    const void *row = format == FI_ADDR_STR ? (const void *) &address : address;
    CHECK(fi_av_insert(vector, row, 1, &nobody, 0, NULL) == 0);
    OK(fi_close(&vector->fid));
    OK(fi_close(&within->fid));
    fi_freeinfo(found);
    fi_freeinfo(theirs);
}

/* Endpoints are named late, and only so long as nobody uses them. */
static void named_late(void)
{
    char service[32];
    snprintf(service, sizeof service, "late-%d", (int) getpid());
    struct fi_info *like = ask("localhost", service, FI_SOURCE, FI_FORMAT_UNSPEC, 0);
    struct fid_ep *end = open_named(info);
    char name[64];
    size_t len = sizeof name;
    OK(fi_setname(&end->fid, like->src_addr, like->src_addrlen));
    OK(fi_getname(&end->fid, name, &len));
    CHECK(len == 64 && memcmp(name, like->src_addr, len));
    OK(fi_enable(end));
    CHECK(fi_setname(&end->fid, like->src_addr, like->src_addrlen) == -FI_EOPBADSTATE);
    OK(fi_close(&end->fid));
    fi_freeinfo(like);
    unnamed(FI_FORMAT_UNSPEC);
    unnamed(FI_ADDR_STR);
    /* A service that nobody has. */
    like = ask("localhost", "nobody-has-this", FI_SOURCE, FI_FORMAT_UNSPEC, 0);
    fi_addr_t nobody;
    CHECK(fi_av_insert(av, like->src_addr, 1, &nobody, 0, NULL) == 1);
    CHECK(fi_tinject(ep, "1", 1, nobody, 1) == -FI_ECONNREFUSED);
    OK(fi_av_remove(av, &nobody, 1, 0));
    fi_freeinfo(like);
    node_alone(FI_FORMAT_UNSPEC);
    node_alone(FI_ADDR_STR);
    /* Nodes that are elsewhere. */
    ask("192.0.2.1", NULL, FI_NUMERICHOST, FI_FORMAT_UNSPEC, -FI_ENODATA);
    ask("192.0.2.1", "1", FI_NUMERICHOST, FI_FORMAT_UNSPEC, -FI_ENODATA);
}

static int asked_times, is_silent;

/* Says nothing to those who ask for a service, and counts them. They are turned away, or wait. */
static void *count_askers(void *listens)
{
    enum { MOST = 8 };
    int askers[MOST], asker;
    while ((asker = accept(*(int *) listens, NULL, NULL)) >= 0) {
        CHECK(asked_times < MOST);
        askers[asked_times++] = asker;
        if (!is_silent)
            shutdown(asker, SHUT_RDWR);
    }
    for (int i = 0; i < asked_times; i++)
        close(askers[i]);
    return NULL;
}

/* A message of a sender that no vector names. */
static void send_unnamed(struct fid_ep *from, struct own to, fi_addr_t at)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
    char byte;
    OK(fi_trecv(to.end, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    OK(fi_tinject(from, "1", 1, at, 1));
    while (fi_cq_readfrom(to.queue, &entry, 1, &source) == -FI_EAGAIN)
        fi_cq_read(cq, NULL, 0);
    CHECK(source == FI_ADDR_NOTAVAIL);
}

/*
 * Services are asked once about a sender that no vector names, and not with each message. One that
 * does not answer is not waited for once more because of another sender.
 */
static void unnamed_senders(void)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    struct own own;
    char name[64], service[64];
    size_t len = sizeof name;
    pthread_t counter_of_askers;
    fi_addr_t to, nobody;
    int listens = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(service, sizeof service, "fi_limic://localhost:counts-%d", (int) getpid());
    int used = snprintf(place.sun_path + 1, sizeof place.sun_path - 1, "limic-fi/%u/counts-%d",
                        (unsigned) geteuid(), (int) getpid());
    OK(bind(listens, (struct sockaddr *) &place, offsetof(struct sockaddr_un, sun_path) + 1 + used));
    OK(listen(listens, 8));
    OK(pthread_create(&counter_of_askers, NULL, count_askers, &listens));
    own = open_own(domain, info);
    OK(fi_getname(&own.end->fid, name, &len));
    CHECK(fi_av_insert(av, name, 1, &to, 0, NULL) == 1);
    for (int round = 1; round <= 3; round++) {
        is_silent = round == 3;
        /* With a service that is new, something may be known. */
        CHECK(fi_av_insert(own.vector, service, 1, &nobody, 0, NULL) == 1);
        for (int i = 0; i < 3; i++)
            send_unnamed(ep, own, to);
        if (is_silent) {
            struct fid_ep *another = open_end(info, NULL);
            send_unnamed(another, own, to);
            OK(fi_close(&another->fid));
        }
        OK(fi_av_remove(own.vector, &nobody, 1, 0));
    }
    OK(shutdown(listens, SHUT_RDWR));
    OK(pthread_join(counter_of_askers, NULL));
    CHECK(asked_times == 3);
    OK(fi_av_remove(av, &to, 1, 0));
    close_own(own);
    close(listens);
}

static void as_text(void)
{
    struct fi_info *like = ask(NULL, NULL, 0, FI_ADDR_STR, 0);
    struct fid_domain *texts;
    struct fi_cq_tagged_entry entry;
    struct own own;
    char name[256], again[256], byte;
    const char *names[] = {name, "fi_limic://localhost:nobody-has-this", "fi_shm://1"};
    size_t len = sizeof name;
    fi_addr_t places[3];
    CHECK(like->addr_format == FI_ADDR_STR);
    OK(fi_domain(fabric, like, &texts, NULL));
    own = open_own(texts, like);
    OK(fi_getname(&own.end->fid, name, &len));
    CHECK(strlen(name) + 1 == len && !strncmp(name, "fi_limic://", 11));
    CHECK(fi_av_insert(own.vector, names, 3, places, 0, NULL) == 2);
    CHECK(places[0] == 0 && places[1] == 1 && places[2] == FI_ADDR_NOTAVAIL);
    len = sizeof again;
    OK(fi_av_lookup(own.vector, places[0], again, &len));
    CHECK(!strcmp(name, again) && len == strlen(name) + 1);
    /* The room is never written beyond, and what does not fit is cut. */
    CHECK(own.vector->ops->lookup(own.vector, places[0], again, NULL) == -FI_EINVAL);
    len = 5;
    OK(fi_av_lookup(own.vector, places[0], again, &len));
    CHECK(!memcmp(name, again, 5) && len == strlen(name) + 1);
    /* People do not see the secret. */
    len = sizeof again;
    CHECK(fi_av_straddr(own.vector, name, again, &len) == again && !strstr(again, name + 11));
    OK(fi_trecv(own.end, &byte, 1, NULL, places[0], 1, 0, &contexts[0]));
    OK(fi_tinject(own.end, "1", 1, places[0], 1));
    CHECK(fi_cq_read(own.queue, &entry, 1) == 1 && entry.op_context == &contexts[0]);
    close_own(own);
    OK(fi_close(&texts->fid));
    fi_freeinfo(like);
}

/* fi_av_set_user_id, which headers before 1.20 lack: it lies three entries behind av_set. */
static int set_user_id(struct fid_av *vector, fi_addr_t at, fi_addr_t id, uint64_t flags)
{
    int (*entry)(struct fid_av *, fi_addr_t, fi_addr_t, uint64_t);
    size_t offset = offsetof(struct fi_ops_av, av_set) + 3 * sizeof entry;
    CHECK(vector->ops->size >= offset + sizeof entry);
    memcpy(&entry, (char *) vector->ops + offset, sizeof entry);
    return entry(vector, at, id, flags);
}

/* Whom a message to itself is reported as coming from. */
static fi_addr_t source_of_own(struct own own, fi_addr_t to)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
    char byte;
    ssize_t count;
    OK(fi_trecv(own.end, &byte, 1, NULL, to, 1, 0, &contexts[0]));
    OK(fi_tinject(own.end, "1", 1, to, 1));
    while ((count = fi_cq_readfrom(own.queue, &entry, 1, &source)) == -FI_EAGAIN)
        ;
    CHECK(count == 1 && entry.op_context == &contexts[0]);
    return source;
}

/* A vector opened for names of the application's choice: nobody has one before it is set. */
static void user_ids(void)
{
    struct own own = open_own_with(domain, info, FI_AV_USER_ID);
    char name[64];
    size_t len = sizeof name;
    fi_addr_t at = 77;
    OK(fi_getname(&own.end->fid, name, &len));
    CHECK(fi_av_insert(own.vector, name, 1, &at, FI_AV_USER_ID, NULL) == -FI_EINVAL);
    CHECK(fi_av_insert(own.vector, name, 1, &at, 0, NULL) == 1 && at == 0);
    CHECK(source_of_own(own, at) == FI_ADDR_NOTAVAIL);
    CHECK(set_user_id(own.vector, at, 1000, FI_MORE) == -FI_EBADFLAGS);
    CHECK(set_user_id(own.vector, 1, 1000, 0) == -FI_EINVAL);
    CHECK(set_user_id(av, myself, 1000, 0) == -FI_EINVAL);
    for (fi_addr_t id = 1000; id < 1002; id++) {
        OK(set_user_id(own.vector, at, id, 0));
        CHECK(source_of_own(own, at) == id);
    }
    OK(fi_av_remove(own.vector, &at, 1, 0));
    CHECK(fi_av_insert(own.vector, name, 1, &at, 0, NULL) == 1);
    CHECK(source_of_own(own, at) == FI_ADDR_NOTAVAIL);
    close_own(own);
}

void names(void)
{
    /* The 64 bytes are no text. */
    CHECK(info->addr_format != FI_ADDR_STR);
    by_service();
    named_late();
    unnamed_senders();
    as_text();
    user_ids();
    vectors();
    meet();
}

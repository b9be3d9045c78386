/*
 * limic for C++11: limic.h with destructors and exceptions. Header only, and no wider than limic.h:
 * every call of that can be made beside, with get().
 *
 * Objects move and are not copied. An error is thrown as limic::error; destructors throw nothing,
 * and neither does an assignment that ends what was there before. So end objects in a thread that
 * may call the endpoint: an operation or a region that cannot be ended, whose memory would go, ends
 * the program (std::terminate), and an endpoint that cannot be closed stays open. close() tells.
 *
 *     limic::endpoint world = limic::endpoint::world();
 *     uint32_t right = (world.rank() + 1) % world.size();
 *     std::vector<double> out(100), in(100);
 *     limic::request receive =
 *         world.irecv(in.data(), in.size() * sizeof(double), LIMIC_ANY_SOURCE, 7);
 *     world.send(out.data(), out.size() * sizeof(double), right, 7);
 *     limic_status status = receive.wait(); // Lengths are bytes, times are nanoseconds.
 *     world.finalize();
 */
#ifndef LIMIC_HPP
#define LIMIC_HPP

#include <limic.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace limic {

/** A code of limic.h other than LIMIC_OK, with what is to be read about it. */
class error : public std::runtime_error {
public:
    explicit error(int code)
        : std::runtime_error(std::string(limic_strerror(code)) + ": " + limic_last_error()),
          code_(code)
    {
    }
    int code() const noexcept { return code_; }

private:
    int code_;
};

/** Throws what is not LIMIC_OK. */
inline void check(int code)
{
    if (code != LIMIC_OK)
        throw error(code);
}

/** The first value of a status. */
inline limic_status status()
{
    limic_status first = LIMIC_STATUS_INIT;
    return first;
}

/** What all owners do: hold one handle, move it, and end it. */
template <class Handle, void (*end)(Handle &)> class owner {
public:
    owner() noexcept : handle_() {}
    explicit owner(Handle handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(other.release()) {}
    owner &operator=(owner &&other) noexcept
    {
        if (this != &other) {
            end(handle_);
            handle_ = other.release();
        }
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner() { end(handle_); }

    /** The handle, for calls of limic.h. */
    Handle &get() noexcept { return handle_; }
    const Handle &get() const noexcept { return handle_; }
    /** The handle, which the caller ends from now on. */
    Handle release() noexcept
    {
        Handle handle = handle_;
        handle_ = Handle();
        return handle;
    }

private:
    Handle handle_;
};

namespace ends {
inline void endpoint(limic_endpoint &handle)
{
    if (handle.id != 0)
        limic_endpoint_close(handle);
}
inline void request(limic_request &handle)
{
    if (handle.endpoint == 0)
        return;
    limic_cancel(&handle);
    limic_wait(&handle, LIMIC_FOREVER, nullptr);
    if (handle.endpoint == 0)
        return;
    /* Also over: one that is not known any more, of a closed endpoint, or of the parent process. */
    int done = 0, code = limic_is_done(&handle, &done);
    if (done == 0 && code != LIMIC_ERR_ENDPOINT && code != LIMIC_ERR_FORKED)
        std::terminate();
}
inline void message(limic_message &handle)
{
    if (handle.endpoint != 0)
        limic_message_drop(&handle);
}
inline void region(limic_region &handle)
{
    if (handle.endpoint == 0)
        return;
    int code = limic_region_revoke(&handle);
    /* Also over: as above, and one that a copy of the handle has revoked. */
    if (code != LIMIC_OK && code != LIMIC_ERR_REQUEST && code != LIMIC_ERR_ENDPOINT &&
        code != LIMIC_ERR_FORKED)
        std::terminate();
}
inline void buffer(void *&data) { limic_buffer_free(data); }
} // namespace ends

/**
 * An operation under way. Its end cancels what has not matched, and waits for the rest, so that the
 * buffer may go after it: declare it behind its buffer.
 */
class request : public owner<limic_request, ends::request> {
public:
    using owner::owner;
    request() = default;

    /** Waits until it is done. */
    limic_status wait()
    {
        limic_status found = status();
        check(limic_wait(&get(), LIMIC_FOREVER, &found));
        return found;
    }
    /** Waits for at most so many nanoseconds; whether it is done. */
    bool wait_for(int64_t timeout_ns, limic_status *found = nullptr)
    {
        int code = limic_wait(&get(), timeout_ns, found);
        if (code == LIMIC_ERR_TIMEOUT)
            return false;
        check(code);
        return true;
    }
    /** Looks whether it is done, and moves messages along. */
    bool test(limic_status *found = nullptr)
    {
        int done = 0;
        check(limic_test(&get(), &done, found));
        return done != 0;
    }
};

/** A message that a probe took. Its end drops it. */
class message : public owner<limic_message, ends::message> {
public:
    using owner::owner;
    message() = default;

    limic_status recv(void *data, size_t length)
    {
        limic_status found = status();
        check(limic_mrecv(&get(), data, length, &found));
        return found;
    }
};

/** Memory that peers may read: a message out of it is copied once. */
class buffer : public owner<void *, ends::buffer> {
public:
    explicit buffer(size_t length) : length_(length) { check(limic_buffer_alloc(length, &get())); }
    void *data() noexcept { return get(); }
    /** 0 if it was moved from. */
    size_t size() const noexcept { return get() == nullptr ? 0 : length_; }

private:
    size_t length_;
};

/** Memory that peers read and write. Its end revokes it: declare it behind the memory. */
class region : public owner<limic_region, ends::region> {
public:
    /** The caller's memory, which stays until the region has ended. */
    region(const limic_endpoint &endpoint, void *data, size_t length)
    {
        check(limic_region_expose(endpoint, data, length, &get(), &key_));
    }
    /** What peers name it by. */
    uint64_t key() const noexcept { return key_; }
    /** Ends it, and says if a peer is in the way of that; then it can be called again. */
    void revoke() { check(limic_region_revoke(&get())); }

private:
    uint64_t key_;
};

/** An endpoint. Its end closes it, and waits for no other rank: finalize() does. */
class endpoint : public owner<limic_endpoint, ends::endpoint> {
public:
    using owner::owner;
    /** By limic_endpoint_open. */
    static endpoint open(const limic_options *options = nullptr)
    {
        endpoint opened;
        check(limic_endpoint_open(options, &opened.get()));
        return opened;
    }
    /** By limic_world_open: the peers are the ranks. */
    static endpoint world(const limic_options *options = nullptr)
    {
        endpoint opened;
        check(limic_world_open(options, &opened.get()));
        return opened;
    }
    uint32_t rank() const { return ask(limic_world_rank); }
    uint32_t size() const { return ask(limic_world_size); }
    uint32_t myself() const { return ask(limic_myself); }
    void barrier() { check(limic_world_barrier(get())); }
    /** As limic_world_finalize, and as there the handle stays after misuse alone. */
    void finalize() { ended(limic_world_finalize(get())); }
    /** As limic_endpoint_close, to be told of errors. */
    void close() { ended(limic_endpoint_close(get())); }
    uint32_t connect(const void *address, size_t length)
    {
        uint32_t peer;
        check(limic_connect(get(), address, length, &peer));
        return peer;
    }

    /* A tag is one of 64 bits; LIMIC_TAG makes one of a context and a tag. */

    void send(const void *data, size_t length, uint32_t destination, uint64_t tag)
    {
        check(limic_tag_send(get(), data, length, destination, tag));
    }
    limic_status recv(void *data, size_t length, uint32_t source, uint64_t tag,
                      uint64_t mask = UINT64_MAX)
    {
        limic_status found = status();
        check(limic_tag_recv(get(), data, length, source, tag, mask, &found));
        return found;
    }
    request isend(const void *data, size_t length, uint32_t destination, uint64_t tag)
    {
        request started;
        check(limic_tag_isend(get(), data, length, destination, tag, &started.get()));
        return started;
    }
    /** With flags and an immediate word, as limic_tag_isendv. */
    request isend(const void *data, size_t length, uint32_t destination, uint64_t tag,
                  uint32_t flags, uint64_t immediate = 0)
    {
        request started;
        struct iovec piece = {const_cast<void *>(data), length};
        check(limic_tag_isendv(get(), &piece, 1, destination, tag, flags, immediate,
                               &started.get()));
        return started;
    }
    request irecv(void *data, size_t length, uint32_t source, uint64_t tag,
                  uint64_t mask = UINT64_MAX)
    {
        request started;
        check(limic_tag_irecv(get(), data, length, source, tag, mask, &started.get()));
        return started;
    }
    /** Waits for a message that fits, and takes it. */
    message mprobe(uint32_t source, uint64_t tag, uint64_t mask = UINT64_MAX,
                   limic_status *found = nullptr)
    {
        message taken;
        check(limic_tag_mprobe(get(), source, tag, mask, LIMIC_FOREVER, &taken.get(), found));
        return taken;
    }

private:
    /* A handle that is void after an error is harmless: the end of it is an error of the library. */
    void ended(int code)
    {
        if (code == LIMIC_OK)
            release();
        check(code);
    }
    uint32_t ask(int (*question)(limic_endpoint, uint32_t *)) const
    {
        uint32_t answer;
        check(question(get(), &answer));
        return answer;
    }
};

} // namespace limic

#endif

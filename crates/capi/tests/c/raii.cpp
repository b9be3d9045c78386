/* limic.hpp: what ends by itself, and what is thrown. */
#include <limic.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);           \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

template <class Call> static int thrown(Call call)
{
    try {
        call();
    } catch (const limic::error &error) {
        CHECK(std::strlen(error.what()) > 0);
        return error.code();
    }
    return LIMIC_OK;
}

static void messages(limic::endpoint &world)
{
    uint32_t right = (world.rank() + 1) % world.size();
    uint32_t left = (world.rank() + world.size() - 1) % world.size();
    std::vector<double> out(1000, world.rank() + 0.5), in(1000);
    size_t bytes = in.size() * sizeof(double);

    limic::request receive = world.irecv(in.data(), bytes, LIMIC_ANY_SOURCE, 7);
    CHECK(!receive.test());
    world.barrier();
    world.send(out.data(), bytes, right, 7);
    limic_status status = receive.wait();
    CHECK(status.source == left && status.length == bytes && in[999] == left + 0.5);
    CHECK(receive.get().endpoint == 0 && receive.test());

    limic::request send = world.isend("word", 4, right, 8, LIMIC_SEND_IMMEDIATE, 99);
    limic::message message = world.mprobe(left, 0, 0, &status);
    CHECK(status.tag == 8 && status.has_immediate == 1 && status.immediate == 99);
    char word[4];
    CHECK(message.recv(word, 4).length == 4 && std::memcmp(word, "word", 4) == 0);
    send.wait();
    CHECK(thrown([&] { world.send("x", 1, 1234, 0); }) == LIMIC_ERR_UNKNOWN_PEER);
    CHECK(thrown([&] { world.send("x", 1, right, UINT64_MAX); }) == LIMIC_ERR_INVALID);
}

static void ends()
{
    limic::endpoint one = limic::endpoint::open();
    uint32_t me = one.myself();
    {
        /* Nothing matches it: its end cancels it. */
        char byte;
        limic::request forgotten = one.irecv(&byte, 1, me, 1);
        CHECK(!forgotten.wait_for(0));
    }
    one.send("a", 1, me, 1);
    {
        limic::message dropped = one.mprobe(me, 1);
    }
    limic_status status = limic::status();
    CHECK(limic_tag_probe(one.get(), me, 1, UINT64_MAX, 0, &status) == LIMIC_ERR_TIMEOUT);

    limic::buffer buffer(1 << 20);
    std::memset(buffer.data(), 7, buffer.size());
    limic::buffer moved = std::move(buffer);
    CHECK(buffer.data() == nullptr && buffer.size() == 0 && moved.size() == 1 << 20);
    CHECK(static_cast<char *>(moved.data())[100] == 7);

    uint64_t word = 0, new_word = 5;
    {
        limic::region region(one.get(), &word, sizeof word);
        limic::request write;
        limic::check(limic_iwrite(one.get(), me, region.key(), 0, &new_word, sizeof new_word,
                                  &write.get()));
        write.wait();
        CHECK(word == 5);
    }
    limic_endpoint handle = one.get();
    limic::endpoint other = std::move(one);
    CHECK(one.get().id == 0 && limic_progress(handle, nullptr) == LIMIC_OK);
    other = limic::endpoint();
    CHECK(limic_progress(handle, nullptr) == LIMIC_ERR_ENDPOINT);
    CHECK(thrown([&] { other.rank(); }) == LIMIC_ERR_ENDPOINT);
}

/* What a region shows is hidden by the end of its endpoint too, and to a forked child. */
static void regions_that_are_over()
{
    uint64_t word = 0;
    limic::endpoint one = limic::endpoint::open();
    limic::region closed(one.get(), &word, sizeof word);
    one.close();
    limic::endpoint two = limic::endpoint::open();
    limic::region revoked(two.get(), &word, sizeof word);
    limic_region copy = revoked.get();
    CHECK(limic_region_revoke(&copy) == LIMIC_OK);
    limic::region parents(two.get(), &word, sizeof word);
    pid_t child = fork();
    if (child == 0) {
        limic::region ended = std::move(parents);
        ended = std::move(revoked);
        std::_Exit(3);
    }
    int ended;
    CHECK(child > 0 && waitpid(child, &ended, 0) == child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 3);
}

/* Nothing can be done about it, and its memory would be written after its end. */
template <class Owner> static void end_at_another_thread(Owner &owner)
{
    std::set_terminate([] { std::_Exit(7); });
    std::thread([&] { Owner ended = std::move(owner); }).join();
}

static void pending_request(limic::endpoint &one)
{
    char byte = 0;
    limic::request pending = one.irecv(&byte, 1, one.myself(), 1);
    end_at_another_thread(pending);
}

static void shown_region(limic::endpoint &one)
{
    uint64_t word = 0;
    limic::region shown(one.get(), &word, sizeof word);
    end_at_another_thread(shown);
}

/* A child that ends its program so. */
static void terminates(void (*what)(limic::endpoint &))
{
    pid_t child = fork();
    if (child == 0) {
        limic::endpoint one = limic::endpoint::open();
        what(one);
        std::_Exit(0);
    }
    int ended;
    CHECK(child > 0 && waitpid(child, &ended, 0) == child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 7);
}

int main()
{
    limic::endpoint world = limic::endpoint::world();
    messages(world);
    ends();
    world.finalize();

    regions_that_are_over();
    terminates(pending_request);
    terminates(shown_region);
    return 0;
}

/*
 * blast.h - what the load tools for queues have in common: connections, one epoll loop, publishers that keep within a
 * window, consumers that know what they have seen, histograms, the broker's figures, and the frame of the self-test.
 *
 * It knows bytes, messages and time, and no protocol. A tool includes it once, defines the functions named under "the
 * protocol's part", and calls blast_main.
 *
 * A message carries 24 bytes of ours: u64 time ns | u64 sequence | u32 pair | u32 run. Publisher i writes into queue i,
 * consumer i reads it (with --subs more than one reads the same); each consumer keeps one bit per sequence number, so what is
 * lost, doubled or out of order is known exactly, and a run in which anything is does not count: "valid" is false and the exit
 * status is 3.
 *
 * A protocol that cannot carry any byte defines `put_stamp` before it includes this.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
#define STAMP_BYTES 24
#define READ_BYTES (256u << 10)
#define BATCH_BYTES (64u << 10)
#define INVALID 3
#ifndef put_stamp
/* Writes bytes `at` and following of a message's 24. */
#define put_stamp(to, at, from, bytes) memcpy((to) + (at), from, bytes)
#endif

/* What a fault of the self-test's peer does to the messages it passes on. */
enum fault { NO_FAULT, DROPS, DOUBLES, SWAPS };

static struct {
    const char *mode, *exchange, *queue_type, *prefix, *user, *password, *host;
    int port, pid;
    uint32_t pairs, subs, size, window, confirms, prefetch, count; /* subs: 0 is one for each publisher */
    double rate, seconds, warmup, drain;
    bool durable, persistent, ack_each, fill; /* fill: consumers begin when publishers have ended */
} opt = {.mode = "pairs", .exchange = "", .queue_type = "", .prefix = "blast", .user = "guest", .password = "guest",
         .host = "127.0.0.1", .pairs = 1, .size = 36, .window = 1000, .count = 1000, .seconds = 3, .warmup = 1,
         .drain = 30};

struct conn {
    int fd;
    uint32_t number;
    bool is_publisher, waits_to_write;
    uint8_t *in; /* the start of what is not whole yet */
    size_t in_len, in_cap;
    uint8_t *out; /* a consumer's acknowledgements */
    size_t out_off, out_len, out_cap;
    struct conn *other; /* a consumer's publisher */

    /* A publisher: a batch of ready-made messages, stamped in place. */
    uint8_t *batch;
    size_t message_bytes, stamp_at, batch_cap;
    uint64_t generated, first_due, arrived; /* arrived: copies of its messages that consumers have */
    bool was_full;
    /* Unconfirmed messages by confirmation number (from 1), in a ring; 0 is none. */
    uint64_t *unconfirmed;
    uint64_t oldest_unconfirmed;
    uint32_t ring_mask, unconfirmed_count;

    /* A consumer: one bit per sequence number seen. */
    uint8_t *seen;
    size_t seen_bytes;
    uint64_t next, distinct;
    uint64_t to_ack; /* of AMQP: the last delivery that is not acknowledged yet */

    /* Where the protocol's parser stands. */
    uint8_t stage;
    bool foreign;
    uint64_t body_bytes, body_left;
    uint8_t stamp[STAMP_BYTES];
};

/* Log-linear histogram of nanoseconds, 64 cells per power of two: an error below 1.6 %. */
#define HIST_BITS 6
#define HIST_CELLS ((64 - HIST_BITS + 1) << HIST_BITS)
struct hist {
    uint64_t cells[HIST_CELLS], max;
};

static int ep;
static uint32_t run_id;
static uint64_t measured_from = UINT64_MAX, stop_at = UINT64_MAX;
static bool stopping;
static struct conn **publishers, **consumers;
static struct hist latency, latency_due, confirm_latency, lag;
static uint64_t generated, received, distinct, doubled, out_of_order, damaged, strangers, redelivered, refused, returned;
static uint64_t confirmed, received_measured, confirmed_measured, reads, writes;
static uint8_t filler[1 << 20];

/* The protocol's part. */
static const char *tool_name;
static void proto_open(struct conn *c);                     /* blocking: until the connection may publish or consumes */
static void proto_consume(struct conn *c);                  /* puts into `out` what makes it consume; after the run, of fill */
static void proto_make_batch(struct conn *c);               /* c->batch and its three sizes */
static size_t proto_parse(struct conn *c, const uint8_t *in, size_t length, uint64_t now); /* bytes that were whole */
static void proto_after_read(struct conn *c);
static uint64_t proto_close(struct conn *c); /* blocking; messages that were still in a consumer's queue */
static void proto_open_idle(struct conn *c);
static void peer_open(struct conn *c);
static size_t peer_parse(struct conn *c, uint8_t *in, size_t length);
static void peer_after_read(struct conn *c);

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static void *grown(void *old, size_t bytes)
{
    void *p = realloc(old, bytes);
    if (!p)
        die("no memory");
    return p;
}

static void *zeroed(size_t n, size_t bytes)
{
    void *p = calloc(n ? n : 1, bytes);
    if (!p)
        die("no memory");
    return p;
}

/* ------------------------------------------------------------------------------------------------------ histograms */

static void hist_note(struct hist *h, uint64_t ns)
{
    unsigned cell = (unsigned)ns;
    if (ns >= 1u << HIST_BITS) {
        unsigned power = 63u - (unsigned)__builtin_clzll(ns);
        cell = ((power - HIST_BITS + 1) << HIST_BITS) + (unsigned)(ns >> (power - HIST_BITS)) - (1u << HIST_BITS);
    }
    h->cells[cell]++;
    if (ns > h->max)
        h->max = ns;
}

static double hist_us(const struct hist *h, double q)
{
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < HIST_CELLS; i++)
        total += h->cells[i];
    uint64_t rank = (uint64_t)(q * (double)total);
    for (unsigned i = 0; i < HIST_CELLS; i++) {
        seen += h->cells[i];
        if (seen > rank) {
            unsigned block = i >> HIST_BITS, within = i & ((1u << HIST_BITS) - 1);
            return block ? (double)((uint64_t)(within + (1u << HIST_BITS)) << (block - 1)) / 1000.0 : i / 1000.0;
        }
    }
    return (double)h->max / 1000.0;
}

static void print_hist(const char *name, const struct hist *h)
{
    printf(", \"%s\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}", name, hist_us(h, 0.5),
           hist_us(h, 0.9), hist_us(h, 0.99), hist_us(h, 0.999), (double)h->max / 1000.0);
}

/* --------------------------------------------------------------------------------------------------------- sockets */

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    struct timeval patience = {.tv_sec = 20};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket: %s", strerror(errno));
    inet_pton(AF_INET, opt.host, &to.sin_addr);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (int tries = 0; connect(fd, (struct sockaddr *)&to, sizeof to) < 0; tries++) {
        if (tries > 100)
            die("connect to %s:%d: %s", opt.host, opt.port, strerror(errno));
        usleep(20000);
    }
    return fd;
}

static void read_all(int fd, void *to, size_t bytes, const char *what)
{
    uint8_t *at = to;
    while (bytes) {
        ssize_t n = recv(fd, at, bytes, 0);
        if (n <= 0)
            die("while waiting for %s: %s", what, n ? strerror(errno) : "the broker closed the connection");
        at += n;
        bytes -= (size_t)n;
    }
}

static void write_all(int fd, const void *from, size_t bytes)
{
    const uint8_t *at = from;
    while (bytes) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            die("write: %s", strerror(errno));
        at += n;
        bytes -= (size_t)n;
    }
}

static uint8_t *room(struct conn *c, size_t bytes)
{
    if (c->out_off == c->out_len)
        c->out_off = c->out_len = 0;
    if (c->out_len + bytes > c->out_cap) {
        c->out_cap = (c->out_len + bytes) * 2;
        c->out = grown(c->out, c->out_cap);
    }
    uint8_t *at = c->out + c->out_len;
    c->out_len += bytes;
    return at;
}

static void watch(struct conn *c, bool for_writing)
{
    if (c->waits_to_write == for_writing)
        return;
    struct epoll_event event = {.events = EPOLLIN | (for_writing ? EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &event);
    c->waits_to_write = for_writing;
}

/* True when nothing is left to write. A publisher's batch and what else it says share `out_off` and `out_len`. */
static bool flush(struct conn *c)
{
    const uint8_t *from = c->is_publisher ? c->batch : c->out;
    while (c->out_off < c->out_len) {
        ssize_t n = send(c->fd, from + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
        writes++;
        if (n > 0) {
            c->out_off += (size_t)n;
        } else if (errno == EAGAIN) {
            watch(c, true);
            return false;
        } else if (errno != EINTR) {
            die("connection %u: write: %s", c->number, strerror(errno));
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------ publishing */

static uint64_t copies(void) { return opt.subs / opt.pairs; }

/* How many messages publisher c may write now. */
static uint64_t allowance(struct conn *c, uint64_t now, uint64_t *next_due)
{
    uint64_t n = c->batch_cap;
    if (opt.rate > 0) {
        double gap = 1e9 * opt.pairs / opt.rate;
        uint64_t due_at = c->first_due + (uint64_t)((double)c->generated * gap);
        if (now < due_at) {
            if (due_at < *next_due)
                *next_due = due_at;
            return 0;
        }
        uint64_t due = (uint64_t)((double)(now - c->first_due) / gap) + 1;
        due = due > c->generated ? due - c->generated : 1;
        n = due < n ? due : n;
    }
    if (opt.confirms) {
        uint64_t unconfirmed_room = opt.confirms - c->unconfirmed_count;
        uint64_t ring_room = c->ring_mask + 1 - (c->generated + 1 - c->oldest_unconfirmed);
        n = unconfirmed_room < n ? unconfirmed_room : n;
        n = ring_room < n ? ring_room : n;
    }
    if (opt.window) {
        uint64_t ahead = c->generated - c->arrived / copies();
        /* Once full, half of it has to come free first: many small writes would measure system calls. */
        if (ahead >= opt.window || (c->was_full && ahead > opt.window / 2)) {
            c->was_full = true;
            return 0;
        }
        c->was_full = false;
        n = opt.window - ahead < n ? opt.window - ahead : n;
    }
    return n;
}

/* Writes what may be written. True when there is more to do at once. */
static bool pump(struct conn *c, uint64_t now, uint64_t *next_due)
{
    if (c->waits_to_write || !flush(c) || stopping)
        return false;
    uint64_t n = allowance(c, now, next_due);
    if (n == 0)
        return false;
    uint64_t stamp = now_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *to = c->batch + i * c->message_bytes + c->stamp_at;
        uint64_t seq = c->generated++;
        put_stamp(to, 0, &stamp, 8);
        put_stamp(to, 8, &seq, 8);
        if (opt.confirms)
            c->unconfirmed[(seq + 1) & c->ring_mask] = stamp;
        if (opt.rate > 0 && stamp >= measured_from)
            hist_note(&lag, stamp - (c->first_due + (uint64_t)((double)seq * 1e9 * opt.pairs / opt.rate)));
    }
    generated += n;
    c->unconfirmed_count += opt.confirms ? (uint32_t)n : 0;
    c->out_off = 0;
    c->out_len = n * c->message_bytes;
    return flush(c) && opt.rate == 0;
}

static void settle(struct conn *c, uint64_t number, uint64_t now)
{
    uint64_t *sent_at = &c->unconfirmed[number & c->ring_mask];
    if (!*sent_at)
        return;
    if (now >= measured_from && now < stop_at) {
        hist_note(&confirm_latency, now - *sent_at);
        confirmed_measured++;
    }
    *sent_at = 0;
    c->unconfirmed_count--;
    confirmed++;
}

/* The broker has taken `number`, or all up to it; false when it was not asked to. */
__attribute__((unused)) static bool on_confirm(struct conn *c, uint64_t number, bool and_all_before, uint64_t now)
{
    if (!opt.confirms || number == 0 || number > c->generated)
        return false;
    if (and_all_before) {
        for (uint64_t each = c->oldest_unconfirmed; each <= number; each++)
            settle(c, each, now);
    } else {
        if (number < c->oldest_unconfirmed || !c->unconfirmed[number & c->ring_mask])
            return false;
        settle(c, number, now);
    }
    while (c->oldest_unconfirmed <= c->generated && !c->unconfirmed[c->oldest_unconfirmed & c->ring_mask])
        c->oldest_unconfirmed++;
    return true;
}

/* ------------------------------------------------------------------------------------------------------- receiving */

/* A whole message of `length` bytes has come; `payload` is its start (all of it when `is_whole`). */
static void on_message(struct conn *c, const uint8_t *payload, size_t length, bool is_whole, uint64_t now)
{
    uint64_t stamp, seq;
    uint32_t pair, run;
    if (length != opt.size) {
        damaged++;
        return;
    }
    memcpy(&stamp, payload, 8);
    memcpy(&seq, payload + 8, 8);
    memcpy(&pair, payload + 16, 4);
    memcpy(&run, payload + 20, 4);
    if (run != run_id || c->is_publisher || pair != c->other->number || seq >= c->other->generated) {
        strangers++;
        return;
    }
    /* Every message's number is looked at, and every 64th one's bytes. */
    if (is_whole && seq % 64 == 0 && memcmp(payload + STAMP_BYTES, filler + STAMP_BYTES, length - STAMP_BYTES) != 0)
        damaged++;
    received++;
    if (seq / 8 >= c->seen_bytes) {
        size_t bytes = c->seen_bytes ? c->seen_bytes * 2 : 4096;
        while (bytes <= seq / 8)
            bytes *= 2;
        c->seen = grown(c->seen, bytes);
        memset(c->seen + c->seen_bytes, 0, bytes - c->seen_bytes);
        c->seen_bytes = bytes;
    }
    uint8_t bit = (uint8_t)(1u << (seq & 7));
    if (c->seen[seq / 8] & bit) {
        doubled++;
        return;
    }
    c->seen[seq / 8] |= bit;
    c->distinct++;
    c->other->arrived++;
    distinct++;
    if (seq < c->next)
        out_of_order++;
    else
        c->next = seq + 1;
    if (now >= measured_from && now < stop_at) {
        received_measured++;
        hist_note(&latency, now > stamp ? now - stamp : 0);
        if (opt.rate > 0) {
            uint64_t due = c->other->first_due + (uint64_t)((double)seq * 1e9 * opt.pairs / opt.rate);
            hist_note(&latency_due, now > due ? now - due : 0);
        }
    }
}

static void on_readable(struct conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
    reads++;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        die("connection %u (%s): the broker closed it (%s)", c->number, c->is_publisher ? "publisher" : "consumer",
            n ? strerror(errno) : "end");
    c->in_len += (size_t)n;
    size_t used = proto_parse(c, c->in, c->in_len, now_ns());
    memmove(c->in, c->in + used, c->in_len - used);
    c->in_len -= used;
    if (c->in_len == c->in_cap)
        die("connection %u: a frame longer than %zu bytes", c->number, c->in_cap);
    proto_after_read(c);
}

static bool turn(uint64_t now)
{
    struct epoll_event events[256];
    uint64_t next_due = now + NS / 50;
    bool again = false;
    for (uint32_t i = 0; i < opt.pairs; i++)
        again |= pump(publishers[i], now, &next_due);
    uint64_t wait = 0, then = now_ns();
    if (!again && next_due > then)
        wait = next_due - then;
    struct timespec timeout = {.tv_sec = (time_t)(wait / NS), .tv_nsec = (long)(wait % NS)};
    int n = epoll_pwait2(ep, events, 256, &timeout, NULL);
    for (int i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) {
            watch(c, false);
            flush(c);
        }
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            on_readable(c);
    }
    return n > 0;
}

/* --------------------------------------------------------------------------------------------- the broker's figures */

struct figures {
    double cpu_s;
    uint64_t rss_kib, peak_kib;
};

static struct figures look(int pid)
{
    struct figures f = {0};
    char path[64], line[4096];
    unsigned long user, sys;
    if (!pid)
        return f;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file)) {
        char *rest = strrchr(line, ')');
        if (rest && sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) == 2)
            f.cpu_s = (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
    }
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if ((file = fopen(path, "r"))) {
        while (fgets(line, sizeof line, file)) {
            sscanf(line, "VmRSS: %lu", &f.rss_kib);
            sscanf(line, "VmHWM: %lu", &f.peak_kib);
        }
        fclose(file);
    }
    return f;
}

static double own_cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ------------------------------------------------------------------------------------------------------------- runs */

static struct conn *new_conn(uint32_t number, bool is_publisher)
{
    struct conn *c = zeroed(1, sizeof *c);
    c->number = number;
    c->is_publisher = is_publisher;
    c->fd = dial();
    return c;
}

static void make_ready(struct conn *c)
{
    c->in_cap = READ_BYTES;
    c->in = zeroed(1, c->in_cap);
    if (c->is_publisher) {
        uint32_t ring = 64;
        while (opt.confirms && ring < 4 * opt.confirms)
            ring *= 2;
        c->ring_mask = ring - 1;
        c->unconfirmed = zeroed(ring, sizeof *c->unconfirmed);
        c->oldest_unconfirmed = 1;
        proto_make_batch(c);
        for (size_t i = 0; i < c->batch_cap; i++) {
            uint8_t *stamp = c->batch + i * c->message_bytes + c->stamp_at;
            put_stamp(stamp, 16, &c->number, 4);
            put_stamp(stamp, 20, &run_id, 4);
        }
    }
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &event);
}

static bool is_complete(void)
{
    if (distinct < generated * copies() || (opt.confirms && confirmed < generated))
        return false;
    for (uint32_t i = 0; i < opt.subs; i++)
        if (consumers[i]->out_off < consumers[i]->out_len)
            return false;
    return true;
}

static int run_pairs(void)
{
    publishers = zeroed(opt.pairs, sizeof *publishers);
    consumers = zeroed(opt.subs, sizeof *consumers);
    for (uint32_t i = 0; i < opt.subs; i++) {
        consumers[i] = new_conn(i, false);
        proto_open(consumers[i]);
    }
    for (uint32_t i = 0; i < opt.pairs; i++) {
        publishers[i] = new_conn(i, true);
        proto_open(publishers[i]);
    }
    for (uint32_t i = 0; i < opt.subs; i++) {
        consumers[i]->other = publishers[i % opt.pairs];
        make_ready(consumers[i]);
    }
    for (uint32_t i = 0; i < opt.pairs; i++)
        make_ready(publishers[i]);
    uint64_t begun = now_ns(), now = begun, progress_at = begun, progress = 0;
    for (uint32_t i = 0; i < opt.pairs && opt.rate > 0; i++)
        publishers[i]->first_due = begun + NS / 100 + (uint64_t)(1e9 / opt.rate * i);
    uint64_t from = begun + (uint64_t)(opt.warmup * 1e9);
    struct figures before = {0}, after = {0};
    double cpu_before = 0, tool_cpu_s = 0;
    uint64_t ended = 0, generated_before = 0, generated_measured = 0, drain_until = 0;
    bool stalled = false;
    for (;;) {
        turn(now);
        now = now_ns();
        if (measured_from == UINT64_MAX && now >= from) {
            before = look(opt.pid);
            cpu_before = own_cpu_s();
            generated_before = generated;
            measured_from = now = now_ns();
            stop_at = measured_from + (uint64_t)(opt.seconds * 1e9);
        }
        if (!stopping && now >= stop_at) {
            after = look(opt.pid);
            tool_cpu_s = own_cpu_s() - cpu_before;
            generated_measured = generated - generated_before;
            ended = now;
            drain_until = now + (uint64_t)(opt.drain * 1e9);
            stopping = true;
            for (uint32_t i = 0; i < opt.subs && opt.fill; i++) {
                proto_consume(consumers[i]);
                flush(consumers[i]);
            }
        }
        if (received + confirmed != progress || generated == 0) {
            progress = received + confirmed;
            progress_at = now;
        }
        if (stopping && (is_complete() || now >= drain_until))
            break;
        if (opt.rate == 0 && now - progress_at > 10 * NS) {
            stalled = true;
            if (!stopping) {
                ended = now;
                after = look(opt.pid);
            }
            break;
        }
    }
    uint64_t drained = now_ns(), lost = generated * copies() - distinct, unconfirmed = opt.confirms ? generated - confirmed : 0, left = 0;
    for (uint32_t i = 0; i < opt.pairs + opt.subs && !stalled && lost == 0; i++) {
        struct conn *c = i < opt.pairs ? publishers[i] : consumers[i - opt.pairs];
        fcntl(c->fd, F_SETFL, 0);
        left += proto_close(c);
    }
    bool valid = !stalled && !lost && !doubled && !out_of_order && !damaged && !strangers && !redelivered && !refused &&
                 !returned && !unconfirmed && !left && (opt.fill ? confirmed_measured : received_measured) > 0;
    double seconds = (double)((stalled ? ended : stop_at) - measured_from) / 1e9;
    double broker_cpu_s = after.cpu_s - before.cpu_s, measured = (double)(opt.fill ? confirmed_measured : received_measured);
    printf("{\"tool\": \"%s\", \"mode\": \"%s\", \"valid\": %s, \"msgs_per_s\": %.0f, \"sent_per_s\": %.0f, \"confirmed_per_s\": %.0f",
           tool_name, opt.mode, valid ? "true" : "false", (double)received_measured / seconds, (double)generated_measured / seconds,
           (double)confirmed_measured / seconds);
    printf(", \"pairs\": %u, \"subs\": %u, \"size\": %u, \"window\": %u, \"confirms\": %u, \"prefetch\": %u, \"rate\": %.0f, \"seconds\": %.3f",
           opt.pairs, opt.subs, opt.size, opt.window, opt.confirms, opt.prefetch, opt.rate, seconds);
    printf(", \"sent\": %lu, \"received\": %lu, \"confirmed\": %lu, \"lost\": %lu, \"doubled\": %lu, \"out_of_order\": %lu"
           ", \"damaged\": %lu, \"strangers\": %lu, \"redelivered\": %lu, \"refused\": %lu, \"returned\": %lu, \"unconfirmed\": %lu"
           ", \"left\": %lu, \"stalled\": %s, \"drain_s\": %.2f",
           generated, received, confirmed, lost, doubled, out_of_order, damaged, strangers, redelivered, refused, returned,
           unconfirmed, left, stalled ? "true" : "false", (double)(drained - ended) / 1e9);
    if (opt.pid)
        printf(", \"broker_us_per_msg\": %.3f, \"broker_cpu\": %.2f, \"rss_mib\": %.1f, \"rss_peak_mib\": %.1f",
               measured > 0 ? broker_cpu_s * 1e6 / measured : 0, broker_cpu_s / seconds, (double)after.rss_kib / 1024,
               (double)after.peak_kib / 1024);
    printf(", \"tool_cpu\": %.2f, \"reads\": %lu, \"writes\": %lu", tool_cpu_s / seconds, reads, writes);
    if (!opt.fill)
        print_hist("lat_us", &latency);
    if (opt.confirms)
        print_hist("confirm_us", &confirm_latency);
    if (opt.rate > 0) {
        print_hist("lat_from_schedule_us", &latency_due);
        print_hist("lag_us", &lag);
    }
    puts("}");
    fflush(stdout);
    return valid ? 0 : INVALID;
}

/* N connections that do nothing: the broker's resident memory before and after, once it has stopped moving. */
static int run_idle(void)
{
    struct conn **all = zeroed(opt.count + 1, sizeof *all);
    /* The first pays for what a broker makes only once. */
    for (uint32_t i = 0; i <= opt.count / 100; i++) {
        struct conn *c = new_conn(1000000 + i, false);
        proto_open_idle(c);
        if (i)
            close(c->fd);
        else
            all[opt.count] = c;
    }
    sleep(3);
    struct figures before = look(opt.pid);
    uint64_t begun = now_ns(), lost = 0;
    for (uint32_t i = 0; i < opt.count; i++) {
        all[i] = new_conn(i, false);
        proto_open_idle(all[i]);
    }
    double seconds = (double)(now_ns() - begun) / 1e9;
    struct figures at_once = look(opt.pid);
    usleep((useconds_t)(opt.seconds * 1e6));
    struct figures after = look(opt.pid);
    for (uint32_t i = 0; i < opt.count; i++) {
        uint8_t byte;
        lost += recv(all[i]->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
    }
    printf("{\"tool\": \"%s\", \"mode\": \"idle\", \"valid\": %s, \"count\": %u, \"lost\": %lu, \"opened_per_s\": %.0f, "
           "\"rss_mib_before\": %.1f, \"rss_mib\": %.1f, \"kib_each\": %.2f, \"kib_each_at_once\": %.2f, \"broker_cpu_idle\": %.3f}\n",
           tool_name, lost ? "false" : "true", opt.count, lost, opt.count / seconds, (double)before.rss_kib / 1024,
           (double)after.rss_kib / 1024, ((double)after.rss_kib - (double)before.rss_kib) / opt.count,
           ((double)at_once.rss_kib - (double)before.rss_kib) / opt.count, (after.cpu_s - at_once.cpu_s) / opt.seconds);
    return lost ? INVALID : 0;
}

/* ---------------------------------------------------------------------------------------------- the self-test's peer */

/* A peer knows as much of the protocol as it takes to pass a message on, and keeps nothing. */
static struct {
    enum fault fault;
    uint64_t passed;
    uint8_t kept[4096]; /* of SWAPS: the message that is overtaken */
    size_t kept_len;
} peer;

/* How many times this message is passed on, or -1: it waits for the next one. */
static int peer_copies(void)
{
    bool is_hit = ++peer.passed % 5000 == 0;
    return !is_hit || peer.fault == NO_FAULT ? 1 : peer.fault == DROPS ? 0 : peer.fault == DOUBLES ? 2 : -1;
}

/* Puts one encoded delivery into the consumer's buffer, as often as the fault says. */
static void peer_pass(struct conn *to, const struct iovec *parts, int count)
{
    int copies = peer_copies();
    if (copies < 0) {
        for (int i = 0; i < count && peer.kept_len + parts[i].iov_len <= sizeof peer.kept; i++) {
            memcpy(peer.kept + peer.kept_len, parts[i].iov_base, parts[i].iov_len);
            peer.kept_len += parts[i].iov_len;
        }
        return;
    }
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    while (copies-- > 0) {
        uint8_t *at = room(to, bytes);
        for (int i = 0; i < count; i++) {
            memcpy(at, parts[i].iov_base, parts[i].iov_len);
            at += parts[i].iov_len;
        }
    }
    if (peer.kept_len) {
        memcpy(room(to, peer.kept_len), peer.kept, peer.kept_len);
        peer.kept_len = 0;
    }
}

__attribute__((noreturn)) static void run_peer(int listener)
{
    struct conn *all[256];
    int count = 0;
    struct epoll_event events[256], event = {.events = EPOLLIN, .data.ptr = NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ep = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(ep, events, 256, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) {
                int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd < 0 || count == 256)
                    die("accept: %s", strerror(errno));
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                c = all[count++] = zeroed(1, sizeof *c);
                c->fd = fd;
                c->in_cap = READ_BYTES;
                c->in = zeroed(1, c->in_cap);
                event.data.ptr = c;
                epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event);
                peer_open(c);
                continue;
            }
            if (events[i].events & EPOLLOUT)
                watch(c, false);
            if (!(events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                continue;
            ssize_t got = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
            if (got <= 0) {
                close(c->fd);
                c->fd = -1;
                continue;
            }
            c->in_len += (size_t)got;
            size_t used = peer_parse(c, c->in, c->in_len);
            memmove(c->in, c->in + used, c->in_len - used);
            c->in_len -= used;
            peer_after_read(c);
        }
        for (int i = 0; i < count; i++)
            if (all[i]->fd >= 0 && !all[i]->waits_to_write && all[i]->out_off < all[i]->out_len)
                flush(all[i]);
    }
}

static int run(void);

/* One run of the tool against a peer with that fault; the exit status of the tool's process. */
static int run_against_peer(enum fault fault)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    int one = 1, status, listener = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, opt.host, &at.sin_addr);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 256) < 0)
        die("port %d: %s", opt.port, strerror(errno));
    fflush(stdout);
    pid_t other = fork();
    if (other == 0) {
        peer.fault = fault;
        run_peer(listener);
    }
    close(listener);
    pid_t tool = fork();
    if (tool == 0) {
        opt.pid = other;
        exit(run());
    }
    waitpid(tool, &status, 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The tool's own ceiling, and that it sees what it is there to see. */
static int selftest(void (*set_case)(int), int cases)
{
    int failed = 0;
    for (int i = 0; i < cases; i++) {
        set_case(i);
        failed += run_against_peer(NO_FAULT) != 0;
    }
    set_case(0);
    opt.seconds = 0.3;
    opt.warmup = 0.2;
    opt.drain = 1;
    for (enum fault fault = DROPS; fault <= SWAPS; fault++)
        failed += run_against_peer(fault) != INVALID;
    fprintf(stderr, "%s: selftest %s\n", tool_name, failed ? "FAILED" : "passed");
    return failed != 0;
}

static int run(void)
{
    if (!opt.subs)
        opt.subs = opt.pairs;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    run_id = (uint32_t)(t.tv_nsec ^ (getpid() << 16));
    for (size_t i = 0; i < sizeof filler; i++)
        filler[i] = (uint8_t)('a' + i % 26);
    ep = epoll_create1(EPOLL_CLOEXEC);
    return strcmp(opt.mode, "idle") == 0 ? run_idle() : run_pairs();
}

/* ---------------------------------------------------------------------------------------------------------- options */

static int blast_main(int argc, char **argv, const char *usage, void (*set_mode)(const char *), void (*set_case)(int), int cases)
{
    enum { HOST = 256, PORT, PID, PAIRS, SUBS, SIZE, WINDOW, CONFIRMS, PREFETCH, COUNT, RATE, SECONDS, WARMUP, DRAIN, DURABLE, PERSISTENT,
           ACK_EACH, EXCHANGE, QUEUE_TYPE, PREFIX, USER, PASSWORD };
    static const struct option options[] = {
        {"host", 1, 0, HOST}, {"port", 1, 0, PORT}, {"pid", 1, 0, PID}, {"pairs", 1, 0, PAIRS}, {"subs", 1, 0, SUBS},
        {"size", 1, 0, SIZE},
        {"window", 1, 0, WINDOW}, {"confirms", 1, 0, CONFIRMS}, {"prefetch", 1, 0, PREFETCH}, {"count", 1, 0, COUNT},
        {"rate", 1, 0, RATE}, {"seconds", 1, 0, SECONDS}, {"warmup", 1, 0, WARMUP}, {"drain", 1, 0, DRAIN},
        {"durable", 0, 0, DURABLE}, {"persistent", 0, 0, PERSISTENT}, {"ack-each", 0, 0, ACK_EACH},
        {"exchange", 1, 0, EXCHANGE}, {"queue-type", 1, 0, QUEUE_TYPE}, {"prefix", 1, 0, PREFIX}, {"user", 1, 0, USER},
        {"password", 1, 0, PASSWORD}, {0}};
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1000ul);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (argc < 2 || argv[1][0] == '-') {
        if (argc < 2 || strcmp(argv[1], "--selftest") != 0) {
            fputs(usage, stderr);
            return 1;
        }
        opt.mode = "selftest";
    } else {
        opt.mode = argv[1];
        set_mode(opt.mode);
    }
    for (int o; (o = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1;) {
        switch (o) {
        case HOST: opt.host = optarg; break;
        case PORT: opt.port = atoi(optarg); break;
        case PID: opt.pid = atoi(optarg); break;
        case PAIRS: opt.pairs = (uint32_t)atoi(optarg); break;
        case SUBS: opt.subs = (uint32_t)atoi(optarg); break;
        case SIZE: opt.size = (uint32_t)atoi(optarg); break;
        case WINDOW: opt.window = (uint32_t)atoi(optarg); break;
        case CONFIRMS: opt.confirms = (uint32_t)atoi(optarg); break;
        case PREFETCH: opt.prefetch = (uint32_t)atoi(optarg); break;
        case COUNT: opt.count = (uint32_t)atoi(optarg); break;
        case RATE: opt.rate = atof(optarg); break;
        case SECONDS: opt.seconds = atof(optarg); break;
        case WARMUP: opt.warmup = atof(optarg); break;
        case DRAIN: opt.drain = atof(optarg); break;
        case DURABLE: opt.durable = true; break;
        case PERSISTENT: opt.persistent = true; break;
        case ACK_EACH: opt.ack_each = true; break;
        case EXCHANGE: opt.exchange = optarg; break;
        case QUEUE_TYPE: opt.queue_type = optarg; break;
        case PREFIX: opt.prefix = optarg; break;
        case USER: opt.user = optarg; break;
        case PASSWORD: opt.password = optarg; break;
        default: fputs(usage, stderr); return 1;
        }
    }
    if (!opt.port || !opt.pairs || opt.size < STAMP_BYTES || opt.size > sizeof filler || opt.seconds <= 0)
        die("a port, at least one pair, and %d to %zu bytes are needed", STAMP_BYTES, sizeof filler);
    if (opt.subs % opt.pairs)
        die("each publisher needs as many consumers as the others");
    return strcmp(opt.mode, "selftest") == 0 ? selftest(set_case, cases) : run();
}

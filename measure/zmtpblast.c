/*
 * zmtpblast - load for brokers of ZMTP over bare sockets, with MQTT at either end if wanted.
 *
 * libzmq takes some 400 ns of processor time for each message that it sends and receives, so that on two cores a tool made of
 * it (zmqblast) is the limit before a fast broker is. This one writes batches of ready-made frames and parses what comes, in
 * one thread.
 *
 * Build:  cc -O3 -march=native -std=gnu11 -Wall -Wextra -o zmtpblast zmtpblast.c
 *
 *   zmtpblast --from PUB:PORT --to SUB:PORT [--pubs P] [--subs S] [--pattern pair|all] [--size BYTES] [--window N]
 *             [--rate R] [--duration S] [--warmup S] [--pid BROKER]
 *
 * Ends: PUB or MQTT to SUB or MQTT, and PUSH to PULL. `pair`: receiver i has the topic of publisher i mod P; `all`: one topic
 * for all. A message is one frame: 11 bytes of topic, a zero, the payload (of PUSH: the payload). Publishers stay at most N
 * messages ahead of their receivers; with --rate all together send R a second.
 *
 * Prints one line of JSON; the exit status is 3 if a message was lost, doubled or out of order.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
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
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
#define STAMP_BYTES 24
#define TOPIC_BYTES 11
#define READ_BYTES (512u << 10)
#define REST_BYTES (64u << 10)
#define BATCH_BYTES (64u << 10)

enum kind { PUB, SUB, PUSH, PULL, MQTT };
static const char *const names[] = {"PUB", "SUB", "PUSH", "PULL", "MQTT"};

static struct {
    enum kind from, to;
    int from_port, to_port, pid;
    uint32_t pubs, subs, size;
    uint64_t window;
    bool all;
    double rate, duration, warmup;
} opt = {.from = PUB, .to = SUB, .pubs = 1, .subs = 1, .size = 36, .window = 500, .duration = 4, .warmup = 1};

struct conn {
    int fd;
    uint32_t number;
    bool is_publisher, waits_to_write, was_full;
    uint8_t *in; /* a receiver's: the start of what is not whole yet */
    size_t in_len;
    uint8_t *batch; /* a publisher's: ready-made messages, stamped in place */
    size_t message_bytes, stamp_at, cap, out_off, out_len;
    uint64_t generated, credit; /* credit: copies of its messages that have come */
    uint64_t *next;             /* a receiver's: the number that is due from each publisher */
};

/* Log-linear histogram of nanoseconds, 64 cells per power of two. */
#define BITS 6
static uint64_t cells[(64 - BITS + 1) << BITS], latest;

static int ep;
static uint32_t run_id;
static struct conn *publishers, *receivers;
static uint64_t copies, received, disorder, measured, measured_from = UINT64_MAX, stop_at = UINT64_MAX;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("zmtpblast: ", stderr);
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

static void *zeroed(size_t n, size_t bytes)
{
    void *p = calloc(n ? n : 1, bytes);
    if (!p)
        die("no memory");
    return p;
}

static void note(uint64_t ns)
{
    unsigned cell = (unsigned)ns;
    if (ns >= 1u << BITS) {
        unsigned power = 63u - (unsigned)__builtin_clzll(ns);
        cell = ((power - BITS + 1) << BITS) + (unsigned)(ns >> (power - BITS)) - (1u << BITS);
    }
    cells[cell]++;
    latest = ns > latest ? ns : latest;
}

static double quantile_us(double q)
{
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < sizeof cells / 8; i++)
        total += cells[i];
    for (size_t i = 0; i < sizeof cells / 8; i++)
        if ((seen += cells[i]) > (uint64_t)(q * (double)total)) {
            unsigned block = (unsigned)i >> BITS, within = i & ((1u << BITS) - 1);
            return block ? (double)((uint64_t)(within + (1u << BITS)) << (block - 1)) / 1000 : (double)i / 1000;
        }
    return (double)latest / 1000;
}

/* ----------------------------------------------------------------------------------------------------- connections */

static void write_all(int fd, const void *from, size_t bytes)
{
    for (const uint8_t *at = from; bytes;) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            die("write: %s", strerror(errno));
        at += n;
        bytes -= (size_t)n;
    }
}

static void read_all(int fd, void *to, size_t bytes, const char *what)
{
    for (uint8_t *at = to; bytes;) {
        ssize_t n = recv(fd, at, bytes, 0);
        if (n <= 0)
            die("while waiting for %s: %s", what, n ? strerror(errno) : "the broker closed the connection");
        at += n;
        bytes -= (size_t)n;
    }
}

static void topic_of(char *to, uint32_t publisher)
{
    if (opt.all)
        memcpy(to, "bench/share", TOPIC_BYTES + 1);
    else
        snprintf(to, TOPIC_BYTES + 1, "bench/%05u", publisher % 100000);
}

/* ZMTP 3.0 with NULL: greetings, then READY. */
static void open_zmtp(int fd, enum kind kind, const char *topic)
{
    uint8_t greeting[64] = {0xFF, [8] = 1, [9] = 0x7F, 3, 0, 'N', 'U', 'L', 'L'}, ready[64] = {4, 0}, head[2];
    size_t name = strlen(names[kind]), at = 2;
    write_all(fd, greeting, sizeof greeting);
    memcpy(ready + at, "\5READY\13Socket-Type\0\0\0", 21);
    ready[at + 21] = (uint8_t)name;
    memcpy(ready + at + 22, names[kind], name);
    at += 22 + name;
    ready[1] = (uint8_t)(at - 2);
    write_all(fd, ready, at);
    read_all(fd, greeting, sizeof greeting, "a greeting");
    read_all(fd, head, sizeof head, "READY");
    uint8_t body[256];
    read_all(fd, body, head[1], "READY");
    if (head[0] != 4 || memcmp(body, "\5READY", 6) != 0)
        die("a %s is refused: %.*s", names[kind], head[1], body);
    if (kind == SUB) {
        uint8_t subscribe[3 + TOPIC_BYTES] = {0, 1 + TOPIC_BYTES, 1};
        memcpy(subscribe + 3, topic, TOPIC_BYTES);
        write_all(fd, subscribe, sizeof subscribe);
    }
}

static void open_mqtt(int fd, bool receives, uint32_t number, const char *topic)
{
    char packet[64];
    int name = snprintf(packet + 14, 40, "%c-%08x-%u", receives ? 's' : 'p', run_id, number);
    memcpy(packet, "\x10\0\0\4MQTT\4\2\0\0\0\0", 14);
    packet[1] = (char)(12 + name);
    packet[13] = (char)name;
    uint8_t answer[5];
    write_all(fd, packet, (size_t)(14 + name));
    read_all(fd, answer, 4, "CONNACK");
    if (answer[3])
        die("CONNECT is refused: %u", answer[3]);
    if (receives) {
        memcpy(packet, "\x82\x10\0\1\0\13", 6);
        memcpy(packet + 6, topic, TOPIC_BYTES);
        packet[6 + TOPIC_BYTES] = 0;
        write_all(fd, packet, 7 + TOPIC_BYTES);
        read_all(fd, answer, 5, "SUBACK");
    }
}

static void open_conn(struct conn *c, uint32_t number, bool is_publisher)
{
    enum kind kind = is_publisher ? opt.from : opt.to;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(is_publisher ? opt.from_port : opt.to_port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 20};
    int one = 1;
    char topic[TOPIC_BYTES + 1];
    topic_of(topic, number % opt.pubs);
    c->number = number;
    c->is_publisher = is_publisher;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("port %d: %s", ntohs(to.sin_port), strerror(errno));
    if (kind == MQTT)
        open_mqtt(c->fd, !is_publisher, number, topic);
    else
        open_zmtp(c->fd, kind, topic);
    c->in = zeroed(1, REST_BYTES);
    if (!is_publisher)
        c->next = zeroed(opt.pubs, 8);
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &event);
}

/* ------------------------------------------------------------------------------------------------------ publishing */

static void make_batch(struct conn *c)
{
    uint8_t head[32];
    size_t n = 0, topic = opt.from == PUSH ? 0 : opt.from == MQTT ? 2 + TOPIC_BYTES : TOPIC_BYTES + 1;
    size_t body = topic + opt.size;
    if (opt.from == MQTT) {
        head[n++] = 0x30;
        for (size_t left = body; n == 1 || left; left >>= 7)
            head[n++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
        head[n++] = 0;
        head[n++] = TOPIC_BYTES;
    } else if (body < 256) {
        head[n++] = 0;
        head[n++] = (uint8_t)body;
    } else {
        head[n++] = 2;
        for (int shift = 56; shift >= 0; shift -= 8)
            head[n++] = (uint8_t)((uint64_t)body >> shift);
    }
    if (topic) {
        char name[TOPIC_BYTES + 1];
        topic_of(name, c->number);
        memcpy(head + n, name, TOPIC_BYTES + 1);
        n += opt.from == MQTT ? TOPIC_BYTES : TOPIC_BYTES + 1;
    }
    c->stamp_at = n;
    c->message_bytes = n + opt.size;
    c->cap = BATCH_BYTES / c->message_bytes;
    c->cap = c->cap ? c->cap : 1;
    c->batch = zeroed(c->cap, c->message_bytes);
    for (size_t i = 0; i < c->cap; i++) {
        uint8_t *message = c->batch + i * c->message_bytes;
        memcpy(message, head, n);
        memset(message + n, 'z', opt.size);
        memcpy(message + n + 16, &c->number, 4);
        memcpy(message + n + 20, &run_id, 4);
    }
}

static void watch(struct conn *c, bool for_writing)
{
    struct epoll_event event = {.events = EPOLLIN | (for_writing ? EPOLLOUT : 0u), .data.ptr = c};
    if (c->waits_to_write != for_writing)
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &event);
    c->waits_to_write = for_writing;
}

/* True when nothing is left to write. */
static bool flush(struct conn *c)
{
    while (c->out_off < c->out_len) {
        ssize_t n = send(c->fd, c->batch + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
        if (n > 0) {
            c->out_off += (size_t)n;
        } else if (errno == EAGAIN) {
            watch(c, true);
            return false;
        } else if (errno != EINTR) {
            die("publisher %u: %s", c->number, strerror(errno));
        }
    }
    return true;
}

/* Writes `n` messages. True when they have left. */
static bool send_some(struct conn *c, uint64_t n)
{
    uint64_t stamp = now_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *to = c->batch + i * c->message_bytes + c->stamp_at;
        memcpy(to, &stamp, 8);
        memcpy(to + 8, &c->generated, 8);
        c->generated++;
    }
    c->out_off = 0;
    c->out_len = n * c->message_bytes;
    return flush(c);
}

/* Writes what the window allows. True when there is more to do at once. */
static bool pump(struct conn *c)
{
    if (c->waits_to_write)
        return false;
    uint64_t ahead = c->generated - c->credit / copies;
    /* Once full, half of it has to come free first: many small writes would measure system calls. */
    if (ahead >= opt.window || (c->was_full && ahead > opt.window / 2)) {
        c->was_full = true;
        return false;
    }
    c->was_full = false;
    uint64_t n = opt.window - ahead;
    return send_some(c, n < c->cap ? n : c->cap);
}

/* ------------------------------------------------------------------------------------------------------- receiving */

static void on_message(struct conn *c, const uint8_t *payload, uint64_t now)
{
    uint64_t stamp, seq;
    uint32_t who, run;
    memcpy(&stamp, payload, 8);
    memcpy(&seq, payload + 8, 8);
    memcpy(&who, payload + 16, 4);
    memcpy(&run, payload + 20, 4);
    if (run != run_id || who >= opt.pubs)
        return;
    received++;
    publishers[who].credit++;
    /* Of a queue each receiver has a part. */
    disorder += opt.to == PULL ? seq < c->next[who] : seq != c->next[who];
    c->next[who] = seq + 1;
    if (now >= measured_from && now < stop_at) {
        measured++;
        note(now > stamp ? now - stamp : 0);
    }
}

/* Head and body of the packet at `in`; 0 when its length is not there. */
static size_t head_of(const uint8_t *in, size_t length, size_t *body)
{
    size_t n = 0, at = 1;
    if (length < 2)
        return 0;
    if (opt.to == MQTT) {
        for (unsigned shift = 0; at < length && at < 5; shift += 7) {
            n |= (size_t)(in[at] & 127) << shift;
            if (!(in[at++] & 128)) {
                *body = n;
                return at;
            }
        }
        return 0;
    }
    if (!(in[0] & 2)) {
        *body = in[1];
        return 2;
    }
    if (length < 9)
        return 0;
    for (; at < 9; at++)
        n = n << 8 | in[at];
    *body = n;
    return 9;
}

static void on_readable(struct conn *c)
{
    static uint8_t in[READ_BYTES];
    memcpy(in, c->in, c->in_len);
    ssize_t got = recv(c->fd, in + c->in_len, READ_BYTES - c->in_len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        die("%s %u: the broker closed it", names[c->is_publisher ? opt.from : opt.to], c->number);
    if (c->is_publisher)
        return; /* subscriptions of an XSUB */
    size_t length = c->in_len + (size_t)got, at = 0, body, head;
    uint64_t now = now_ns();
    while ((head = head_of(in + at, length - at, &body)) && length - at >= head + body) {
        bool is_message = opt.to == MQTT ? in[at] >> 4 == 3 : !(in[at] & 4);
        if (is_message && body >= opt.size)
            on_message(c, in + at + head + body - opt.size, now);
        at += head + body;
    }
    c->in_len = length - at;
    if (c->in_len > REST_BYTES)
        die("a message is longer than %u bytes", REST_BYTES);
    memcpy(c->in, in + at, c->in_len);
}

/* ------------------------------------------------------------------------------------------------------------ runs */

static double broker_cpu_s(void)
{
    char path[64], line[1024];
    unsigned long user = 0, sys = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", opt.pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    char *rest = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (rest)
        sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys);
    fclose(file);
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static long broker_rss_kib(void)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", opt.pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static double own_cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static uint64_t sent(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < opt.pubs; i++)
        sum += publishers[i].generated;
    return sum;
}

static void turn(uint64_t wait)
{
    struct epoll_event events[256];
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
}

static int run(void)
{
    ep = epoll_create1(EPOLL_CLOEXEC);
    run_id = (uint32_t)(now_ns() ^ (uint64_t)getpid() << 16);
    publishers = zeroed(opt.pubs, sizeof *publishers);
    receivers = zeroed(opt.subs, sizeof *receivers);
    copies = opt.to == PULL ? 1 : opt.all ? opt.subs : opt.subs / opt.pubs;
    for (uint32_t i = 0; i < opt.subs; i++)
        open_conn(&receivers[i], i, false);
    /* A subscription of ZeroMQ has no answer, and travels on to publishers. */
    usleep(300000 + opt.subs * 1000);
    for (uint32_t i = 0; i < opt.pubs; i++) {
        open_conn(&publishers[i], i, true);
        make_batch(&publishers[i]);
    }
    usleep(300000);
    uint64_t begun = now_ns(), ticks = 0, last = 0, last_at;
    double cpu = 0, own = 0, took;
    long rss;
    measured_from = begun + (uint64_t)(opt.warmup * 1e9);
    stop_at = measured_from + (uint64_t)(opt.duration * 1e9);
    bool is_measuring = false;
    uint64_t from = 0, now;
    while ((now = now_ns()) < stop_at) {
        uint64_t wait = NS / 100;
        if (!is_measuring && now >= measured_from) {
            is_measuring = true;
            from = now;
            cpu = broker_cpu_s();
            own = own_cpu_s();
        }
        if (opt.rate > 0) {
            uint64_t due = begun + (uint64_t)((double)ticks * 1e9 / opt.rate);
            for (; due <= now && !publishers[ticks % opt.pubs].waits_to_write; ticks++) {
                send_some(&publishers[ticks % opt.pubs], 1);
                due = begun + (uint64_t)((double)(ticks + 1) * 1e9 / opt.rate);
            }
            wait = due > now ? due - now : 0;
        } else {
            for (uint32_t i = 0; i < opt.pubs; i++)
                if (pump(&publishers[i]))
                    wait = 0;
        }
        turn(wait);
    }
    took = (double)(now_ns() - from) / 1e9;
    cpu = broker_cpu_s() - cpu;
    own = own_cpu_s() - own;
    rss = broker_rss_kib();
    uint64_t total = sent(), expected = total * copies;
    last_at = now_ns();
    while (received < expected && now_ns() - last_at < 3 * NS) {
        turn(NS / 100);
        if (received != last) {
            last = received;
            last_at = now_ns();
        }
    }
    printf("{\"from\":\"%s\",\"to\":\"%s\",\"pubs\":%u,\"subs\":%u,\"size\":%u,\"rate\":%.0f,\"sent\":%lu,\"received\":%lu,"
           "\"lost\":%ld,\"disorder\":%lu,\"msgs_per_s\":%.0f,\"broker_cpu\":%.3f,\"broker_us_per_msg\":%.4f,\"broker_rss_kib\":%ld,"
           "\"tool_cpu\":%.3f,\"lat_us\":{\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f}}\n",
           names[opt.from], names[opt.to], opt.pubs, opt.subs, opt.size, opt.rate, total, received, (long)(expected - received),
           disorder, (double)measured / opt.duration, cpu / took, measured ? cpu * 1e6 / (double)measured : 0, rss, own / took,
           quantile_us(0.5), quantile_us(0.9), quantile_us(0.99), (double)latest / 1000);
    return received == expected && !disorder ? 0 : 3;
}

static void end_of(const char *text, enum kind *kind, int *port)
{
    for (*kind = PUB; *kind <= MQTT; (*kind)++) {
        size_t n = strlen(names[*kind]);
        if (strncmp(text, names[*kind], n) == 0 && text[n] == ':') {
            *port = atoi(text + n + 1);
            return;
        }
    }
    die("%s: an end is PUB, SUB, PUSH, PULL or MQTT and a port, as PUB:5555", text);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"from", 1, 0, 'f'},   {"to", 1, 0, 't'},       {"pubs", 1, 0, 'p'},
                                            {"subs", 1, 0, 's'},   {"pattern", 1, 0, 'a'},  {"size", 1, 0, 'z'},
                                            {"window", 1, 0, 'w'}, {"rate", 1, 0, 'r'},     {"duration", 1, 0, 'd'},
                                            {"warmup", 1, 0, 'u'}, {"pid", 1, 0, 'i'},      {0}};
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1000ul);
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'f': end_of(optarg, &opt.from, &opt.from_port); break;
        case 't': end_of(optarg, &opt.to, &opt.to_port); break;
        case 'p': opt.pubs = (uint32_t)atoi(optarg); break;
        case 's': opt.subs = (uint32_t)atoi(optarg); break;
        case 'a': opt.all = strcmp(optarg, "all") == 0; break;
        case 'z': opt.size = (uint32_t)atoi(optarg); break;
        case 'w': opt.window = strtoull(optarg, NULL, 10); break;
        case 'r': opt.rate = atof(optarg); break;
        case 'd': opt.duration = atof(optarg); break;
        case 'u': opt.warmup = atof(optarg); break;
        case 'i': opt.pid = atoi(optarg); break;
        default: return 1;
        }
    }
    bool is_queue = opt.from == PUSH && opt.to == PULL;
    bool is_topic = (opt.from == PUB || opt.from == MQTT) && (opt.to == SUB || opt.to == MQTT);
    if (!opt.from_port || !opt.to_port || (!is_queue && !is_topic) || !opt.pubs || !opt.subs || opt.size < STAMP_BYTES ||
        opt.window < 1 || (is_topic && !opt.all && opt.subs % opt.pubs))
        die("bad options: see the head of the source");
    return run();
}

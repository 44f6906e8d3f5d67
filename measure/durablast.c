/*
 * durablast - MQTT 3.1.1 load on what a broker must keep: QoS 1 into sessions that outlive their connections.
 *
 * Build:  cc -O3 -march=native -std=gnu11 -Wall -Wextra -o durablast durablast.c
 *
 *   durablast publish  --port P --pubs 100 --window 20 --size 256 --seconds 5 [--count N] [--topic T] [--topics K]
 *                      [--subscriber ID] [--pid BROKER] [--warmup S]
 *       Each publisher keeps WINDOW unacknowledged QoS 1 messages on topic T/<i>, or spreads them over T/0 .. T/<K-1>.
 *       With --subscriber a durable session ID is online and takes T/#. Ends after SECONDS or COUNT messages.
 *   durablast sessions --port P --count N [--topic T] [--id ID]
 *       Makes N sessions that stay (clean session 0): connects, subscribes at QoS 1, disconnects. One: ID with T/#;
 *       many: ID<i> with T/<i>.
 *   durablast drain    --port P --id ID [--count N]
 *       Takes and acknowledges what waits for session ID, until N came or nothing comes for three seconds.
 *   durablast sync     --file PATH [--size B] [--seconds S]
 *       What one write of B bytes and one fdatasync take in a file that is there at full length: the disk's own latency.
 *       The file is made when needed, and stays.
 *
 * One thread, no allocation per message. Prints one line of JSON. Rates count acknowledgements (publish) or messages
 * (drain) after the warm-up; latencies run from the write of a PUBLISH to the read of its PUBACK.
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
#define READ_BYTES (256 * 1024)
#define BUCKETS (64 * 64)

static struct {
    const char *host, *topic, *subscriber, *id, *file;
    int port, pid;
    uint32_t pubs, window, size, topics;
    uint64_t count;
    double seconds, warmup;
} opt = {.host = "127.0.0.1", .topic = "d", .id = "durable", .port = 1883, .pubs = 1, .window = 1, .size = 256,
         .seconds = 5, .warmup = 0.5};

/* What a connection is for decides what is done with what it reads. */
enum role { PUBLISHER, SUBSCRIBER, MAKER };

struct conn {
    int fd;
    enum role role;
    uint32_t number;
    bool writable_wanted;
    uint32_t in_flight, stage;
    uint8_t *in;
    size_t in_len, in_cap;
    uint8_t *out;
    size_t out_len, out_cap;
    uint64_t *sent_at; /* by packet identifier, publishers only */
    uint16_t *free_ids;
    uint32_t free_count;
};

static int ep;
static uint64_t acked, sent, received, acked_measured;
static uint64_t buckets[BUCKETS];
static bool measuring, stopping;
static uint32_t open_conns;

static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
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

/* Row 0 holds 0 to 127 ns, row r the 64 values of 64 << r and above: an error below 1.6 %. */
static void note_latency(uint64_t ns)
{
    int row = ns < 128 ? 0 : 57 - __builtin_clzll(ns);
    buckets[row * 64 + (int)(ns >> row)]++;
}

static double quantile_us(double q)
{
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++)
        total += buckets[i];
    for (int i = 0; i < BUCKETS; i++) {
        seen += buckets[i];
        if (buckets[i] && (double)seen >= q * (double)total) {
            int row = i < 128 ? 0 : (i - 64) / 64;
            return (double)((uint64_t)(i - row * 64) << row) / 1000.0;
        }
    }
    return 0;
}

static uint8_t *room(struct conn *c, size_t bytes)
{
    if (c->out_len + bytes > c->out_cap) {
        c->out_cap = (c->out_len + bytes) * 2;
        c->out = realloc(c->out, c->out_cap);
        if (!c->out)
            die("no memory");
    }
    uint8_t *at = c->out + c->out_len;
    c->out_len += bytes;
    return at;
}

static size_t put_length(uint8_t *at, size_t length)
{
    size_t n = 0;
    do {
        uint8_t byte = length % 128;
        length /= 128;
        at[n++] = byte | (length ? 0x80 : 0);
    } while (length);
    return n;
}

static void put_packet(struct conn *c, uint8_t first, const uint8_t *body, size_t length)
{
    uint8_t head[5] = {first};
    size_t n = 1 + put_length(head + 1, length);
    memcpy(room(c, n), head, n);
    memcpy(room(c, length), body, length);
}

static size_t put_field(uint8_t *at, const char *text)
{
    size_t length = strlen(text);
    at[0] = (uint8_t)(length >> 8);
    at[1] = (uint8_t)length;
    memcpy(at + 2, text, length);
    return length + 2;
}

static void put_connect(struct conn *c, const char *id, bool clean)
{
    uint8_t body[600] = {0, 4, 'M', 'Q', 'T', 'T', 4, clean ? 2 : 0, 0, 0};
    put_packet(c, 0x10, body, 10 + put_field(body + 10, id));
}

static void put_subscribe(struct conn *c, const char *filter)
{
    uint8_t body[600] = {0, 1};
    size_t n = 2 + put_field(body + 2, filter);
    body[n++] = 1;
    put_packet(c, 0x82, body, n);
}

static void flush(struct conn *c)
{
    size_t done = 0;
    while (done < c->out_len) {
        ssize_t n = write(c->fd, c->out + done, c->out_len - done);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            die("connection %u: %s", c->number, strerror(errno));
        done += (size_t)n;
    }
    memmove(c->out, c->out + done, c->out_len - done);
    c->out_len -= done;
    bool wanted = c->out_len > 0;
    if (wanted != c->writable_wanted) {
        struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &event);
        c->writable_wanted = wanted;
    }
}

static struct conn *open_conn(enum role role, uint32_t number)
{
    struct conn *c = calloc(1, sizeof *c);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    int one = 1;
    inet_pton(AF_INET, opt.host, &to.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    c->role = role;
    c->number = number;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int tries = 0; connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0; tries++) {
        if (tries > 100)
            die("connect: %s", strerror(errno));
        usleep(10000);
    }
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &event);
    c->in_cap = role == MAKER ? 256 : READ_BYTES;
    c->in = malloc(c->in_cap);
    open_conns++;
    return c;
}

static void close_conn(struct conn *c)
{
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c->sent_at);
    free(c->free_ids);
    free(c);
    open_conns--;
}

/* Fills the window of a publisher; one write for all of it. */
static void publish(struct conn *c)
{
    static uint8_t filler[1 << 20];
    uint64_t at = now_ns();
    while (c->free_count && !stopping && (!opt.count || sent < opt.count)) {
        uint16_t id = c->free_ids[--c->free_count];
        char topic[300];
        uint64_t which = opt.topics ? sent % opt.topics : c->number;
        size_t topic_len = (size_t)snprintf(topic, sizeof topic, "%s/%llu", opt.topic, (unsigned long long)which);
        size_t body = 2 + topic_len + 2 + opt.size;
        uint8_t head[5] = {0x32};
        size_t n = 1 + put_length(head + 1, body);
        uint8_t *to = room(c, n + body);
        memcpy(to, head, n);
        to += n;
        to[0] = (uint8_t)(topic_len >> 8);
        to[1] = (uint8_t)topic_len;
        memcpy(to + 2, topic, topic_len);
        to += 2 + topic_len;
        to[0] = (uint8_t)(id >> 8);
        to[1] = (uint8_t)id;
        memcpy(to + 2, filler, opt.size);
        if (opt.size >= 8)
            memcpy(to + 2, &sent, 8);
        c->sent_at[id] = at;
        sent++;
    }
    flush(c);
}

/* One packet. False when the connection is to be closed. */
static bool take(struct conn *c, uint8_t first, const uint8_t *body, size_t length, uint64_t at)
{
    switch (first >> 4) {
    case 2: /* CONNACK */
        if (length < 2 || body[1])
            die("connection %u was refused with %d", c->number, length < 2 ? -1 : body[1]);
        if (c->role == PUBLISHER) {
            c->stage = 1;
            return true;
        }
        c->stage = 1;
        if (c->role == MAKER || !(body[0] & 1) || opt.subscriber) {
            char filter[300];
            if (c->role == MAKER && opt.count > 1)
                snprintf(filter, sizeof filter, "%s/%u", opt.topic, c->number);
            else
                snprintf(filter, sizeof filter, "%s/#", opt.topic);
            put_subscribe(c, filter);
        }
        return true;
    case 9: /* SUBACK */
        if (length < 3 || body[2] > 2)
            die("connection %u: SUBACK refuses", c->number);
        c->stage = 2;
        if (c->role == MAKER) {
            memcpy(room(c, 2), "\xe0\x00", 2);
            flush(c);
            return false;
        }
        return true;
    case 3: { /* PUBLISH */
        size_t topic = (size_t)body[0] << 8 | body[1];
        received++;
        if ((first >> 1 & 3) == 1) {
            uint8_t *ack = room(c, 4);
            ack[0] = 0x40;
            ack[1] = 2;
            ack[2] = body[2 + topic];
            ack[3] = body[3 + topic];
        }
        return true;
    }
    case 4: { /* PUBACK */
        uint16_t id = (uint16_t)(body[0] << 8 | body[1]);
        if (id == 0 || id > opt.window || !c->sent_at[id])
            die("connection %u: PUBACK of %u, which is not in flight", c->number, id);
        if (measuring) {
            note_latency(at - c->sent_at[id]);
            acked_measured++;
        }
        c->sent_at[id] = 0;
        c->free_ids[c->free_count++] = id;
        acked++;
        return true;
    }
    default: return true;
    }
}

/* Reads what there is. False when the connection is over. */
static bool read_conn(struct conn *c)
{
    for (int rounds = 0; rounds < 8; rounds++) {
        if (c->in_cap - c->in_len < c->in_cap / 2 && c->in_len > c->in_cap / 2) {
            c->in_cap *= 2;
            c->in = realloc(c->in, c->in_cap);
        }
        ssize_t n = read(c->fd, c->in + c->in_len, c->in_cap - c->in_len);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            if (c->role == MAKER)
                return false;
            die("connection %u: the broker closed it (%s)", c->number, n ? strerror(errno) : "end");
        }
        c->in_len += (size_t)n;
        uint64_t at = now_ns();
        size_t done = 0;
        for (;;) {
            size_t length = 0, head = 1;
            const uint8_t *p = c->in + done;
            size_t left = c->in_len - done;
            bool whole = false;
            while (head < 5 && head < left) {
                length |= (size_t)(p[head] & 0x7f) << (7 * (head - 1));
                if (!(p[head++] & 0x80)) {
                    whole = true;
                    break;
                }
            }
            if (!whole || left < head + length)
                break;
            if (!take(c, p[0], p + head, length, at))
                return false;
            done += head + length;
        }
        memmove(c->in, c->in + done, c->in_len - done);
        c->in_len -= done;
        if ((size_t)n < c->in_cap / 2)
            break;
    }
    if (c->role == PUBLISHER && c->stage == 1)
        publish(c);
    else if (c->out_len)
        flush(c);
    return true;
}

static bool turn(int timeout_ms)
{
    struct epoll_event events[256];
    int n = epoll_wait(ep, events, 256, timeout_ms);
    for (int i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT)
            flush(c);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !read_conn(c))
            close_conn(c);
    }
    return n > 0;
}

/* Figures of the broker's process. */
struct figures {
    double cpu_s;
    uint64_t rss_kib;
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
        while (fgets(line, sizeof line, file))
            sscanf(line, "VmRSS: %lu", &f.rss_kib);
        fclose(file);
    }
    return f;
}

static double own_cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run_publish(void)
{
    struct conn *subscriber = NULL;
    if (opt.subscriber) {
        subscriber = open_conn(SUBSCRIBER, 0);
        put_connect(subscriber, opt.subscriber, false);
        flush(subscriber);
        while (subscriber->stage < 2)
            turn(1000);
    }
    struct conn **all = calloc(opt.pubs, sizeof *all);
    for (uint32_t i = 0; i < opt.pubs; i++) {
        struct conn *c = all[i] = open_conn(PUBLISHER, i);
        char id[64];
        c->sent_at = calloc(opt.window + 1, sizeof *c->sent_at);
        c->free_ids = calloc(opt.window, sizeof *c->free_ids);
        for (uint32_t w = 0; w < opt.window; w++)
            c->free_ids[c->free_count++] = (uint16_t)(opt.window - w);
        snprintf(id, sizeof id, "pub-%d-%u", getpid(), i);
        put_connect(c, id, true);
        flush(c);
    }
    uint64_t begun = now_ns(), measured_from = begun + (uint64_t)(opt.warmup * 1e9);
    uint64_t until = measured_from + (uint64_t)(opt.seconds * 1e9), received_before = 0;
    struct figures before = look(opt.pid), after;
    if (opt.count) {
        measuring = true;
        measured_from = begun;
        until = UINT64_MAX;
    }
    double cpu_before = own_cpu();
    while (now_ns() < until && (!opt.count || acked < opt.count)) {
        turn(100);
        if (!measuring && now_ns() >= measured_from) {
            measuring = true;
            before = look(opt.pid);
            cpu_before = own_cpu();
            measured_from = now_ns();
            received_before = received;
        }
    }
    measuring = false;
    uint64_t ended = now_ns(), received_measured = received - received_before;
    after = look(opt.pid);
    double tool_cpu = own_cpu() - cpu_before;
    stopping = true;
    while (acked < sent && now_ns() < ended + 20 * NS)
        turn(100);
    for (uint64_t last = now_ns(), had = received; subscriber && received < acked && now_ns() < last + 5 * NS;) {
        turn(100);
        if (received != had) {
            had = received;
            last = now_ns();
        }
    }
    double took = (double)(ended - measured_from) / 1e9;
    double n = acked_measured ? (double)acked_measured : 1;
    printf("{\"acked\":%llu,\"sent\":%llu,\"received\":%llu,\"seconds\":%.3f,\"acked_per_s\":%.0f,\"received_per_s\":%.0f,"
           "\"lat_us\":{\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f},\"broker_cpu_us_per_msg\":%.3f,"
           "\"broker_cpu\":%.2f,\"tool_cpu\":%.2f,\"rss_mib\":%.1f}\n",
           (unsigned long long)acked, (unsigned long long)sent, (unsigned long long)received, took,
           (double)acked_measured / took, (double)received_measured / took, quantile_us(0.5), quantile_us(0.99),
           quantile_us(0.999), (after.cpu_s - before.cpu_s) * 1e6 / n, (after.cpu_s - before.cpu_s) / took,
           tool_cpu / took, (double)after.rss_kib / 1024);
}

static void run_sessions(void)
{
    uint64_t begun = now_ns();
    for (uint64_t made = 0; made < opt.count || open_conns;) {
        while (made < opt.count && open_conns < 400) {
            struct conn *c = open_conn(MAKER, (uint32_t)made);
            char id[64];
            if (opt.count > 1)
                snprintf(id, sizeof id, "%s%u", opt.id, (uint32_t)made);
            else
                snprintf(id, sizeof id, "%s", opt.id);
            put_connect(c, id, false);
            flush(c);
            made++;
        }
        turn(1000);
    }
    printf("{\"sessions\":%llu,\"seconds\":%.3f}\n", (unsigned long long)opt.count, (double)(now_ns() - begun) / 1e9);
}

static void run_drain(void)
{
    struct conn *c = open_conn(SUBSCRIBER, 0);
    put_connect(c, opt.id, false);
    flush(c);
    uint64_t begun = now_ns(), last = begun, had = 0;
    while (now_ns() < last + 3 * NS && (!opt.count || received < opt.count)) {
        turn(100);
        if (received != had) {
            had = received;
            last = now_ns();
        }
    }
    /* The last acknowledgements leave before we do. */
    flush(c);
    memcpy(room(c, 2), "\xe0\x00", 2);
    flush(c);
    double took = (double)(last - begun) / 1e9;
    printf("{\"received\":%llu,\"seconds\":%.3f,\"received_per_s\":%.0f}\n", (unsigned long long)received, took,
           (double)received / (took > 0 ? took : 1));
}

static void run_sync(void)
{
    static uint8_t block[1 << 20];
    size_t length = 64 << 20, at = 0;
    int fd = open(opt.file, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        die("%s: %s", opt.file, strerror(errno));
    /* A file that is there at full length is used again: what was written to make it is long settled. */
    for (size_t done = (size_t)lseek(fd, 0, SEEK_END); done < length; done += sizeof block)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            die("%s: %s", opt.file, strerror(errno));
    fsync(fd);
    memset(block, 7, sizeof block);
    uint64_t until = now_ns() + (uint64_t)(opt.seconds * 1e9), syncs = 0;
    while (now_ns() < until) {
        uint64_t begun = now_ns();
        if (pwrite(fd, block, opt.size, (off_t)at) != (ssize_t)opt.size || fdatasync(fd) < 0)
            die("%s: %s", opt.file, strerror(errno));
        note_latency(now_ns() - begun);
        at = (at + opt.size) % (length - sizeof block);
        syncs++;
    }
    close(fd);
    printf("{\"syncs\":%llu,\"p50_us\":%.1f,\"p99_us\":%.1f}\n", (unsigned long long)syncs, quantile_us(0.5),
           quantile_us(0.99));
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"pubs", 1, 0, 'n'}, {"window", 1, 0, 'w'}, {"size", 1, 0, 's'},
        {"seconds", 1, 0, 'd'}, {"count", 1, 0, 'c'}, {"topic", 1, 0, 't'}, {"topics", 1, 0, 'k'},
        {"subscriber", 1, 0, 'u'}, {"id", 1, 0, 'i'}, {"pid", 1, 0, 'P'}, {"file", 1, 0, 'f'}, {"warmup", 1, 0, 'W'},
        {0, 0, 0, 0}};
    if (argc < 2)
        die("durablast publish | sessions | drain | sync; see the head of durablast.c");
    for (int o; (o = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1;) {
        switch (o) {
        case 'h': opt.host = optarg; break;
        case 'p': opt.port = atoi(optarg); break;
        case 'n': opt.pubs = (uint32_t)atoi(optarg); break;
        case 'w': opt.window = (uint32_t)atoi(optarg); break;
        case 's': opt.size = (uint32_t)atoi(optarg); break;
        case 'd': opt.seconds = atof(optarg); break;
        case 'c': opt.count = strtoull(optarg, NULL, 10); break;
        case 't': opt.topic = optarg; break;
        case 'k': opt.topics = (uint32_t)atoi(optarg); break;
        case 'u': opt.subscriber = optarg; break;
        case 'i': opt.id = optarg; break;
        case 'P': opt.pid = atoi(optarg); break;
        case 'f': opt.file = optarg; break;
        case 'W': opt.warmup = atof(optarg); break;
        default: return 2;
        }
    }
    if (opt.window < 1 || opt.window > 65535 || opt.size > 1 << 20)
        die("a window is 1 to 65535, a size at most 1048576");
    signal(SIGPIPE, SIG_IGN);
    ep = epoll_create1(0);
    if (!strcmp(argv[1], "publish"))
        run_publish();
    else if (!strcmp(argv[1], "sessions"))
        run_sessions();
    else if (!strcmp(argv[1], "drain"))
        run_drain();
    else if (!strcmp(argv[1], "sync"))
        run_sync();
    else
        die("unknown word %s", argv[1]);
    return 0;
}

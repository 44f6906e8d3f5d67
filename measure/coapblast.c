/*
 * coapblast - CoAP load over UDP that measures a server from outside.
 *
 * Build:  cc -O3 -march=native -std=gnu11 -Wall -Wextra -o coapblast coapblast.c
 *
 *   coapblast requests --port P [--outstanding 256] [--depth 1] [--gso] [--size 60] [--topics 64] [--non] [--get] [--rate R]
 *       PUT (GET) in a closed loop with so many under way, each from an endpoint of its own; with --rate an open loop on an
 *       absolute schedule, whose latency counts from when a request was due. --depth D lets an endpoint have D under way, as a
 *       gateway would, and --gso lets what one endpoint sends leave in one call, so that the tool costs less than the server.
 *   coapblast observe  --port P [--observers 100] [--size 60] [--window 1] [--rate R]
 *       Observers of one resource that acknowledge, and one publisher: the next PUT leaves when all observers have the value
 *       WINDOW before it, whether or not the server has answered (up to 16 under way: a server that syncs its disk before it
 *       answers notifies sooner); with --rate on a schedule.
 *   coapblast hold     --port P --pid SERVER [--observers 100000] [--topics 1] [--seconds 3]
 *       Observers that do nothing: memory of each. Then one PUT on each topic, and who hears of it.
 *   coapblast null     --port P
 *       A server that does as little as can be: 2.04 to everything, a list of observers. The tool's ceiling.
 *   coapblast --selftest --port P
 *       Every mode against the null server, then against one that drops and doubles: the tool must see it.
 *
 * Any mode: --pid SERVER for its CPU and memory, --path ps/data, --seconds, --warmup.
 *
 * An endpoint is an address: the one socket is bound to a port of all addresses, and each endpoint sends from an own address
 * in 127.0.0.0/8 (IP_PKTINFO), so a hundred thousand of them cost no descriptors, and recvmmsg and sendmmsg carry the packets
 * of many. No (endpoint, message id) comes twice in a run: an endpoint that has used 65,000 ids is replaced. Addresses begin
 * somewhere else in each run, because a server remembers ids for 247 s.
 *
 * A payload begins with 16 bytes of ours: u64 sequence | u64 time ns. Unanswered requests are repeated after 2.5 s and counted.
 * Prints one line of JSON; the exit status is 3 when the run is not valid.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
#define BATCH 64
#define BUFFERS 64
#define BUFFER_BYTES 65536
#define PACKET_BYTES 1500
#define STAMP_BYTES 16
#define IDS_EACH 65000
#define REPEAT_AFTER (25 * NS / 10)
#define REPEATS_MAX 4
#define INVALID 3

enum kind { CON = 0, NON = 1, ACK = 2, RST = 3 };
enum { GET = 1, PUT = 3, CREATED = 0x41, CHANGED = 0x44, CONTENT = 0x45 };
enum fault { NO_FAULT, DROPS, DOUBLES };

static struct {
    const char *mode, *path;
    int port, pid;
    uint32_t outstanding, depth, observers, size, topics, window;
    double rate, seconds, warmup;
    bool non, get, gso;
    enum fault fault;
} opt = {.mode = "requests", .path = "ps/data", .outstanding = 256, .depth = 1, .observers = 100, .size = 60, .topics = 64, .window = 1,
         .seconds = 3, .warmup = 1};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("coapblast: ", stderr);
    vfprintf(stderr, format, args);
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
    void *memory = calloc(n, bytes);
    if (!memory)
        die("out of memory");
    return memory;
}

/* ------------------------------------------------------------------------------------------------------- histograms */

/* Log-linear, of nanoseconds, 64 cells per power of two: an error below 1.6 %. */
#define HIST_BITS 6
#define HIST_CELLS ((64 - HIST_BITS + 1) << HIST_BITS)
struct hist {
    uint64_t cells[HIST_CELLS], count, max;
};

static void hist_note(struct hist *h, uint64_t ns)
{
    uint64_t cell = ns;
    if (ns >> HIST_BITS) {
        int shift = 63 - __builtin_clzll(ns) - HIST_BITS;
        cell = ((uint64_t)shift << HIST_BITS) + (ns >> shift);
    }
    h->cells[cell]++;
    h->count++;
    h->max = ns > h->max ? ns : h->max;
}

static double hist_us(const struct hist *h, double q)
{
    uint64_t wanted = (uint64_t)(q * (double)h->count), sum = 0;
    for (uint64_t cell = 0; cell < HIST_CELLS; cell++) {
        sum += h->cells[cell];
        if (sum <= wanted || !h->cells[cell])
            continue;
        if (cell >> HIST_BITS == 0)
            return (double)cell / 1000;
        int shift = (int)(cell >> HIST_BITS) - 1;
        return (double)((cell - ((uint64_t)shift << HIST_BITS)) << shift) / 1000;
    }
    return (double)h->max / 1000;
}

static void print_hist(const char *name, const struct hist *h)
{
    printf(", \"%s\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}", name, hist_us(h, 0.5),
           hist_us(h, 0.9), hist_us(h, 0.99), hist_us(h, 0.999), (double)h->max / 1000);
}

/* -------------------------------------------------------------------------------------------------- the server's figures */

struct figures {
    double cpu_s;
    uint64_t rss_kib;
};

static struct figures look(int pid)
{
    struct figures f = {0};
    char path[64], text[4096];
    if (!pid)
        return f;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        die("process %d is gone", pid);
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    unsigned long user = 0, kernel = 0;
    char *rest = strrchr(text, ')');
    if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        die("cannot read %s", path);
    f.cpu_s = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if ((file = fopen(path, "r"))) {
        while (fgets(text, sizeof text, file))
            sscanf(text, "VmRSS: %lu", &f.rss_kib);
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

/* ------------------------------------------------------------------------------------------------------------ packets */

static int fd = -1;

/* What leaves next. Packets of one length from one of our addresses to one peer leave as one, if --gso says so. */
static struct {
    struct mmsghdr headers[BATCH];
    struct iovec parts[BATCH];
    struct sockaddr_in peers[BATCH];
    uint32_t from[BATCH]; /* our address, or 0 */
    union {
        char space[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr align;
    } control[BATCH];
    uint8_t packets[BATCH][PACKET_BYTES];
    int count;
} out;

/* What came: buffers, and the packets in them, several in one if the server sent them as one. */
static struct {
    struct mmsghdr headers[BUFFERS];
    struct iovec parts[BUFFERS];
    struct sockaddr_in peers[BUFFERS];
    union {
        char space[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control[BUFFERS];
    uint8_t bytes[BUFFERS][BUFFER_BYTES];
} in;

struct packet {
    const uint8_t *bytes;
    size_t length;
    uint32_t to; /* which of our addresses */
    const struct sockaddr_in *from;
};
static struct packet packets[BUFFERS * 64 + 64];

static void open_socket(uint32_t address, int port)
{
    int one = 1, room = 32 << 20;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(address)}};
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one);
    setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) < 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
        die("port %d: %s", port, strerror(errno));
}

static struct cmsghdr *control(struct cmsghdr *at, int level, int type, size_t bytes)
{
    *at = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = type};
    return at;
}

static void flush(void)
{
    int count = 0;
    for (int i = 0; i < out.count;) {
        int next = i + 1;
        while (opt.gso && next < out.count && out.from[next] == out.from[i] && out.parts[next].iov_len == out.parts[i].iov_len &&
               memcmp(&out.peers[next], &out.peers[i], sizeof out.peers[i]) == 0)
            next++;
        struct msghdr *header = &out.headers[count].msg_hdr;
        *header = (struct msghdr){.msg_name = &out.peers[i], .msg_namelen = sizeof out.peers[i], .msg_iov = &out.parts[i],
                                  .msg_iovlen = (size_t)(next - i), .msg_control = &out.control[count]};
        struct cmsghdr *at = &out.control[count++].align;
        if (out.from[i]) {
            struct in_pktinfo from = {.ipi_spec_dst = {htonl(out.from[i])}};
            memcpy(CMSG_DATA(control(at, IPPROTO_IP, IP_PKTINFO, sizeof from)), &from, sizeof from);
            header->msg_controllen += CMSG_SPACE(sizeof from);
            at = (struct cmsghdr *)((char *)at + CMSG_SPACE(sizeof from));
        }
        if (next - i > 1) {
            uint16_t bytes = (uint16_t)out.parts[i].iov_len;
            memcpy(CMSG_DATA(control(at, SOL_UDP, UDP_SEGMENT, sizeof bytes)), &bytes, sizeof bytes);
            header->msg_controllen += CMSG_SPACE(sizeof bytes);
        }
        if (!header->msg_controllen)
            header->msg_control = NULL;
        i = next;
    }
    for (int done = 0; done < count;) {
        int n = sendmmsg(fd, out.headers + done, (unsigned)(count - done), 0);
        if (n < 0 && errno != EINTR && errno != ECONNREFUSED)
            die("sendmmsg: %s", strerror(errno));
        done += n > 0 ? n : 0;
    }
    out.count = 0;
}

/* Room for a packet from an address of ours (0: whichever) to a peer; `sent` says how long it became. */
static uint8_t *to_send(uint32_t from, const struct sockaddr_in *to)
{
    if (out.count == BATCH)
        flush();
    out.peers[out.count] = *to;
    out.from[out.count] = from;
    return out.packets[out.count];
}

static void sent(size_t bytes)
{
    out.parts[out.count] = (struct iovec){out.packets[out.count], bytes};
    out.count++;
}

/* Fills `packets`; how many. */
static int receive(int timeout_ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < BUFFERS; i++) {
        in.parts[i] = (struct iovec){in.bytes[i], BUFFER_BYTES};
        in.headers[i].msg_hdr = (struct msghdr){.msg_name = &in.peers[i], .msg_namelen = sizeof in.peers[i], .msg_iov = &in.parts[i],
                                                .msg_iovlen = 1, .msg_control = &in.control[i], .msg_controllen = sizeof in.control[i]};
    }
    int n = recvmmsg(fd, in.headers, BUFFERS, MSG_DONTWAIT, NULL), count = 0;
    if (n <= 0 && timeout_ms && poll(&ready, 1, timeout_ms) > 0)
        n = recvmmsg(fd, in.headers, BUFFERS, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        size_t length = in.headers[i].msg_len, each = length;
        uint32_t to = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&in.headers[i].msg_hdr); c; c = CMSG_NXTHDR(&in.headers[i].msg_hdr, c)) {
            if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO)
                to = ntohl(((struct in_pktinfo *)CMSG_DATA(c))->ipi_addr.s_addr);
            else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
                each = (size_t)*(int *)CMSG_DATA(c);
        }
        for (size_t at = 0; at < length; at += each)
            packets[count++] = (struct packet){in.bytes[i] + at, at + each < length ? each : length - at, to, &in.peers[i]};
    }
    return count;
}

struct message {
    enum kind kind;
    uint8_t code, token_bytes;
    uint16_t id;
    const uint8_t *token, *payload;
    size_t payload_bytes;
    bool has_observe;
    uint32_t observe;
};

static bool decode(const uint8_t *p, size_t n, struct message *m)
{
    memset(m, 0, sizeof *m);
    if (n < 4 || p[0] >> 6 != 1 || (p[0] & 15) > 8 || n < 4u + (p[0] & 15))
        return false;
    *m = (struct message){.kind = p[0] >> 4 & 3, .code = p[1], .token_bytes = p[0] & 15, .id = (uint16_t)(p[2] << 8 | p[3]), .token = p + 4};
    uint32_t number = 0;
    for (size_t at = 4u + m->token_bytes; at < n;) {
        if (p[at] == 0xff) {
            m->payload = p + at + 1;
            m->payload_bytes = n - at - 1;
            return m->payload_bytes > 0;
        }
        uint32_t delta = p[at] >> 4, length = p[at] & 15;
        at++;
        for (int part = 0; part < 2; part++) {
            uint32_t *value = part ? &length : &delta;
            if (*value == 15 || at + (*value == 13) + 2 * (*value == 14) > n)
                return false;
            if (*value == 13)
                *value = 13 + p[at++];
            else if (*value == 14) {
                *value = 269 + (uint32_t)(p[at] << 8 | p[at + 1]);
                at += 2;
            }
        }
        number += delta;
        if (at + length > n)
            return false;
        if (number == 6) {
            m->has_observe = true;
            for (uint32_t i = 0; i < length; i++)
                m->observe = m->observe << 8 | p[at + i];
        }
        at += length;
    }
    return true;
}

static void head(uint8_t *p, enum kind kind, uint8_t code, uint16_t id, uint16_t token)
{
    p[0] = (uint8_t)(0x40 | kind << 4 | 2);
    p[1] = code;
    p[2] = (uint8_t)(id >> 8);
    p[3] = (uint8_t)id;
    p[4] = (uint8_t)(token >> 8);
    p[5] = (uint8_t)token;
}

static void send_empty(uint32_t from, const struct sockaddr_in *to, enum kind kind, uint16_t id)
{
    uint8_t *p = to_send(from, to);
    p[0] = (uint8_t)(0x40 | kind << 4);
    p[1] = 0;
    p[2] = (uint8_t)(id >> 8);
    p[3] = (uint8_t)id;
    sent(4);
}

/* Uri-Path options of --path and a topic's number, after an option 6 if there is one; `bytes` of them. */
static size_t path_options(uint8_t *to, uint32_t topic, bool observe)
{
    char levels[256];
    size_t n = 0;
    uint32_t before = 0;
    if (observe) {
        to[n++] = 0x60;
        before = 6;
    }
    snprintf(levels, sizeof levels, "%s/blast%u", opt.path, topic);
    for (char *level = strtok(levels, "/"); level; level = strtok(NULL, "/")) {
        size_t length = strlen(level);
        to[n++] = (uint8_t)((11 - before) << 4 | (length < 13 ? length : 13));
        if (length >= 13)
            to[n++] = (uint8_t)(length - 13);
        memcpy(to + n, level, length);
        n += length;
        before = 11;
    }
    return n;
}

/* ----------------------------------------------------------------------------------------------------------- endpoints */

static struct sockaddr_in server;
static uint32_t next_address;

/* The next address of 127.0.0.0/8 above 127.1.0.0 that no endpoint had. */
static uint32_t new_address(void)
{
    uint32_t address = next_address++;
    if (next_address >= 0x7ffffff0)
        next_address = 0x7f010001;
    return address;
}

static void pick_addresses(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t mixed = ((uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec + (uint64_t)getpid()) * 0x9e3779b97f4a7c15ull;
    next_address = 0x7f010000 + (uint32_t)(mixed >> 40) % 0x00e00000;
}

/* Who sends: an address, and the ids it has used. */
struct endpoint {
    uint32_t address, ids_used;
};

/* A request that may be under way. */
struct slot {
    struct endpoint *endpoint;
    uint32_t address, topic;
    uint16_t id;
    uint8_t repeats;
    bool busy, acknowledged;
    uint64_t first_sent, last_sent, due;
};

static uint8_t (*templates)[PACKET_BYTES];
static size_t *template_bytes, *stamp_at;
static uint64_t sequence;

static void make_templates(uint8_t code)
{
    templates = zeroed(opt.topics, PACKET_BYTES);
    template_bytes = zeroed(opt.topics, sizeof *template_bytes);
    stamp_at = zeroed(opt.topics, sizeof *stamp_at);
    for (uint32_t topic = 0; topic < opt.topics; topic++) {
        uint8_t *p = templates[topic];
        head(p, opt.non ? NON : CON, code, 0, 0);
        size_t n = 6 + path_options(p + 6, topic, false);
        if (code == PUT) {
            p[n++] = 0xff;
            stamp_at[topic] = n;
            for (uint32_t i = 0; i < opt.size; i++)
                p[n++] = (uint8_t)('a' + i % 26);
        }
        template_bytes[topic] = n;
    }
}

static void send_slot(struct slot *s, uint16_t token, uint64_t now, bool again)
{
    if (!again) {
        struct endpoint *endpoint = s->endpoint;
        if (!endpoint->address || endpoint->ids_used == IDS_EACH)
            *endpoint = (struct endpoint){.address = new_address()};
        s->address = endpoint->address;
        s->id = (uint16_t)(endpoint->ids_used++ + (s->address * 7919));
        s->busy = true;
        s->repeats = 0;
        s->acknowledged = false;
        s->first_sent = now;
    }
    s->last_sent = now;
    uint8_t *p = to_send(s->address, &server);
    memcpy(p, templates[s->topic], template_bytes[s->topic]);
    p[2] = (uint8_t)(s->id >> 8);
    p[3] = (uint8_t)s->id;
    p[4] = (uint8_t)(token >> 8);
    p[5] = (uint8_t)token;
    if (stamp_at[s->topic]) {
        uint64_t stamp[2] = {again ? sequence : ++sequence, s->due ? s->due : now};
        memcpy(p + stamp_at[s->topic], stamp, sizeof stamp);
    }
    sent(template_bytes[s->topic]);
}

/* ------------------------------------------------------------------------------------------------------------ requests */

static uint64_t answers[256], answered, answered_measured, repeated, unanswered, strangers;
static uint64_t measured_from, stop_at;
static struct hist latency, put_latency;

static bool is_success(uint8_t code) { return code >> 5 == 2; }

static void put_all(void);

/* Those of one endpoint side by side, so that they leave as one. */
static void in_order(uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t at = i, number = numbers[i]; at > 0; at--) {
            if (numbers[at - 1] <= number)
                break;
            numbers[at] = numbers[at - 1];
            numbers[at - 1] = number;
        }
}

static int run_requests(void)
{
    struct slot *slots = zeroed(opt.outstanding, sizeof *slots);
    struct endpoint *endpoints = zeroed(opt.outstanding, sizeof *endpoints);
    uint32_t *idle = zeroed(opt.outstanding, sizeof *idle), idle_count = 0, busy = 0;
    if (opt.get)
        put_all();
    make_templates(opt.get ? GET : PUT);
    for (uint32_t i = 0; i < opt.outstanding; i++) {
        slots[i].endpoint = &endpoints[i / opt.depth];
        slots[i].topic = i / opt.depth % opt.topics;
        idle[idle_count++] = i;
    }
    uint64_t begun = now_ns(), next_due = begun, next_check = begun + NS / 10, now = begun, step = opt.rate > 0 ? (uint64_t)((double)NS / opt.rate) : 0;
    measured_from = begun + (uint64_t)(opt.warmup * 1e9);
    stop_at = measured_from + (uint64_t)(opt.seconds * 1e9);
    struct figures before = {0}, after = {0};
    double tool_before = 0, tool_after = 0;
    bool measuring = false, stopped = false;
    uint64_t drain_until = stop_at + 12 * NS;
    for (;;) {
        now = now_ns();
        if (!measuring && now >= measured_from) {
            measuring = true;
            measured_from = now;
            before = look(opt.pid);
            tool_before = own_cpu_s();
        }
        if (!stopped && now >= stop_at) {
            stopped = true;
            stop_at = now;
            after = look(opt.pid);
            tool_after = own_cpu_s();
        }
        if (stopped && (busy == 0 || now >= drain_until))
            break;
        if (opt.depth > 1)
            in_order(idle, idle_count);
        while (!stopped && idle_count && (!step || next_due <= now)) {
            uint32_t i = idle[--idle_count];
            slots[i].due = step ? next_due : 0;
            next_due += step;
            busy++;
            send_slot(&slots[i], (uint16_t)i, now, false);
        }
        flush();
        int wait_ms = 50;
        if (step && !stopped)
            wait_ms = next_due > now + NS / 1000 ? (int)((next_due - now) / 1000000) : 0;
        int n = receive(wait_ms);
        now = now_ns();
        for (int k = 0; k < n; k++) {
            struct message m;
            if (!decode(packets[k].bytes, packets[k].length, &m) || m.code >> 5 == 1) {
                strangers++;
                continue;
            }
            if (m.kind == CON)
                send_empty(packets[k].to, &server, ACK, m.id);
            if (m.code == 0)
                continue; /* an empty acknowledgement: the answer comes later */
            uint32_t i = m.token_bytes == 2 ? (uint32_t)(m.token[0] << 8 | m.token[1]) : UINT32_MAX;
            if (i >= opt.outstanding || !slots[i].busy || (m.kind == ACK && m.id != slots[i].id) || packets[k].to != slots[i].address) {
                strangers++;
                continue;
            }
            answers[m.code]++;
            answered++;
            if (now >= measured_from && measuring && !stopped) {
                answered_measured++;
                hist_note(&latency, now - (slots[i].due ? slots[i].due : slots[i].first_sent));
            }
            slots[i].busy = false;
            busy--;
            idle[idle_count++] = i;
        }
        if (now >= next_check) {
            next_check = now + NS / 10;
            for (uint32_t i = 0; i < opt.outstanding; i++)
                if (slots[i].busy && now - slots[i].last_sent > REPEAT_AFTER << slots[i].repeats) {
                    if (slots[i].repeats++ == REPEATS_MAX)
                        continue;
                    repeated++;
                    send_slot(&slots[i], (uint16_t)i, now, true);
                }
        }
    }
    unanswered = busy;
    uint64_t failed = 0;
    for (int code = 0; code < 256; code++)
        failed += is_success((uint8_t)code) ? 0 : answers[code];
    double seconds = (double)(stop_at - measured_from) / 1e9;
    bool valid = unanswered == 0 && failed == 0 && answered_measured > 0;
    printf("{\"tool\": \"coapblast\", \"mode\": \"requests\", \"valid\": %s, \"msgs_per_s\": %.0f, \"method\": \"%s\", \"kind\": \"%s\""
           ", \"outstanding\": %u, \"depth\": %u, \"gso\": %s, \"size\": %u, \"topics\": %u, \"rate\": %.0f, \"seconds\": %.3f, \"answered\": %lu, \"failed\": %lu"
           ", \"unanswered\": %lu, \"repeated\": %lu, \"strangers\": %lu, \"codes\": {",
           valid ? "true" : "false", (double)answered_measured / seconds, opt.get ? "GET" : "PUT", opt.non ? "NON" : "CON", opt.outstanding,
           opt.depth, opt.gso ? "true" : "false",
           opt.size, opt.topics, opt.rate, seconds, answered, failed, unanswered, repeated, strangers);
    const char *comma = "";
    for (int code = 0; code < 256; code++)
        if (answers[code]) {
            printf("%s\"%d.%02d\": %lu", comma, code >> 5, code & 31, answers[code]);
            comma = ", ";
        }
    printf("}, \"request_bytes\": %zu", template_bytes[0]);
    if (opt.pid)
        printf(", \"broker_us_per_msg\": %.3f, \"broker_cpu\": %.2f, \"rss_mib\": %.1f",
               (after.cpu_s - before.cpu_s) * 1e6 / (double)(answered_measured ? answered_measured : 1), (after.cpu_s - before.cpu_s) / seconds,
               (double)after.rss_kib / 1024);
    printf(", \"tool_cpu\": %.2f", (tool_after - tool_before) / seconds);
    print_hist("lat_us", &latency);
    puts("}");
    return valid ? 0 : INVALID;
}

/* ----------------------------------------------------------------------------------------------------------- observers */

struct observer {
    uint64_t last; /* sequence of the newest value */
    uint64_t asked_at;
    uint16_t last_id;
    bool registered, heard;
};
static struct observer *observers;
static uint32_t first_observer, registered_count;
static uint64_t notifications, notifications_measured, doubled, out_of_order, conflated, confirmable, put_count, stalls, refused;
#define REACHED 4096
static uint32_t reached[REACHED]; /* how many observers have sequence s or a newer one */

static void ask(uint32_t i, uint64_t now)
{
    uint8_t *p = to_send(first_observer + i, &server);
    head(p, CON, GET, (uint16_t)(1 + (observers[i].asked_at != 0)), 0x6f62);
    observers[i].asked_at = now;
    sent(6 + path_options(p + 6, i % opt.topics, true));
}

/* Takes one packet that came to an observer's address. */
static void on_notification(uint32_t i, const struct message *m, uint64_t now, bool measuring)
{
    struct observer *o = &observers[i];
    if (m->kind == CON)
        send_empty(first_observer + i, &server, ACK, m->id);
    if (m->code == 0)
        return;
    if (m->kind == ACK || !o->registered) {
        if (o->registered || m->code != CONTENT || !m->has_observe) {
            refused += !o->registered;
            return;
        }
        o->registered = true;
        registered_count++;
        return;
    }
    confirmable += m->kind == CON;
    if (m->code != CONTENT || m->payload_bytes < STAMP_BYTES) {
        strangers++;
        return;
    }
    if (o->heard && m->id == o->last_id) {
        doubled++;
        return;
    }
    o->heard = true;
    o->last_id = m->id;
    uint64_t stamp[2];
    memcpy(stamp, m->payload, sizeof stamp);
    notifications++;
    if (stamp[0] <= o->last) {
        out_of_order++;
        return;
    }
    conflated += stamp[0] - o->last - 1;
    for (uint64_t s = o->last + 1; s <= stamp[0]; s++)
        reached[s % REACHED]++;
    o->last = stamp[0];
    if (measuring) {
        notifications_measured++;
        hist_note(&latency, now - stamp[1]);
    }
}

/* The publisher: its PUTs that are under way, each from an endpoint of its own. */
#define PUTS 16
static struct endpoint publishing[PUTS];
static struct slot puts_under_way[PUTS];
static uint32_t puts_busy;

static void put(uint32_t topic, uint64_t now, uint64_t due)
{
    uint16_t i = 0;
    while (puts_under_way[i].busy)
        i++;
    puts_under_way[i].endpoint = &publishing[i];
    puts_under_way[i].topic = topic;
    puts_under_way[i].due = due;
    puts_busy++;
    send_slot(&puts_under_way[i], i, now, false);
    flush();
}

static void on_put_answer(const struct message *m, uint32_t to, uint64_t now, bool measuring)
{
    struct slot *slot = &puts_under_way[m->token_bytes == 2 && m->token[0] == 0 && m->token[1] < PUTS ? m->token[1] : 0];
    if (m->code == 0)
        return;
    if (!slot->busy || to != slot->address || (m->kind == ACK && m->id != slot->id)) {
        strangers++;
        return;
    }
    answers[m->code]++;
    slot->busy = false;
    puts_busy--;
    put_count += measuring;
    if (measuring)
        hist_note(&put_latency, now - slot->first_sent);
}

static void repeat_puts(uint64_t now)
{
    for (uint16_t i = 0; i < PUTS; i++)
        if (puts_under_way[i].busy && now - puts_under_way[i].last_sent > REPEAT_AFTER) {
            repeated++;
            send_slot(&puts_under_way[i], i, now, true);
        }
    flush();
}

static void take_all(int timeout_ms, bool measuring)
{
    int n = receive(timeout_ms);
    uint64_t now = now_ns();
    for (int k = 0; k < n; k++) {
        struct message m;
        uint32_t address = packets[k].to;
        if (!decode(packets[k].bytes, packets[k].length, &m)) {
            strangers++;
        } else if (address - first_observer < opt.observers && observers) {
            on_notification(address - first_observer, &m, now, measuring);
        } else {
            if (m.kind == CON)
                send_empty(address, &server, ACK, m.id);
            on_put_answer(&m, address, now, measuring);
        }
    }
    flush();
}

static void put_and_wait(uint32_t topic)
{
    put(topic, now_ns(), 0);
    for (uint64_t until = now_ns() + 10 * NS; puts_busy; repeat_puts(now_ns())) {
        take_all(100, false);
        if (now_ns() > until)
            die("the server does not answer a PUT");
    }
}

/* A value on each topic. */
static void put_all(void)
{
    make_templates(PUT);
    for (uint32_t topic = 0; topic < opt.topics; topic++)
        put_and_wait(topic);
    memset(answers, 0, sizeof answers);
}

/* Values first, then so many observers of them. */
static double register_all(void)
{
    observers = zeroed(opt.observers, sizeof *observers);
    first_observer = next_address;
    for (uint32_t i = 0; i < opt.observers; i++)
        if (new_address() != first_observer + i)
            die("the addresses are not in a row; once more");
    put_all();
    uint64_t begun = now_ns(), until = begun + 60 * NS;
    for (uint32_t asked = 0; registered_count < opt.observers && !refused;) {
        uint64_t now = now_ns();
        while (asked < opt.observers && asked - registered_count < 256)
            ask(asked++, now);
        flush();
        take_all(20, false);
        if (now > until)
            die("only %u of %u observers are registered", registered_count, opt.observers);
        for (uint32_t i = 0, checked = asked; i < checked; i++)
            if (asked - registered_count == 256 || asked == opt.observers)
                if (!observers[i].registered && now - observers[i].asked_at > REPEAT_AFTER) {
                    repeated++;
                    ask(i, now);
                }
    }
    if (refused)
        die("%lu observers were refused", refused);
    for (uint32_t i = 0; i < opt.observers; i++)
        observers[i].last = sequence;
    return (double)(now_ns() - begun) / 1e9;
}

static int run_observe(void)
{
    opt.topics = 1;
    double took = register_all();
    uint64_t begun = now_ns(), now = begun, next_due = begun, last_progress = begun, last_count = 0, first = sequence;
    uint64_t step = opt.rate > 0 ? (uint64_t)((double)NS / opt.rate) : 0;
    measured_from = begun + (uint64_t)(opt.warmup * 1e9);
    stop_at = measured_from + (uint64_t)(opt.seconds * 1e9);
    bool measuring = false, stopped = false;
    struct figures before = {0}, after = {0};
    double tool_before = 0, tool_after = 0;
    for (;;) {
        now = now_ns();
        if (!measuring && !stopped && now >= measured_from) {
            measuring = true;
            measured_from = now;
            before = look(opt.pid);
            tool_before = own_cpu_s();
        }
        if (!stopped && now >= stop_at) {
            measuring = false;
            stopped = true;
            stop_at = now;
            after = look(opt.pid);
            tool_after = own_cpu_s();
        }
        if (notifications != last_count) {
            last_count = notifications;
            last_progress = now;
        }
        bool window_open = sequence < first + opt.window || reached[(sequence - opt.window + 1) % REACHED] == opt.observers;
        bool all = sequence == first || reached[sequence % REACHED] == opt.observers;
        if (stopped && ((all && !puts_busy) || now > stop_at + 8 * NS))
            break;
        bool stuck = !step && now - last_progress > NS;
        if (!stopped && puts_busy < PUTS && (step ? next_due <= now : window_open || stuck)) {
            stalls += stuck && !window_open;
            last_progress = now;
            reached[(sequence + 1) % REACHED] = 0;
            put(0, now, step ? next_due : 0);
            next_due += step;
        }
        if (puts_busy && now - last_progress > REPEAT_AFTER)
            repeat_puts(now);
        take_all(step && next_due < now + NS / 1000 ? 0 : step ? (int)((next_due - now) / 1000000) : 50, measuring);
    }
    uint64_t behind = 0;
    for (uint32_t i = 0; i < opt.observers; i++)
        behind += observers[i].last != sequence;
    double seconds = (double)(stop_at - measured_from) / 1e9;
    bool valid = behind == 0 && notifications_measured > 0 && strangers == 0;
    printf("{\"tool\": \"coapblast\", \"mode\": \"observe\", \"valid\": %s, \"msgs_per_s\": %.0f, \"puts_per_s\": %.0f, \"observers\": %u"
           ", \"size\": %u, \"window\": %u, \"rate\": %.0f, \"seconds\": %.3f, \"registered_in_s\": %.3f, \"notifications\": %lu, \"confirmable\": %lu"
           ", \"conflated\": %lu, \"doubled\": %lu, \"out_of_order\": %lu, \"behind\": %lu, \"stalls\": %lu, \"repeated\": %lu, \"strangers\": %lu",
           valid ? "true" : "false", (double)notifications_measured / seconds, (double)put_count / seconds, opt.observers, opt.size, opt.window,
           opt.rate, seconds, took, notifications, confirmable, conflated, doubled, out_of_order, behind, stalls, repeated, strangers);
    if (opt.pid)
        printf(", \"broker_us_per_msg\": %.3f, \"broker_cpu\": %.2f, \"rss_mib\": %.1f",
               (after.cpu_s - before.cpu_s) * 1e6 / (double)(notifications_measured ? notifications_measured : 1),
               (after.cpu_s - before.cpu_s) / seconds, (double)after.rss_kib / 1024);
    printf(", \"tool_cpu\": %.2f", (tool_after - tool_before) / seconds);
    print_hist("lat_us", &latency);
    print_hist("put_us", &put_latency);
    puts("}");
    return valid ? 0 : INVALID;
}

static int run_hold(void)
{
    struct figures empty = look(opt.pid);
    double took = register_all();
    struct figures at_once = look(opt.pid);
    for (uint64_t until = now_ns() + (uint64_t)(opt.seconds * 1e9); now_ns() < until;)
        take_all(50, false);
    struct figures held = look(opt.pid);
    uint64_t begun = now_ns(), before = notifications, last = begun;
    for (uint32_t topic = 0; topic < opt.topics; topic++)
        put_and_wait(topic);
    while (notifications - before < opt.observers && now_ns() - begun < 60 * NS) {
        uint64_t count = notifications;
        take_all(50, false);
        if (notifications != count)
            last = now_ns();
    }
    struct figures after = look(opt.pid);
    uint64_t heard = notifications - before;
    bool valid = heard >= opt.observers;
    printf("{\"tool\": \"coapblast\", \"mode\": \"hold\", \"valid\": %s, \"observers\": %u, \"topics\": %u, \"registered_per_s\": %.0f"
           ", \"rss_mib_before\": %.1f, \"rss_mib\": %.1f, \"bytes_each_at_once\": %.0f, \"bytes_each\": %.0f, \"broker_cpu_idle\": %.3f"
           ", \"notified\": %lu, \"notified_in_s\": %.3f, \"bytes_each_after\": %.0f, \"repeated\": %lu, \"doubled\": %lu, \"strangers\": %lu}\n",
           valid ? "true" : "false", opt.observers, opt.topics, opt.observers / took, (double)empty.rss_kib / 1024, (double)held.rss_kib / 1024,
           ((double)at_once.rss_kib - (double)empty.rss_kib) * 1024 / opt.observers,
           ((double)held.rss_kib - (double)empty.rss_kib) * 1024 / opt.observers, (held.cpu_s - at_once.cpu_s) / opt.seconds, heard,
           (double)(last - begun) / 1e9, ((double)after.rss_kib - (double)empty.rss_kib) * 1024 / opt.observers, repeated, doubled, strangers);
    return valid ? 0 : INVALID;
}

/* --------------------------------------------------------------------------------------------------- the null server */

struct watcher {
    struct sockaddr_in peer;
    uint8_t token[8], token_bytes;
};

static void null_answer(const struct sockaddr_in *to, const struct message *m, uint16_t own_id)
{
    uint8_t *p = to_send(0, to);
    bool confirmable_request = m->kind == CON;
    uint16_t id = confirmable_request ? m->id : own_id;
    p[0] = (uint8_t)(0x40 | (confirmable_request ? ACK : NON) << 4 | m->token_bytes);
    p[1] = m->code == GET ? CONTENT : CHANGED;
    p[2] = (uint8_t)(id >> 8);
    p[3] = (uint8_t)id;
    memcpy(p + 4, m->token, m->token_bytes);
    size_t n = 4u + m->token_bytes;
    if (m->has_observe) {
        p[n++] = 0x61;
        p[n++] = 1;
    }
    sent(n);
}

__attribute__((noreturn)) static void run_null(void)
{
    static struct watcher *watchers;
    size_t count = 0, room = 0;
    uint16_t id = 1;
    uint32_t observe = 1;
    uint64_t answered_all = 0;
    open_socket(INADDR_LOOPBACK, opt.port);
    for (;;) {
        int n = receive(1000);
        for (int k = 0; k < n; k++) {
            struct message m;
            if (!decode(packets[k].bytes, packets[k].length, &m) || m.kind >= ACK)
                continue;
            if (m.has_observe && m.observe == 0) {
                if (count == room)
                    watchers = realloc(watchers, (room = room ? 2 * room : 1024) * sizeof *watchers);
                watchers[count] = (struct watcher){.peer = *packets[k].from, .token_bytes = m.token_bytes};
                memcpy(watchers[count++].token, m.token, m.token_bytes);
            }
            if (++answered_all % 20000 == 0 && opt.fault == DROPS)
                continue;
            null_answer(packets[k].from, &m, id++);
            if (answered_all % 1000 == 0 && opt.fault == DOUBLES)
                null_answer(packets[k].from, &m, id++);
            if (m.code != PUT || !count)
                continue;
            observe++;
            for (size_t i = 0; i < count; i++) {
                uint8_t *p = to_send(0, &watchers[i].peer);
                p[0] = (uint8_t)(0x40 | CON << 4 | watchers[i].token_bytes);
                p[1] = CONTENT;
                p[2] = (uint8_t)(id >> 8);
                p[3] = (uint8_t)id++;
                memcpy(p + 4, watchers[i].token, watchers[i].token_bytes);
                size_t at = 4u + watchers[i].token_bytes;
                p[at] = 0x63;
                p[at + 1] = (uint8_t)(observe >> 16);
                p[at + 2] = (uint8_t)(observe >> 8);
                p[at + 3] = (uint8_t)observe;
                p[at + 4] = 0xff;
                memcpy(p + at + 5, m.payload, m.payload_bytes);
                sent(at + 5 + m.payload_bytes);
            }
        }
        flush();
    }
}

/* ---------------------------------------------------------------------------------------------------------- self-test */

static int run(void)
{
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    pick_addresses();
    open_socket(INADDR_ANY, 0);
    if (strcmp(opt.mode, "requests") == 0)
        return run_requests();
    return strcmp(opt.mode, "observe") == 0 ? run_observe() : run_hold();
}

static int run_against_null(enum fault fault)
{
    int status;
    fflush(stdout);
    pid_t other = fork();
    if (other == 0) {
        opt.fault = fault;
        run_null();
    }
    usleep(100000);
    pid_t tool = fork();
    if (tool == 0) {
        opt.pid = other;
        status = run();
        fflush(stdout);
        bool seen = fault == NO_FAULT ? !repeated && !strangers : fault == DROPS ? repeated > 0 : strangers > 0;
        _exit(seen && (status == 0) ? 0 : 1);
    }
    waitpid(tool, &status, 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static int selftest(void)
{
    int failed = 0;
    opt.mode = "requests";
    failed += run_against_null(NO_FAULT);
    opt.non = true;
    failed += run_against_null(NO_FAULT);
    opt.non = false;
    opt.rate = 1000;
    failed += run_against_null(NO_FAULT);
    opt.rate = 0;
    opt.depth = 16;
    opt.gso = true;
    failed += run_against_null(NO_FAULT);
    opt.depth = 1;
    opt.gso = false;
    opt.mode = "observe";
    failed += run_against_null(NO_FAULT);
    opt.window = 8;
    failed += run_against_null(NO_FAULT);
    opt.mode = "hold";
    opt.observers = 100000;
    opt.topics = 1;
    opt.seconds = 1;
    failed += run_against_null(NO_FAULT);
    opt.mode = "requests";
    opt.topics = 64;
    opt.outstanding = 64;
    failed += run_against_null(DROPS);
    failed += run_against_null(DOUBLES);
    fprintf(stderr, "coapblast: selftest %s\n", failed ? "FAILED" : "passed");
    return failed != 0;
}

/* ------------------------------------------------------------------------------------------------------------ options */

int main(int argc, char **argv)
{
    static const char usage[] = "usage: coapblast requests|observe|hold|null --port P [options], coapblast --selftest --port P\n";
    enum { PORT = 256, PID, OUTSTANDING, OBSERVERS, SIZE, TOPICS, WINDOW, RATE, SECONDS, WARMUP, PATH, NON_, GET_, DEPTH, GSO };
    static const struct option options[] = {
        {"port", 1, 0, PORT}, {"pid", 1, 0, PID}, {"outstanding", 1, 0, OUTSTANDING}, {"observers", 1, 0, OBSERVERS}, {"size", 1, 0, SIZE},
        {"topics", 1, 0, TOPICS}, {"window", 1, 0, WINDOW}, {"rate", 1, 0, RATE}, {"seconds", 1, 0, SECONDS}, {"warmup", 1, 0, WARMUP},
        {"path", 1, 0, PATH}, {"non", 0, 0, NON_}, {"get", 0, 0, GET_}, {"depth", 1, 0, DEPTH}, {"gso", 0, 0, GSO}, {0}};
    prctl(PR_SET_TIMERSLACK, 1000ul);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--selftest") != 0)) {
        fputs(usage, stderr);
        return 1;
    }
    opt.mode = argv[1];
    if (strcmp(opt.mode, "hold") == 0) {
        opt.observers = 100000;
        opt.topics = 1;
    }
    for (int o; (o = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1;) {
        switch (o) {
        case PORT: opt.port = atoi(optarg); break;
        case PID: opt.pid = atoi(optarg); break;
        case OUTSTANDING: opt.outstanding = (uint32_t)atoi(optarg); break;
        case OBSERVERS: opt.observers = (uint32_t)atoi(optarg); break;
        case SIZE: opt.size = (uint32_t)atoi(optarg); break;
        case TOPICS: opt.topics = (uint32_t)atoi(optarg); break;
        case WINDOW: opt.window = (uint32_t)atoi(optarg); break;
        case RATE: opt.rate = atof(optarg); break;
        case SECONDS: opt.seconds = atof(optarg); break;
        case WARMUP: opt.warmup = atof(optarg); break;
        case PATH: opt.path = optarg; break;
        case NON_: opt.non = true; break;
        case GET_: opt.get = true; break;
        case DEPTH: opt.depth = (uint32_t)atoi(optarg); break;
        case GSO: opt.gso = true; break;
        default: fputs(usage, stderr); return 1;
        }
    }
    if (!opt.port || opt.size < STAMP_BYTES || opt.size > 1024 || !opt.outstanding || opt.outstanding > 65535 || !opt.topics || !opt.observers || !opt.depth ||
        opt.window < 1 || opt.window >= REACHED || opt.seconds <= 0)
        die("a port, %d to 1024 bytes, and at least one of everything are needed", STAMP_BYTES);
    if (strcmp(opt.mode, "--selftest") == 0)
        return selftest();
    if (strcmp(opt.mode, "null") == 0)
        run_null();
    if (strcmp(opt.mode, "requests") != 0 && strcmp(opt.mode, "observe") != 0 && strcmp(opt.mode, "hold") != 0)
        die("unknown mode %s", opt.mode);
    return run();
}

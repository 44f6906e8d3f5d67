/*
 * stompblast - STOMP 1.2 load that measures a broker from outside.
 *
 * Build:  cc -O3 -march=native -std=gnu11 -Wall -Wextra -o stompblast stompblast.c
 *
 *   stompblast pairs --port P --pairs 10 --size 36 --seconds 3 [--window 1000] [--persistent]
 *       N publishers SEND to N destinations /queue/..., N subscribers with ack:auto. A publisher stays at most WINDOW
 *       messages ahead of its subscriber; 0 leaves only what TCP and the broker hold it back with.
 *   stompblast rtt   --port P [--rate 100] [--size 36]
 *       An open loop on an absolute schedule: from the write of a message to its arrival in the same process.
 *   stompblast idle  --port P --pid BROKER --count 1000
 *       Connections with one subscription each that do nothing: memory.
 *   stompblast --selftest --port P
 *       Against a peer of its own that only relays: the tool's ceiling, and that it sees loss, doubles and wrong order.
 *
 * Any mode: --pid BROKER for its CPU and memory, --warmup, --drain, --user, --password, --prefix.
 *
 * One connection per publisher and per subscriber; one thread, batched writes, no allocation per message. Prints one line
 * of JSON; the exit status is 3 when the run is not valid.
 */
#include "blast.h"

static const char *tool_name = "stompblast";

static void destination(char *to, size_t bytes, uint32_t number)
{
    snprintf(to, bytes, "/queue/%s-%08x-%u", opt.prefix, run_id, number);
}

/* ----------------------------------------------------------------------------------------------------------- frames */

struct frame {
    const uint8_t *command, *body;
    size_t command_len, body_len, bytes; /* bytes: all of it, with what follows the body's NUL left for the next */
    const uint8_t *destination;
    size_t destination_len;
};

static bool is_line(const uint8_t *line, size_t length, const char *text)
{
    return length == strlen(text) && memcmp(line, text, length) == 0;
}

#define STARTS_WITH(line, length, text) ((length) >= sizeof(text) - 1 && memcmp(line, text, sizeof(text) - 1) == 0)

/* The frame at `in`, which begins with a command; false when it is not whole yet. */
static bool read_frame(const uint8_t *in, size_t length, struct frame *f)
{
    const uint8_t *line = in, *end = in + length, *line_end;
    bool has_length = false;
    memset(f, 0, sizeof *f);
    while ((line_end = memchr(line, '\n', (size_t)(end - line)))) {
        size_t n = (size_t)(line_end - line);
        n -= n > 0 && line[n - 1] == '\r';
        if (!f->command) {
            f->command = line;
            f->command_len = n;
        } else if (n == 0) {
            f->body = line_end + 1;
            break;
        } else if (line[0] == 'c' && STARTS_WITH(line, n, "content-length:")) {
            has_length = true;
            f->body_len = 0;
            for (size_t i = sizeof "content-length:" - 1; i < n; i++)
                f->body_len = f->body_len * 10 + (line[i] - '0');
        } else if (line[0] == 'd' && STARTS_WITH(line, n, "destination:")) {
            f->destination = line + sizeof "destination:" - 1;
            f->destination_len = n - (sizeof "destination:" - 1);
        }
        line = line_end + 1;
    }
    if (!f->body)
        return false;
    size_t left = (size_t)(end - f->body);
    if (!has_length) {
        const uint8_t *nul = memchr(f->body, 0, left);
        if (!nul)
            return false;
        f->body_len = (size_t)(nul - f->body);
    }
    if (left < f->body_len + 1)
        return false;
    if (f->body[f->body_len] != 0)
        die("a frame does not end with NUL");
    f->bytes = (size_t)(f->body - in) + f->body_len + 1;
    return true;
}

__attribute__((noreturn)) static void die_of_error(struct conn *c, const uint8_t *in, const struct frame *f)
{
    die("connection %u: %.*s", c->number, (int)(f->bytes < 500 ? f->bytes : 500), (const char *)in);
}

/* ----------------------------------------------------------------------------------------------------------- set-up */

/* Blocks until that frame came. Byte by byte, so that nothing behind it is taken. */
static void await(struct conn *c, const char *command)
{
    uint8_t in[4096];
    struct frame f;
    for (size_t length = 0; length < sizeof in;) {
        read_all(c->fd, in + length, 1, command);
        if (length == 0 && (in[0] == '\n' || in[0] == '\r'))
            continue;
        length++;
        if (in[length - 1] != 0 || !read_frame(in, length, &f))
            continue;
        if (is_line(f.command, f.command_len, "ERROR"))
            die_of_error(c, in, &f);
        if (is_line(f.command, f.command_len, command))
            return;
        length = 0;
    }
    die("connection %u: a long frame in place of %s", c->number, command);
}

static void proto_open(struct conn *c)
{
    char text[600], name[256];
    int n = snprintf(text, sizeof text, "CONNECT\naccept-version:1.2\nhost:/\nlogin:%s\npasscode:%s\nheart-beat:0,0\n\n%c",
                     opt.user, opt.password, 0);
    write_all(c->fd, text, (size_t)n);
    await(c, "CONNECTED");
    if (c->is_publisher)
        return;
    destination(name, sizeof name, c->number);
    n = snprintf(text, sizeof text, "SUBSCRIBE\nid:0\ndestination:%s\nack:auto\nreceipt:s\n\n%c", name, 0);
    write_all(c->fd, text, (size_t)n);
    await(c, "RECEIPT");
}

static void proto_consume(struct conn *c) { (void)c; }

static void proto_open_idle(struct conn *c) { proto_open(c); }

static uint64_t proto_close(struct conn *c)
{
    static const char disconnect[] = "DISCONNECT\nreceipt:d\n\n";
    write_all(c->fd, disconnect, sizeof disconnect);
    await(c, "RECEIPT");
    close(c->fd);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- publishing */

static void proto_make_batch(struct conn *c)
{
    char head[600], name[256];
    destination(name, sizeof name, c->number);
    size_t n = (size_t)snprintf(head, sizeof head, "SEND\ndestination:%s\n%scontent-length:%u\n\n", name,
                                opt.persistent ? "persistent:true\n" : "", opt.size);
    c->stamp_at = n;
    c->message_bytes = n + opt.size + 1;
    c->batch_cap = BATCH_BYTES / c->message_bytes;
    c->batch_cap = c->batch_cap ? c->batch_cap : 1;
    c->batch = zeroed(c->batch_cap, c->message_bytes);
    for (size_t i = 0; i < c->batch_cap; i++) {
        uint8_t *message = c->batch + i * c->message_bytes;
        memcpy(message, head, n);
        memcpy(message + n, filler, opt.size);
    }
}

/* -------------------------------------------------------------------------------------------------------- receiving */

static size_t proto_parse(struct conn *c, const uint8_t *in, size_t length, uint64_t now)
{
    size_t at = 0;
    struct frame f;
    for (;;) {
        while (at < length && (in[at] == '\n' || in[at] == '\r'))
            at++;
        if (at == length || !read_frame(in + at, length - at, &f))
            return at;
        if (is_line(f.command, f.command_len, "MESSAGE"))
            on_message(c, f.body, f.body_len, true, now);
        else if (is_line(f.command, f.command_len, "ERROR"))
            die_of_error(c, in + at, &f);
        at += f.bytes;
    }
}

static void proto_after_read(struct conn *c) { (void)c; }

/* ----------------------------------------------------------------------------------------------- the self-test's peer */

static struct {
    char name[128];
    size_t name_len;
    struct conn *subscriber;
    uint64_t number;
} destinations[256];
static int destination_count;

static void peer_open(struct conn *c) { (void)c; }

static void peer_send(const struct frame *f)
{
    static int last;
    char head[300];
    if (destinations[last].name_len != f->destination_len ||
        memcmp(destinations[last].name, f->destination, f->destination_len) != 0)
        for (last = 0; destinations[last].name_len != f->destination_len ||
                       memcmp(destinations[last].name, f->destination, f->destination_len) != 0;)
            if (++last == destination_count)
                die("the self-test's peer knows no %.*s", (int)f->destination_len, (const char *)f->destination);
    int n = snprintf(head, sizeof head, "MESSAGE\nsubscription:0\ndestination:%.*s\nmessage-id:%lu\ncontent-length:%zu\n\n",
                     (int)f->destination_len, (const char *)f->destination, ++destinations[last].number, f->body_len);
    struct iovec parts[2] = {{head, (size_t)n}, {(void *)f->body, f->body_len + 1}};
    peer_pass(destinations[last].subscriber, parts, 2);
}

static void peer_answer(struct conn *c, const char *text)
{
    memcpy(room(c, strlen(text) + 1), text, strlen(text) + 1);
}

static size_t peer_parse(struct conn *c, uint8_t *in, size_t length)
{
    size_t at = 0;
    struct frame f;
    while (at < length && read_frame(in + at, length - at, &f)) {
        if (is_line(f.command, f.command_len, "SEND")) {
            peer_send(&f);
        } else if (is_line(f.command, f.command_len, "CONNECT")) {
            peer_answer(c, "CONNECTED\nversion:1.2\nheart-beat:0,0\n\n");
        } else if (is_line(f.command, f.command_len, "SUBSCRIBE")) {
            memcpy(destinations[destination_count].name, f.destination, f.destination_len);
            destinations[destination_count].name_len = f.destination_len;
            destinations[destination_count++].subscriber = c;
            peer_answer(c, "RECEIPT\nreceipt-id:s\n\n");
        } else {
            peer_answer(c, "RECEIPT\nreceipt-id:d\n\n");
        }
        at += f.bytes;
    }
    return at;
}

static void peer_after_read(struct conn *c) { (void)c; }

/* ---------------------------------------------------------------------------------------------------------- options */

static void set_mode(const char *mode)
{
    if (strcmp(mode, "rtt") == 0) {
        opt.rate = 100;
        opt.window = 0;
    } else if (strcmp(mode, "pairs") != 0 && strcmp(mode, "idle") != 0) {
        die("unknown mode %s", mode);
    }
}

static void set_case(int number)
{
    opt.mode = "pairs";
    opt.window = 1000;
    opt.pairs = number == 1 ? 1 : 10;
    opt.size = number == 2 ? 1024 : 36;
    opt.rate = 0;
    if (number == 3) {
        opt.pairs = 1;
        set_mode(opt.mode = "rtt");
    }
}

int main(int argc, char **argv)
{
    return blast_main(argc, argv, "usage: stompblast pairs|rtt|idle --port P [options], stompblast --selftest --port P\n",
                      set_mode, set_case, 4);
}

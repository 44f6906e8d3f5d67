/*
 * amqpblast - AMQP 0-9-1 load that measures a broker from outside.
 *
 * Build:  cc -O3 -march=native -std=gnu11 -Wall -Wextra -o amqpblast amqpblast.c
 *
 *   amqpblast pairs   --port P --pairs 10 --size 36 --seconds 3 [--window 1000]
 *       N publishers -> N queues -> N consumers, transient messages, nothing acknowledged (no-ack). A publisher stays at
 *       most WINDOW messages ahead of its consumer; 0 leaves only what TCP and the broker hold it back with.
 *   amqpblast durable --port P --pairs 10 --size 36 [--queue-type quorum] [--confirms 500] [--prefetch 1000] [--ack-each]
 *       Durable queues, persistent messages, publishers with CONFIRMS unconfirmed messages each, consumers that
 *       acknowledge: all that one read brought with one acknowledgement, or each alone.
 *   amqpblast fill    --port P --pairs 10 --size 36 [--queue-type quorum] [--confirms 500]
 *       The same without consumers, so that no acknowledgement saves the broker a sync: what counts are confirmations.
 *       When the publishers have ended, everything that was confirmed is taken out again, once and in order.
 *   amqpblast rtt     --port P [--rate 100] [--size 36] [--durable --persistent --confirms 100 --prefetch 100]
 *       An open loop on an absolute schedule: from the write of a message to its arrival in the same process.
 *   amqpblast idle    --port P --pid BROKER --count 1000
 *       Connections with one channel and one exclusive queue each that do nothing: memory.
 *   amqpblast --selftest --port P
 *       Against a peer of its own that only relays: the tool's ceiling, and that it sees loss, doubles and wrong order.
 *
 * Any mode: --pid BROKER for its CPU and memory, --exchange NAME to publish through a binding in place of the default
 * exchange, --warmup, --drain, --user, --password, --prefix.
 *
 * One connection per publisher and per consumer, as devices have; one thread, batched writes, no allocation per message.
 * Prints one line of JSON; the exit status is 3 when the run is not valid. Section numbers are those of the 0-9-1
 * specification.
 */
#include "blast.h"

static const char *tool_name = "amqpblast";

enum { METHOD = 1, HEADER = 2, BODY = 3, HEARTBEAT = 8, FRAME_END = 0xCE };
#define ID(class, method) ((class) << 16 | (method))
enum method {
    CONNECTION_START = ID(10, 10), CONNECTION_START_OK = ID(10, 11), CONNECTION_TUNE = ID(10, 30),
    CONNECTION_TUNE_OK = ID(10, 31), CONNECTION_OPEN = ID(10, 40), CONNECTION_OPEN_OK = ID(10, 41),
    CONNECTION_CLOSE = ID(10, 50), CONNECTION_CLOSE_OK = ID(10, 51),
    CHANNEL_OPEN = ID(20, 10), CHANNEL_OPEN_OK = ID(20, 11), CHANNEL_FLOW = ID(20, 20), CHANNEL_CLOSE = ID(20, 40),
    QUEUE_DECLARE = ID(50, 10), QUEUE_DECLARE_OK = ID(50, 11), QUEUE_BIND = ID(50, 20), QUEUE_BIND_OK = ID(50, 21),
    QUEUE_DELETE = ID(50, 40), QUEUE_DELETE_OK = ID(50, 41),
    BASIC_QOS = ID(60, 10), BASIC_QOS_OK = ID(60, 11), BASIC_CONSUME = ID(60, 20), BASIC_CONSUME_OK = ID(60, 21),
    BASIC_PUBLISH = ID(60, 40), BASIC_RETURN = ID(60, 50), BASIC_DELIVER = ID(60, 60), BASIC_ACK = ID(60, 80),
    BASIC_NACK = ID(60, 120), CONFIRM_SELECT = ID(85, 10), CONFIRM_SELECT_OK = ID(85, 11),
};

static uint32_t frame_max = 131072;

/* --------------------------------------------------------------------------------------------------------- encoding */

static inline unsigned get16(const uint8_t *p) { return (unsigned)p[0] << 8 | p[1]; }
static inline uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) << 16 | get16(p + 2); }
static inline uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }

struct writer {
    uint8_t *at, *frame;
};

static void put8(struct writer *w, unsigned v) { *w->at++ = (uint8_t)v; }
static void put16(struct writer *w, unsigned v) { put8(w, v >> 8), put8(w, v); }
static void put32(struct writer *w, uint32_t v) { put16(w, v >> 16), put16(w, v); }
static void put64(struct writer *w, uint64_t v) { put32(w, (uint32_t)(v >> 32)), put32(w, (uint32_t)v); }

static void put_bytes(struct writer *w, const void *from, size_t bytes)
{
    memcpy(w->at, from, bytes);
    w->at += bytes;
}

static void put_short(struct writer *w, const char *text)
{
    put8(w, (unsigned)strlen(text));
    put_bytes(w, text, strlen(text));
}

/* 2.3.5: type, channel, size, payload, end. */
static void begin_frame(struct writer *w, int type, unsigned channel)
{
    w->frame = w->at;
    put8(w, (unsigned)type);
    put16(w, channel);
    put32(w, 0);
}

static void end_frame(struct writer *w)
{
    struct writer size = {.at = w->frame + 3};
    put32(&size, (uint32_t)(w->at - w->frame - 7));
    put8(w, FRAME_END);
}

static void begin_method(struct writer *w, unsigned channel, uint32_t method)
{
    begin_frame(w, METHOD, channel);
    put32(w, method);
}

static uint8_t *begin_table(struct writer *w)
{
    put32(w, 0);
    return w->at;
}

static void end_table(struct writer *w, uint8_t *begun)
{
    struct writer size = {.at = begun - 4};
    put32(&size, (uint32_t)(w->at - begun));
}

static void put_true(struct writer *w, const char *key)
{
    put_short(w, key);
    put8(w, 't');
    put8(w, 1);
}

static void put_text(struct writer *w, const char *key, const char *value)
{
    put_short(w, key);
    put8(w, 'S');
    put32(w, (uint32_t)strlen(value));
    put_bytes(w, value, strlen(value));
}

/* ---------------------------------------------------------------------------------------------------------- set-up */

static uint8_t set_up[4096];

static struct writer fresh(void)
{
    return (struct writer){.at = set_up};
}

static void send_set_up(struct conn *c, struct writer *w)
{
    write_all(c->fd, set_up, (size_t)(w->at - set_up));
}

__attribute__((noreturn)) static void die_of_close(struct conn *c, uint32_t method, const uint8_t *arguments)
{
    die("connection %u: the broker closed the %s: %u %.*s", c->number, method == CHANNEL_CLOSE ? "channel" : "connection",
        get16(arguments), arguments[2], (const char *)arguments + 3);
}

/* Blocks until that method came; its arguments. Only used where nothing else but heartbeats is to be expected. */
static const uint8_t *await(struct conn *c, uint32_t method, const char *what)
{
    static uint8_t frame[1 << 17];
    for (;;) {
        read_all(c->fd, frame, 7, what);
        uint32_t size = get32(frame + 3);
        if (frame[0] == 'A' || size + 8 > sizeof frame)
            die("connection %u: no AMQP frame while waiting for %s", c->number, what);
        read_all(c->fd, frame + 7, size + 1, what);
        if (frame[7 + size] != FRAME_END)
            die("connection %u: a frame does not end while waiting for %s", c->number, what);
        if (frame[0] != METHOD)
            continue;
        uint32_t got = get32(frame + 7);
        if (got == CONNECTION_CLOSE || got == CHANNEL_CLOSE)
            die_of_close(c, got, frame + 11);
        if (got == method)
            return frame + 11;
    }
}

static void shake_hands(struct conn *c)
{
    char response[256];
    write_all(c->fd, "AMQP\0\0\x09\x01", 8);
    await(c, CONNECTION_START, "connection.start");
    struct writer w = fresh();
    begin_method(&w, 0, CONNECTION_START_OK);
    uint8_t *properties = begin_table(&w);
    put_text(&w, "product", tool_name);
    put_short(&w, "capabilities");
    put8(&w, 'F');
    uint8_t *capabilities = begin_table(&w);
    put_true(&w, "publisher_confirms");
    put_true(&w, "basic.nack");
    put_true(&w, "consumer_cancel_notify");
    put_true(&w, "authentication_failure_close");
    end_table(&w, capabilities);
    end_table(&w, properties);
    put_short(&w, "PLAIN");
    int length = snprintf(response, sizeof response, "%c%s%c%s", 0, opt.user, 0, opt.password);
    put32(&w, (uint32_t)length);
    put_bytes(&w, response, (size_t)length);
    put_short(&w, "en_US");
    end_frame(&w);
    send_set_up(c, &w);
    const uint8_t *tune = await(c, CONNECTION_TUNE, "connection.tune");
    unsigned channel_max = get16(tune);
    uint32_t offered = get32(tune + 2);
    if (offered && offered < frame_max)
        frame_max = offered;
    w = fresh();
    begin_method(&w, 0, CONNECTION_TUNE_OK);
    put16(&w, channel_max);
    put32(&w, frame_max);
    put16(&w, 0); /* no heartbeats */
    end_frame(&w);
    begin_method(&w, 0, CONNECTION_OPEN);
    put_short(&w, "/");
    put_short(&w, "");
    put8(&w, 0);
    end_frame(&w);
    send_set_up(c, &w);
    await(c, CONNECTION_OPEN_OK, "connection.open-ok");
    w = fresh();
    begin_method(&w, 1, CHANNEL_OPEN);
    put_short(&w, "");
    end_frame(&w);
    send_set_up(c, &w);
    await(c, CHANNEL_OPEN_OK, "channel.open-ok");
}

static void queue_name(char *to, size_t bytes, uint32_t number)
{
    snprintf(to, bytes, "%s-%08x-%u", opt.prefix, run_id, number);
}

static void declare(struct conn *c, const char *queue, bool durable, bool exclusive)
{
    struct writer w = fresh();
    begin_method(&w, 1, QUEUE_DECLARE);
    put16(&w, 0);
    put_short(&w, queue);
    put8(&w, (durable ? 2u : 0u) | (exclusive ? 4u : 0u)); /* passive, durable, exclusive, auto-delete, no-wait */
    uint8_t *arguments = begin_table(&w);
    if (*opt.queue_type)
        put_text(&w, "x-queue-type", opt.queue_type);
    end_table(&w, arguments);
    end_frame(&w);
    send_set_up(c, &w);
    await(c, QUEUE_DECLARE_OK, "queue.declare-ok");
}

static void bind_queue(struct conn *c, const char *queue)
{
    struct writer w = fresh();
    begin_method(&w, 1, QUEUE_BIND);
    put16(&w, 0);
    put_short(&w, queue);
    put_short(&w, opt.exchange);
    put_short(&w, queue);
    put8(&w, 0);
    put32(&w, 0);
    end_frame(&w);
    send_set_up(c, &w);
    await(c, QUEUE_BIND_OK, "queue.bind-ok");
}

static void proto_open(struct conn *c)
{
    char queue[128];
    queue_name(queue, sizeof queue, c->number);
    shake_hands(c);
    struct writer w = fresh();
    if (c->is_publisher) {
        if (!opt.confirms)
            return;
        begin_method(&w, 1, CONFIRM_SELECT);
        put8(&w, 0);
        end_frame(&w);
        send_set_up(c, &w);
        await(c, CONFIRM_SELECT_OK, "confirm.select-ok");
        return;
    }
    declare(c, queue, opt.durable, false);
    if (*opt.exchange)
        bind_queue(c, queue);
    if (opt.prefetch) {
        begin_method(&w, 1, BASIC_QOS);
        put32(&w, 0);
        put16(&w, opt.prefetch);
        put8(&w, 0);
        end_frame(&w);
        send_set_up(c, &w);
        await(c, BASIC_QOS_OK, "basic.qos-ok");
    }
    if (opt.fill)
        return;
    proto_consume(c);
    write_all(c->fd, c->out, c->out_len);
    c->out_len = 0;
    await(c, BASIC_CONSUME_OK, "basic.consume-ok");
}

static void proto_consume(struct conn *c)
{
    char queue[128];
    queue_name(queue, sizeof queue, c->number);
    uint8_t method[256];
    struct writer w = {.at = method};
    begin_method(&w, 1, BASIC_CONSUME);
    put16(&w, 0);
    put_short(&w, queue);
    put_short(&w, "c");
    put8(&w, opt.prefetch ? 0 : 2); /* no-local, no-ack, exclusive, no-wait */
    put32(&w, 0);
    end_frame(&w);
    size_t bytes = (size_t)(w.at - method);
    memcpy(room(c, bytes), method, bytes);
}

static void proto_open_idle(struct conn *c)
{
    char queue[128];
    queue_name(queue, sizeof queue, c->number);
    shake_hands(c);
    declare(c, queue, false, true);
}

static uint64_t proto_close(struct conn *c)
{
    uint64_t left = 0;
    struct writer w = fresh();
    if (!c->is_publisher) {
        char queue[128];
        queue_name(queue, sizeof queue, c->number);
        begin_method(&w, 1, QUEUE_DELETE);
        put16(&w, 0);
        put_short(&w, queue);
        put8(&w, 0);
        end_frame(&w);
        send_set_up(c, &w);
        left = get32(await(c, QUEUE_DELETE_OK, "queue.delete-ok"));
        w = fresh();
    }
    begin_method(&w, 0, CONNECTION_CLOSE);
    put16(&w, 200);
    put_short(&w, "");
    put32(&w, 0);
    end_frame(&w);
    send_set_up(c, &w);
    await(c, CONNECTION_CLOSE_OK, "connection.close-ok");
    close(c->fd);
    return left;
}

/* ------------------------------------------------------------------------------------------------------ publishing */

/* A message is one method frame, one header frame, and as many body frames as its bytes take. */
static void proto_make_batch(struct conn *c)
{
    char queue[128];
    queue_name(queue, sizeof queue, c->number);
    uint32_t body_max = frame_max - 8, bodies = (opt.size + body_max - 1) / body_max;
    uint8_t *message = zeroed(1, opt.size + 1024 + 8 * bodies);
    struct writer w = {.at = message};
    begin_method(&w, 1, BASIC_PUBLISH);
    put16(&w, 0);
    put_short(&w, opt.exchange);
    put_short(&w, queue);
    put8(&w, 0);
    end_frame(&w);
    begin_frame(&w, HEADER, 1);
    put16(&w, 60);
    put16(&w, 0);
    put64(&w, opt.size);
    put16(&w, 0x1000); /* delivery-mode is all it has */
    put8(&w, opt.persistent ? 2 : 1);
    end_frame(&w);
    c->stamp_at = (size_t)(w.at - message) + 7;
    for (uint32_t done = 0; done < opt.size; done += body_max) {
        begin_frame(&w, BODY, 1);
        put_bytes(&w, filler + done, opt.size - done < body_max ? opt.size - done : body_max);
        end_frame(&w);
    }
    c->message_bytes = (size_t)(w.at - message);
    c->batch_cap = BATCH_BYTES / c->message_bytes;
    c->batch_cap = c->batch_cap ? c->batch_cap : 1;
    c->batch = zeroed(c->batch_cap, c->message_bytes);
    for (size_t i = 0; i < c->batch_cap; i++)
        memcpy(c->batch + i * c->message_bytes, message, c->message_bytes);
    free(message);
}

/* ------------------------------------------------------------------------------------------------------- receiving */

enum stage { NO_CONTENT, WANTS_HEADER, WANTS_BODY };

static void put_ack(struct conn *c, uint64_t tag, bool multiple)
{
    struct writer w = {.at = room(c, 21)};
    begin_method(&w, 1, BASIC_ACK);
    put64(&w, tag);
    put8(&w, multiple);
    end_frame(&w);
}

static void on_method(struct conn *c, const uint8_t *p, uint64_t now)
{
    uint32_t method = get32(p);
    const uint8_t *arguments = p + 4;
    switch (method) {
    case BASIC_DELIVER: {
        const uint8_t *tag = arguments + 1 + arguments[0];
        c->to_ack = get64(tag);
        redelivered += tag[8] & 1;
        c->stage = WANTS_HEADER;
        c->foreign = false;
        return;
    }
    case BASIC_ACK:
        if (!on_confirm(c, get64(arguments), arguments[8] & 1, now))
            die("connection %u: a confirmation of %lu, which is not open", c->number, get64(arguments));
        return;
    case BASIC_NACK:
        on_confirm(c, get64(arguments), arguments[8] & 1, now);
        refused++;
        return;
    case BASIC_RETURN:
        returned++;
        c->stage = WANTS_HEADER;
        c->foreign = true;
        return;
    case BASIC_CONSUME_OK: return; /* of fill; elsewhere it is awaited */
    case CHANNEL_FLOW: /* RabbitMQ never sends it, and nothing here would stop */
        die("connection %u: channel.flow", c->number);
    case CONNECTION_CLOSE:
    case CHANNEL_CLOSE: die_of_close(c, method, arguments);
    default: die("connection %u: unexpected method %u.%u", c->number, method >> 16, method & 0xffff);
    }
}

static void on_content(struct conn *c, const uint8_t *payload, bool is_whole, uint64_t now)
{
    c->stage = NO_CONTENT;
    if (c->foreign)
        return;
    on_message(c, payload, c->body_bytes, is_whole, now);
    if (opt.prefetch && opt.ack_each) {
        put_ack(c, c->to_ack, false);
        c->to_ack = 0;
    }
}

static size_t proto_parse(struct conn *c, const uint8_t *in, size_t length, uint64_t now)
{
    size_t at = 0;
    while (length - at >= 8) {
        const uint8_t *p = in + at;
        size_t size = get32(p + 3);
        if (size > frame_max)
            die("connection %u: a frame of %zu bytes", c->number, size);
        if (length - at < size + 8)
            break;
        if (p[7 + size] != FRAME_END)
            die("connection %u: a frame does not end", c->number);
        at += size + 8;
        const uint8_t *payload = p + 7;
        switch (p[0]) {
        case METHOD:
            if (c->stage != NO_CONTENT)
                die("connection %u: a method within a message", c->number);
            on_method(c, payload, now);
            break;
        case HEADER:
            if (c->stage != WANTS_HEADER)
                die("connection %u: a header without a method", c->number);
            c->body_bytes = c->body_left = get64(payload + 4);
            c->stage = WANTS_BODY;
            if (!c->body_left)
                on_content(c, NULL, true, now);
            break;
        case BODY:
            if (c->stage != WANTS_BODY || size > c->body_left)
                die("connection %u: a body that is not expected", c->number);
            c->body_left -= size;
            if (size == c->body_bytes) {
                on_content(c, payload, true, now);
                break;
            }
            if (c->body_left + size == c->body_bytes && size >= STAMP_BYTES)
                memcpy(c->stamp, payload, STAMP_BYTES);
            if (!c->body_left)
                on_content(c, c->stamp, false, now);
            break;
        case HEARTBEAT: break;
        default: die("connection %u: a frame of type %u", c->number, p[0]);
        }
    }
    return at;
}

static void proto_after_read(struct conn *c)
{
    if (c->is_publisher)
        return;
    /* While a message is only half here its own tag is not to be acknowledged; the next read does it. */
    if (opt.prefetch && c->to_ack && c->stage == NO_CONTENT) {
        put_ack(c, c->to_ack, true);
        c->to_ack = 0;
    }
    if (c->out_off < c->out_len && !c->waits_to_write)
        flush(c);
}

/* ---------------------------------------------------------------------------------------------- the self-test's peer */

static struct queue {
    char name[128];
    size_t name_len;
    struct conn *consumer;
    uint64_t tag;
} queues[256];
static int queue_count;

/* Where a peer's connection keeps what the tool's keep elsewhere: `to_ack` is the number of the last publish, `generated`
 * says that confirmations are wanted, `first_due` is the publish that waits for its content, an offset into `in`. */

static void peer_open(struct conn *c) { c->first_due = UINT64_MAX; }

static struct queue *find_queue(const uint8_t *name, size_t length)
{
    static struct queue *last = queues;
    if (last->name_len == length && memcmp(last->name, name, length) == 0)
        return last;
    for (struct queue *q = queues; q < queues + queue_count; q++)
        if (q->name_len == length && memcmp(q->name, name, length) == 0)
            return last = q;
    return NULL;
}

static void peer_answer(struct conn *c, unsigned channel, uint32_t method, const void *arguments, size_t bytes)
{
    struct writer w = {.at = room(c, 12 + bytes)};
    begin_method(&w, channel, method);
    put_bytes(&w, arguments, bytes);
    end_frame(&w);
}

static void peer_method(struct conn *c, const uint8_t *p)
{
    const uint8_t *a = p + 4;
    switch (get32(p)) {
    case CONNECTION_START_OK: peer_answer(c, 0, CONNECTION_TUNE, "\x07\xff\0\x02\0\0\0\0", 8); break;
    case CONNECTION_OPEN: peer_answer(c, 0, CONNECTION_OPEN_OK, "", 1); break;
    case CONNECTION_CLOSE: peer_answer(c, 0, CONNECTION_CLOSE_OK, "", 0); break;
    case CHANNEL_OPEN: peer_answer(c, 1, CHANNEL_OPEN_OK, "\0\0\0", 4); break;
    case QUEUE_DECLARE: {
        struct queue *q = &queues[queue_count++];
        q->name_len = a[2];
        memcpy(q->name, a + 3, a[2]);
        uint8_t ok[264] = {0};
        memcpy(ok, a + 2, a[2] + 1u);
        peer_answer(c, 1, QUEUE_DECLARE_OK, ok, a[2] + 9u);
        break;
    }
    case QUEUE_BIND: peer_answer(c, 1, QUEUE_BIND_OK, "", 0); break;
    case QUEUE_DELETE: peer_answer(c, 1, QUEUE_DELETE_OK, "\0\0\0", 4); break;
    case BASIC_QOS: peer_answer(c, 1, BASIC_QOS_OK, "", 0); break;
    case BASIC_CONSUME:
        find_queue(a + 3, a[2])->consumer = c;
        peer_answer(c, 1, BASIC_CONSUME_OK, "\x01" "c", 2);
        break;
    case CONFIRM_SELECT:
        c->generated = 1;
        peer_answer(c, 1, CONFIRM_SELECT_OK, "", 0);
        break;
    default: break; /* tune-ok, ack */
    }
}

static void peer_content(const uint8_t *publish, const uint8_t *header, size_t bytes)
{
    static uint8_t deliver[512];
    const uint8_t *exchange = publish + 13, *key = exchange + 1 + exchange[0];
    struct queue *q = find_queue(key + 1, key[0]);
    struct writer w = {.at = deliver};
    begin_method(&w, 1, BASIC_DELIVER);
    put_short(&w, "c");
    put64(&w, ++q->tag);
    put8(&w, 0);
    put_bytes(&w, exchange, 1u + exchange[0]);
    put_bytes(&w, key, 1u + key[0]);
    end_frame(&w);
    struct iovec parts[2] = {{deliver, (size_t)(w.at - deliver)}, {(void *)header, bytes}};
    peer_pass(q->consumer, parts, 2);
}

static size_t peer_parse(struct conn *c, uint8_t *in, size_t length)
{
    size_t at = 0;
    if (c->stage == 0) {
        if (length < 8)
            return 0;
        /* 0-9, no properties, mechanisms, locales */
        peer_answer(c, 0, CONNECTION_START, "\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05" "en_US", 24);
        c->stage = 1;
        at = 8;
    }
    while (length - at >= 8) {
        uint8_t *p = in + at;
        size_t bytes = get32(p + 3) + 8;
        if (length - at < bytes)
            return at;
        if (p[0] != METHOD || get32(p + 7) != BASIC_PUBLISH) {
            peer_method(c, p + 7);
            at += bytes;
            continue;
        }
        /* A publish is taken when all of it is here: its header frame says how long it is (one body frame). */
        if (length - at < bytes + 7 + 12)
            return at;
        uint8_t *header = p + bytes;
        size_t header_bytes = get32(header + 3) + 8, content = header_bytes + get64(header + 11) + 8;
        if (length - at < bytes + content)
            return at;
        peer_content(p, header, content);
        c->to_ack++;
        at += bytes + content;
    }
    return at;
}

static void peer_after_read(struct conn *c)
{
    if (c->generated && c->to_ack != c->next) {
        put_ack(c, c->to_ack, true);
        c->next = c->to_ack;
    }
}

/* ---------------------------------------------------------------------------------------------------------- options */

static void set_mode(const char *mode)
{
    if (strcmp(mode, "durable") == 0 || strcmp(mode, "fill") == 0) {
        opt.fill = mode[0] == 'f';
        opt.durable = opt.persistent = true;
        opt.confirms = 500;
        opt.prefetch = 1000;
        opt.window = 0;
    } else if (strcmp(mode, "rtt") == 0) {
        opt.rate = 100;
        opt.window = 0;
    } else if (strcmp(mode, "pairs") != 0 && strcmp(mode, "idle") != 0) {
        die("unknown mode %s", mode);
    }
}

static void set_case(int number)
{
    opt.window = 1000;
    opt.confirms = opt.prefetch = 0;
    opt.rate = 0;
    opt.pairs = number == 1 ? 1 : 10;
    opt.size = number == 2 || number == 4 ? 1024 : 36;
    opt.mode = number >= 5 ? "rtt" : number >= 3 ? "durable" : "pairs";
    opt.durable = opt.persistent = false;
    if (number == 3 || number == 4 || number == 5)
        set_mode(opt.mode);
    if (number == 5)
        opt.pairs = 1;
}

int main(int argc, char **argv)
{
    return blast_main(argc, argv, "usage: amqpblast pairs|durable|fill|rtt|idle --port P [options], amqpblast --selftest --port P\n",
                      set_mode, set_case, 6);
}

/*
 * xmppblast - load of XEP-0060 that measures a broker of XMPP from outside.
 *
 * Build:  cc -O3 -march=native -std=gnu11 -Wall -Wextra -o xmppblast xmppblast.c
 *
 *   xmppblast pairs --port P --pairs 10 [--subs 1000] --size 72 --seconds 3 [--window 1000]
 *       N publishers write items to N nodes, each of which S/N clients have subscribed to. A publisher stays at most WINDOW
 *       items ahead of its subscribers; 0 leaves only what TCP and the broker hold it back with.
 *   xmppblast chat  --port P --pairs 10 --size 72 --seconds 3 [--window 1000]
 *       As `pairs`, but messages of type `chat` from one client to the full address of another. --subs is as many as pairs.
 *   xmppblast rtt   --port P [--rate 100] [--size 72]
 *       An open loop on an absolute schedule: from the write of an item to its notification in the same process.
 *   xmppblast idle  --port P --pid BROKER --count 1000
 *       Sessions with one subscription each that do nothing: memory.
 *   xmppblast --selftest --port P
 *       Against a peer of its own that only relays: the tool's ceiling, and that it sees loss, doubles and wrong order.
 *
 * Any mode: --pid BROKER for its CPU and memory, --persistent for nodes that keep their items, --warmup, --drain, --prefix. Without
 * --persistent nodes are made with `persist_items` off and `send_last_published_item` at `never` (with the latter alone at its
 * default ejabberd writes each item to its disk all the same). Where nodes cannot be made so, each publish asks for it
 * (publish-options). All log in by ANONYMOUS to the domain `localhost` without TLS; the service is `pubsub.localhost`. An item is
 * <p xmlns='urn:blast'> with SIZE characters of text, 50 at least: a mark and the message's stamp in hexadecimal digits come
 * first. What a publish is answered with is read, and errors end the run.
 *
 * One thread, batched writes, no allocation per message. Prints one line of JSON; the exit status is 3 when the run is not valid.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

static void put_digits(uint8_t *to, size_t at, const void *from, size_t bytes)
{
    const uint8_t *source = from;
    for (size_t i = 0; i < bytes; i++) {
        to[2 * (at + i)] = "0123456789abcdef"[source[i] >> 4];
        to[2 * (at + i) + 1] = "0123456789abcdef"[source[i] & 15];
    }
}
#define put_stamp put_digits
#include "blast.h"

static const char *tool_name = "xmppblast";

#define MARK "~~"
#define MARK_BYTES (sizeof MARK - 1)
#define TEXT_BYTES_MIN (MARK_BYTES + 2 * STAMP_BYTES)
#define ITEM_END "</p></item></publish>"
#define FORM "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#"
#define FIELD "</value></field><field var='pubsub#"
#define FORM_END "</value></field></x>"
#define PASSING "<publish-options>" FORM "publish-options" FIELD "persist_items'><value>0" FORM_END "</publish-options>"

/* Nodes keep items whatever is asked for, and each publish says that its own is not to be kept. */
static bool asks_each_time;
static uint32_t nodes_made;
/* Messages go from client to client; the addresses of those who get them, in their order. */
static bool is_chat;
#define CHATS_MAX 256
static char chats[CHATS_MAX][512];

static void node_of(char *to, size_t bytes, uint32_t number)
{
    snprintf(to, bytes, "%s-%08x-%u", opt.prefix, run_id, number % opt.pairs);
}

/* ----------------------------------------------------------------------------------------------------------- set-up */

static char answer[16384];

/* Blocks until `end` was read. Octet by octet, so that nothing behind it is taken. */
static void await(struct conn *c, const char *end)
{
    size_t n = strlen(end);
    for (size_t length = 0; length + 1 < sizeof answer;) {
        read_all(c->fd, answer + length++, 1, end);
        answer[length] = 0;
        if (length >= n && memcmp(answer + length - n, end, n) == 0)
            return;
    }
    die("connection %u: no %s in %s", c->number, end, answer);
}

static bool is_refused(void) { return strstr(answer, "error") || strstr(answer, "failure"); }

static void try(struct conn *c, const char *end, const char *format, va_list args)
{
    char text[2048];
    int n = vsnprintf(text, sizeof text, format, args);
    write_all(c->fd, text, (size_t)n);
    await(c, end);
}

/* Whether the answer is no error. */
static bool may(struct conn *c, const char *end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    try(c, end, format, args);
    va_end(args);
    return !is_refused();
}

static void ask(struct conn *c, const char *end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    try(c, end, format, args);
    va_end(args);
    if (is_refused())
        die("connection %u: %s", c->number, answer);
}

static void create(struct conn *c, const char *head, const char *node)
{
    if (!opt.persistent && !asks_each_time) {
        asks_each_time = !may(c, "</iq>",
                              "%s<create node='%s'/><configure>" FORM "node_config" FIELD "publish_model'><value>open" FIELD
                              "persist_items'><value>0" FIELD "send_last_published_item'><value>never" FORM_END
                              "</configure></pubsub></iq>",
                              head, node);
        if (!asks_each_time)
            return;
    }
    ask(c, "type='result'",
        "%s<create node='%s'/><configure>" FORM "node_config" FIELD "publish_model'><value>open" FIELD
        "persist_items'><value>1" FORM_END "</configure></pubsub></iq>",
        head, node);
}

static void proto_open(struct conn *c)
{
    static const char begin[] = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
                                "xmlns:stream='http://etherx.jabber.org/streams'>";
    static const char request[] = "<iq type='set' id='%s' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'>";
    char node[256], jid[512], head[256];
    ask(c, "</stream:features>", begin);
    ask(c, ">", "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>");
    if (!strstr(answer, "/>"))
        await(c, "</success>");
    ask(c, "</stream:features>", begin);
    ask(c, "</iq>", "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
    char *from = strstr(answer, "<jid>"), *to = strstr(answer, "</jid>");
    if (!from || !to || (size_t)(to - from) > sizeof jid)
        die("connection %u: no jid in %s", c->number, answer);
    snprintf(jid, sizeof jid, "%.*s", (int)(to - from - 5), from + 5);
    if (c->is_publisher)
        return;
    if (is_chat) {
        if (opt.pairs > CHATS_MAX)
            die("at most %d pairs can chat", CHATS_MAX);
        memcpy(chats[c->number % opt.pairs], jid, sizeof jid);
        /* An answer says that the presence was taken. */
        ask(c, "</iq>", "<presence/><iq type='get' id='v' to='localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>");
        return;
    }
    node_of(node, sizeof node, c->number);
    if (c->number % opt.pairs == nodes_made) {
        snprintf(head, sizeof head, request, "create");
        create(c, head, node);
        nodes_made++;
    }
    snprintf(head, sizeof head, request, "subscribe");
    ask(c, "</iq>", "%s<subscribe node='%s' jid='%s'/></pubsub></iq>", head, node, jid);
}

static void proto_consume(struct conn *c) { (void)c; }

static void proto_open_idle(struct conn *c) { proto_open(c); }

static uint64_t proto_close(struct conn *c)
{
    static const char end[] = "</stream:stream>";
    write_all(c->fd, end, sizeof end - 1);
    close(c->fd);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- publishing */

static void proto_make_batch(struct conn *c)
{
    char head[600], node[256], end[600];
    if (opt.size < TEXT_BYTES_MIN)
        die("an item needs %zu characters", TEXT_BYTES_MIN);
    node_of(node, sizeof node, c->number);
    size_t n = (size_t)snprintf(head, sizeof head,
                                "<iq type='set' id='p' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'>"
                                "<publish node='%s'><item id='i'><p xmlns='urn:blast'>" MARK, node);
    size_t ends = (size_t)snprintf(end, sizeof end, ITEM_END "%s</pubsub></iq>", asks_each_time ? PASSING : "");
    if (is_chat) {
        n = (size_t)snprintf(head, sizeof head, "<message type='chat' to='%s'><body>" MARK, chats[c->number % opt.pairs]);
        ends = (size_t)snprintf(end, sizeof end, "</body></message>");
    }
    c->stamp_at = n;
    c->message_bytes = n - MARK_BYTES + opt.size + ends;
    c->batch_cap = BATCH_BYTES / c->message_bytes;
    c->batch_cap = c->batch_cap ? c->batch_cap : 1;
    c->batch = zeroed(c->batch_cap, c->message_bytes);
    for (size_t i = 0; i < c->batch_cap; i++) {
        uint8_t *message = c->batch + i * c->message_bytes;
        memcpy(message, head, n);
        memcpy(message + n, filler, opt.size - MARK_BYTES);
        memcpy(message + n - MARK_BYTES + opt.size, end, ends);
    }
}

/* -------------------------------------------------------------------------------------------------------- receiving */

static bool read_digits(uint8_t *to, const uint8_t *from)
{
    for (size_t i = 0; i < 2 * STAMP_BYTES; i++) {
        uint8_t digit = from[i] >= 'a' ? (uint8_t)(from[i] - 'a' + 10) : (uint8_t)(from[i] - '0');
        if (digit > 15)
            return false;
        to[i / 2] = (uint8_t)(i % 2 ? to[i / 2] | digit : digit << 4);
    }
    return true;
}

static size_t proto_parse(struct conn *c, const uint8_t *in, size_t length, uint64_t now)
{
    if (c->is_publisher) {
        if (memmem(in, length, "error", 5))
            die("publisher %u: %.*s", c->number, (int)(length < 500 ? length : 500), (const char *)in);
        return length;
    }
    size_t at = 0;
    const uint8_t *mark;
    while ((mark = memchr(in + at, MARK[0], length - at))) {
        uint8_t stamp[STAMP_BYTES];
        at = (size_t)(mark - in);
        if (length - at < opt.size + 1)
            return at;
        /* The text ends where it should. */
        bool is_whole = in[at + 1] == MARK[1] && read_digits(stamp, mark + MARK_BYTES) && in[at + opt.size] == '<';
        on_message(c, stamp, is_whole ? opt.size : 0, false, now);
        at += opt.size;
    }
    return length;
}

static void proto_after_read(struct conn *c) { (void)c; }

/* ----------------------------------------------------------------------------------------------- the self-test's peer */

static struct {
    char node[64];
    struct conn *subscriber;
} nodes[256];
static int node_count;

static void peer_open(struct conn *c) { (void)c; }

static void peer_answer(struct conn *c, const char *text)
{
    memcpy(room(c, strlen(text)), text, strlen(text));
}

/* The value of `node` in a stanza of ours. */
static void node_in(const uint8_t *stanza, size_t length, char *to, size_t bytes)
{
    const uint8_t *from = memmem(stanza, length, "node='", 6);
    const uint8_t *end = from ? memchr(from + 6, '\'', length - (size_t)(from + 6 - stanza)) : NULL;
    snprintf(to, bytes, "%.*s", end ? (int)(end - from - 6) : 0, from ? (const char *)from + 6 : "");
}

static void peer_publish(const uint8_t *stanza, size_t length)
{
    static const char head[] = "<message><event xmlns='http://jabber.org/protocol/pubsub#event'><items><item><p>";
    static const char end[] = "</p></item></items></event></message>";
    const uint8_t *text = memmem(stanza, length, MARK, MARK_BYTES);
    char node[64];
    int at = 0;
    node_in(stanza, length, node, sizeof node);
    while (strcmp(nodes[at].node, node) != 0)
        if (++at == node_count)
            die("the self-test's peer has no node %s", node);
    struct iovec parts[3] = {{(void *)head, sizeof head - 1}, {(void *)text, opt.size}, {(void *)end, sizeof end - 1}};
    peer_pass(nodes[at].subscriber, parts, 3);
}

static size_t peer_parse(struct conn *c, uint8_t *in, size_t length)
{
    size_t at = 0;
    for (;;) {
        bool is_iq = length - at > 3 && memcmp(in + at, "<iq", 3) == 0;
        const char *end = is_iq ? "</iq>" : ">";
        uint8_t *found = memmem(in + at, length - at, end, strlen(end));
        if (!found)
            return at;
        size_t bytes = (size_t)(found - in) - at + strlen(end);
        uint8_t *stanza = in + at;
        if (!is_iq) {
            peer_answer(c, memmem(stanza, bytes, "<auth", 5)   ? "<success/>"
                           : memmem(stanza, bytes, "</str", 5) ? ""
                                                               : "<stream:stream><stream:features></stream:features>");
        } else if (memmem(stanza, bytes, "<publish", 8)) {
            peer_publish(stanza, bytes);
        } else {
            if (memmem(stanza, bytes, "<subscribe", 10)) {
                node_in(stanza, bytes, nodes[node_count].node, sizeof nodes[0].node);
                nodes[node_count++].subscriber = c;
            }
            peer_answer(c, "<iq type='result'><jid>a@localhost/b</jid></iq>");
        }
        at += bytes;
    }
}

static void peer_after_read(struct conn *c) { (void)c; }

/* ---------------------------------------------------------------------------------------------------------- options */

static void set_mode(const char *mode)
{
    opt.size = 72;
    is_chat = strcmp(mode, "chat") == 0;
    if (strcmp(mode, "rtt") == 0) {
        opt.rate = 100;
        opt.window = 0;
    } else if (!is_chat && strcmp(mode, "pairs") != 0 && strcmp(mode, "idle") != 0) {
        die("unknown mode %s", mode);
    }
}

static void set_case(int number)
{
    opt.mode = "pairs";
    opt.window = 1000;
    opt.pairs = number == 1 ? 1 : 10;
    opt.size = number == 2 ? 1024 : 72;
    opt.rate = 0;
    if (number == 3) {
        opt.pairs = 1;
        set_mode(opt.mode = "rtt");
    }
}

int main(int argc, char **argv)
{
    return blast_main(argc, argv, "usage: xmppblast pairs|chat|rtt|idle --port P [options], xmppblast --selftest --port P\n", set_mode,
                      set_case, 4);
}

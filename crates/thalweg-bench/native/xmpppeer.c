/*
 * xmpppeer - what the laboratory needs of libstrophe: publishers and subscribers of nodes of XEP-0060. The laboratory compiles
 * this file itself: cc -O2 -std=gnu11 -pthread -o xmpppeer xmpppeer.c -lstrophe
 *
 *   xmpppeer version
 *   xmpppeer drive           talks in the lines that drivers/program.rs describes
 *
 * All publishers share one thread and its event loop, all subscribers another. Everyone logs in as an anonymous user without
 * TLS. The library queues without end what it is given: so a publisher stays at most a window ahead of the answers to its
 * publishes, and in a flood of what its subscribers have received, too. Stanzas are written as text, which the library takes,
 * and read as its trees. A payload is text in base64, as XML has no bytes.
 */
#include "peer.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strophe.h>
#include <sys/socket.h>

#define SERVICE "pubsub.localhost"
#define PUBSUB "http://jabber.org/protocol/pubsub"
#define REQUEST "<iq type='set' id='%u' to='" SERVICE "'><pubsub xmlns='" PUBSUB "'>"
#define REQUEST_END "</pubsub></iq>"
#define FIELD(name, value) "<field var='" name "'><value>" value "</value></field>"
/* More would be no faster, and a broker that serves each connection by one process has something for each core. */
#define PUBLISHERS_MAX 8
/* Publishes of QoS 0 without an answer, and bytes of them: what keeps a broker busy, and little enough to wait in it. */
#define WINDOW 1000
#define WINDOW_BYTES (4u << 20)
/* Publishes of a flood that leave together. */
#define GATHERED 32
#define PATIENCE_MS 30000

/* Those who share a thread. Counts of answers are of one thread, too. */
struct loop {
    xmpp_ctx_t *context;
    uint32_t connected, answered, failed;
};

static struct loop publishing, subscribing;
static xmpp_conn_t *publishers[PUBLISHERS_MAX];
static uint32_t publisher_count, window, given, gathered;
static _Atomic uint32_t arrived;
static atomic_bool has_nodes;
static unsigned char *payload;

static void die(const char *what)
{
    printf("fault %s\n", what);
    fflush(stdout);
    _exit(1);
}

static void tune(void)
{
    all.lanes = 1;
    uint32_t fit = WINDOW_BYTES / (all.size_max + 1) + 1;
    window = all.qos ? (uint32_t)number(behind(all.job, "publish"), "window") : fit < WINDOW ? fit : WINDOW;
    if (!(payload = malloc(all.size_max + HEADER)))
        die("memory");
    memset(payload, 'x', all.size_max + HEADER);
}

/* The library tells only whether it is as new as that. */
static int minor_version(void)
{
    int minor = 0;
    while (minor < 99 && !xmpp_version_check(0, minor))
        minor++;
    return minor;
}

static void tell_version(void)
{
    printf("n libstrophe 0.%d\n", minor_version());
}

static int on_answer(xmpp_conn_t *connection, xmpp_stanza_t *stanza, void *of)
{
    (void)connection;
    struct loop *loop = of;
    const char *from = xmpp_stanza_get_from(stanza);
    /* The library shows its own answers, too. */
    if (!from || strcmp(from, SERVICE))
        return 1;
    if (!strcmp(xmpp_stanza_get_type(stanza), "error"))
        loop->failed++;
    loop->answered++;
    return 1;
}

static int on_message(xmpp_conn_t *connection, xmpp_stanza_t *stanza, void *copy)
{
    uint64_t at = now();
    (void)connection;
    xmpp_stanza_t *event = xmpp_stanza_get_child_by_ns(stanza, PUBSUB "#event");
    xmpp_stanza_t *items = event ? xmpp_stanza_get_child_by_name(event, "items") : NULL;
    const char *node = items ? xmpp_stanza_get_attribute(items, "node") : NULL;
    /* The flow is the last level of the topic. */
    const char *level = node ? strrchr(node, '/') : NULL;
    if (!level)
        return 1;
    for (xmpp_stanza_t *item = xmpp_stanza_get_children(items); item; item = xmpp_stanza_get_next(item)) {
        xmpp_stanza_t *data = xmpp_stanza_get_child_by_name(item, "d");
        char *words = data ? xmpp_stanza_get_text(data) : NULL;
        unsigned char *bytes = NULL;
        size_t size = 0;
        if (words)
            xmpp_base64_decode_bin(subscribing.context, words, strlen(words), &bytes, &size);
        if (bytes) {
            came((uint32_t)(uintptr_t)copy, (uint32_t)strtoul(level + 1, NULL, 10), (char *)bytes, size, at);
            if (!copy)
                atomic_fetch_add(&arrived, 1);
        }
        xmpp_free(subscribing.context, bytes);
        xmpp_free(subscribing.context, words);
    }
    return 1;
}

static void on_state(xmpp_conn_t *connection, xmpp_conn_event_t state, int error, xmpp_stream_error_t *why, void *of)
{
    (void)error;
    if (state != XMPP_CONN_CONNECT) {
        if (!atomic_load(&all.stop))
            die(why && why->text ? why->text : "the broker ends the connection");
        return;
    }
    struct loop *loop = of;
    xmpp_handler_add(connection, on_answer, NULL, "iq", NULL, loop);
    xmpp_send_raw_string(connection, "<presence/>");
    loop->connected++;
}

static int at_once(xmpp_conn_t *connection, void *socket)
{
    int one = 1;
    (void)connection;
    return setsockopt(*(int *)socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Looks after everybody until a count has that value. */
static void await(struct loop *loop, const uint32_t *count, uint32_t value, const char *what)
{
    for (uint64_t until = now() + PATIENCE_MS * (NS / 1000); *count < value; xmpp_run_once(loop->context, 10))
        if (now() > until)
            die(what);
}

static void open_all(struct loop *loop, const char *at, xmpp_conn_t **connections, uint32_t count)
{
    char host[64];
    const char *colon = strrchr(at, ':');
    if (!colon)
        wrong("port");
    snprintf(host, sizeof host, "%.*s", (int)(colon - at), at);
    loop->context = xmpp_ctx_new(NULL, NULL);
    for (uint32_t each = 0; each < count; each++) {
        xmpp_conn_t *made = connections[each] = xmpp_conn_new(loop->context);
        xmpp_conn_set_flags(made, XMPP_CONN_FLAG_DISABLE_TLS | XMPP_CONN_FLAG_DISABLE_SM);
        xmpp_conn_set_sockopt_callback(made, at_once);
        /* Without a user: anonymous. */
        xmpp_conn_set_jid(made, "localhost");
        if (xmpp_connect_client(made, host, (unsigned short)strtoul(colon + 1, NULL, 10), on_state, loop) != XMPP_EOK)
            die("no connection");
    }
    await(loop, &loop->connected, count, "no session");
}

static void open_publishers(void)
{
    publisher_count = all.flows < PUBLISHERS_MAX ? all.flows : PUBLISHERS_MAX;
    open_all(&publishing, all.publish_at, publishers, publisher_count);
    for (uint32_t flow = 0; flow < all.flows; flow++)
        xmpp_send_raw_string(publishers[0],
                             REQUEST "<create node='%s'/><configure><x xmlns='jabber:x:data' type='submit'>" FIELD(
                                 "FORM_TYPE", PUBSUB "#node_config") FIELD("pubsub#persist_items", "0")
                                 FIELD("pubsub#send_last_published_item", "never") FIELD("pubsub#publish_model", "open")
                             "</x></configure>" REQUEST_END,
                             flow, all.topics[flow]);
    await(&publishing, &publishing.answered, all.flows, "no nodes");
    /* A node may be there from the trial before, or need not be made; whether it is there subscribers find out. */
    publishing.answered = publishing.failed = 0;
    atomic_store(&has_nodes, true);
}

static void probe(void)
{
    xmpp_run_once(publishing.context, 0);
}

static void subscribe(void)
{
    static xmpp_conn_t *subscribers[COPIES_MAX];
    while (!atomic_load(&has_nodes))
        usleep(1000);
    open_all(&subscribing, all.subscribe_at, subscribers, all.copies);
    for (uint32_t copy = 0; copy < all.copies; copy++) {
        xmpp_handler_add(subscribers[copy], on_message, NULL, "message", NULL, (void *)(uintptr_t)copy);
        for (uint32_t flow = 0; flow < all.flows; flow++)
            xmpp_send_raw_string(subscribers[copy], REQUEST "<subscribe node='%s' jid='%s'/>" REQUEST_END, flow, all.topics[flow],
                                 xmpp_conn_get_bound_jid(subscribers[copy]));
    }
    await(&subscribing, &subscribing.answered, all.copies * all.flows, "no subscriptions");
    if (subscribing.failed)
        die("the broker refuses subscriptions");
    atomic_store(&all.heard, true);
    while (!atomic_load(&all.stop))
        xmpp_run_once(subscribing.context, 20);
}

static bool is_full(void)
{
    uint32_t through = publishing.answered, came = atomic_load(&arrived);
    if (all.load == FLOOD && came < through)
        through = came;
    return given - through >= window;
}

static uint64_t give(uint32_t lane, uint32_t flow, uint32_t seq, uint32_t size, uint64_t tried)
{
    uint64_t at = tried;
    (void)lane;
    for (; is_full(); at = now()) {
        if (atomic_load(&all.stop))
            return 0;
        xmpp_run_once(publishing.context, 1);
    }
    head((char *)payload, flow, seq, size);
    char *words = xmpp_base64_encode(publishing.context, payload, size);
    xmpp_send_raw_string(publishers[flow % publisher_count],
                         REQUEST "<publish node='%s'><item><d xmlns='urn:thalweg:lab'>%s</d></item></publish>" REQUEST_END, given,
                         all.topics[flow], words);
    xmpp_free(publishing.context, words);
    given++;
    if (++gathered == GATHERED)
        flush(lane);
    return at;
}

static void flush(uint32_t lane)
{
    (void)lane;
    gathered = 0;
    xmpp_run_once(publishing.context, 0);
}

static void settle(void)
{
    while (publishing.answered < given && !atomic_load(&all.stop))
        xmpp_run_once(publishing.context, 20);
    if (publishing.failed)
        printf("n the broker refuses %u publishes\n", publishing.failed);
    atomic_store(&all.is_acknowledged, all.qos && !publishing.failed && publishing.answered >= given);
    while (!atomic_load(&all.stop))
        xmpp_run_once(publishing.context, 20);
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "version")) {
        printf("libstrophe 0.%d\n", minor_version());
        return 0;
    }
    xmpp_initialize();
    if (count == 2 && !strcmp(arguments[1], "drive"))
        return drive();
    fprintf(stderr, "usage: xmpppeer version | drive\n");
    return 2;
}

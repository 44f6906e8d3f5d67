/*
 * zmqpeer - what the laboratory needs of libzmq: a proxy, and publishers and subscribers. The laboratory compiles this file
 * itself: cc -O2 -std=gnu11 -pthread -o zmqpeer zmqpeer.c -lzmq
 *
 *   zmqpeer version
 *   zmqpeer proxy HOST:PORT HOST:PORT      publishers connect to the first (XSUB), subscribers to the second (XPUB)
 *   zmqpeer drive                          a PUB socket for each lane, a SUB socket for each copy of it; talks in the lines
 *                                          that drivers/program.rs describes
 *
 * A message is one frame: topic, a zero (a filter is a prefix, and lab/1 is one of lab/10), the payload. A payload begins
 * with its flow and number, or with its number alone below 8 bytes. Full queues block: nothing is dropped on purpose.
 */
#include "peer.h"
#include <zmq.h>

/* Messages that wait at one socket. Bounded, so that a flood stays in memory. */
#define QUEUE 10000
/* Bytes of a flood that wait for all subscribers together: more of them than a slow link carries in time would be a flood that
   ends in the queue. The laboratory's own floods are as far ahead (trial/pump.rs). */
#define FLOOD_BYTES (4 << 20)
#define FLOOD_MIN 10

static void *context, *publisher[LANES_MAX];
static char *frame[LANES_MAX];

static void die(const char *what)
{
    /* In `drive` this line is the trial's record. */
    printf("fault %s: %s\n", what, zmq_strerror(zmq_errno()));
    fflush(stdout);
    fprintf(stderr, "zmqpeer: %s: %s\n", what, zmq_strerror(zmq_errno()));
    _exit(1);
}

static int queue_of(void)
{
    if (all.load != FLOOD)
        return QUEUE;
    size_t most = FLOOD_BYTES / ((size_t)all.size_max * all.copies);
    return most < FLOOD_MIN ? FLOOD_MIN : most < QUEUE ? (int)most : QUEUE;
}

/* A socket that blocks where it would drop. */
static void *opened(void *context, int kind)
{
    void *socket = zmq_socket(context, kind);
    int queue = queue_of(), one = 1, none = 0;
    if (!socket || zmq_setsockopt(socket, ZMQ_SNDHWM, &queue, sizeof queue) ||
        zmq_setsockopt(socket, ZMQ_RCVHWM, &queue, sizeof queue) || zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none))
        die("socket");
    if ((kind == ZMQ_XPUB || kind == ZMQ_PUB) && zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &one, sizeof one))
        die("ZMQ_XPUB_NODROP");
    return socket;
}

static int proxy(const char *publishers, const char *subscribers)
{
    void *context = zmq_ctx_new();
    void *front = opened(context, ZMQ_XSUB), *back = opened(context, ZMQ_XPUB);
    char address[128];
    snprintf(address, sizeof address, "tcp://%s", publishers);
    if (zmq_bind(front, address))
        die(address);
    snprintf(address, sizeof address, "tcp://%s", subscribers);
    if (zmq_bind(back, address))
        die(address);
    zmq_proxy(front, back, NULL);
    die("proxy");
    return 1;
}

static void tune(void)
{
}

static void tell_version(void)
{
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    printf("n libzmq %d.%d.%d\n", major, minor, patch);
}

/* Without a broker publishers are connected to, each at a port of its own. */
static void address_of(char *into, size_t room, const char *at, uint32_t lane)
{
    const char *colon = strrchr(at, ':');
    if (!colon)
        wrong("port");
    unsigned port = (unsigned)strtoul(colon + 1, NULL, 10) + (all.is_peers ? lane : 0);
    snprintf(into, room, "tcp://%.*s:%u", (int)(colon - at), at, port);
}

static void open_publishers(void)
{
    char address[96];
    if (!context)
        context = zmq_ctx_new();
    for (uint32_t lane = 0; lane < all.lanes; lane++) {
        frame[lane] = malloc(TOPIC_MAX + all.size_max + HEADER);
        if (!frame[lane])
            die("memory");
        memset(frame[lane], 'x', TOPIC_MAX + all.size_max + HEADER);
        publisher[lane] = opened(context, ZMQ_PUB);
        address_of(address, sizeof address, all.publish_at, lane);
        if (all.is_peers ? zmq_bind(publisher[lane], address) : zmq_connect(publisher[lane], address))
            die(address);
    }
}

static void probe(void)
{
    for (uint32_t lane = 0; lane < all.lanes; lane++)
        zmq_send(publisher[lane], "probe", 6, ZMQ_DONTWAIT);
}

/* Receives for all copies. */
static void subscribe(void)
{
    void *sockets[COPIES_MAX * LANES_MAX];
    zmq_pollitem_t items[COPIES_MAX * LANES_MAX];
    bool heard[COPIES_MAX * LANES_MAX] = {false};
    uint32_t count = all.copies * all.lanes, silent = count;
    char address[96];
    /* What libzmq does happens where its context was made. */
    void *own = *all.subscribe_space ? zmq_ctx_new() : context;
    for (uint32_t at = 0; at < count; at++) {
        uint32_t lane = at % all.lanes;
        sockets[at] = opened(own, ZMQ_SUB);
        for (uint32_t flow = lane; flow < all.flows; flow += all.lanes)
            if (zmq_setsockopt(sockets[at], ZMQ_SUBSCRIBE, all.topics[flow], strlen(all.topics[flow]) + 1))
                die("subscribe");
        /* The last: if this comes, everything else does, too. */
        zmq_setsockopt(sockets[at], ZMQ_SUBSCRIBE, "probe", 6);
        address_of(address, sizeof address, all.subscribe_at, lane);
        if (zmq_connect(sockets[at], address))
            die(address);
        items[at] = (zmq_pollitem_t){.socket = sockets[at], .events = ZMQ_POLLIN};
    }
    while (!atomic_load(&all.stop)) {
        if (zmq_poll(items, (int)count, 20) < 0)
            die("poll");
        for (uint32_t place = 0; place < count; place++) {
            zmq_msg_t message;
            if (!(items[place].revents & ZMQ_POLLIN))
                continue;
            zmq_msg_init(&message);
            while (zmq_msg_recv(&message, sockets[place], ZMQ_DONTWAIT) >= 0) {
                uint64_t at = now();
                const char *data = zmq_msg_data(&message);
                size_t length = zmq_msg_size(&message);
                const char *zero = memchr(data, 0, length < TOPIC_MAX ? length : TOPIC_MAX);
                if (!zero)
                    continue;
                if (!strcmp(data, "probe")) {
                    if (!heard[place] && !--silent)
                        atomic_store(&all.heard, true);
                    heard[place] = true;
                    continue;
                }
                /* The flow is the last level of the topic. */
                const char *level = strrchr(data, '/');
                uint32_t flow = level ? (uint32_t)strtoul(level + 1, NULL, 10) : 0;
                came(place / all.lanes, flow, zero + 1, length - (size_t)(zero + 1 - data), at);
            }
            if (zmq_errno() != EAGAIN)
                die("receive");
            zmq_msg_close(&message);
        }
    }
    for (uint32_t at = 0; at < count; at++)
        zmq_close(sockets[at]);
}

static uint64_t give(uint32_t lane, uint32_t flow, uint32_t seq, uint32_t size, uint64_t tried)
{
    char *text = frame[lane];
    size_t topic = strlen(all.topics[flow]) + 1;
    memcpy(text, all.topics[flow], topic);
    head(text + topic, flow, seq, size);
    uint64_t at = tried;
    while (zmq_send(publisher[lane], text, topic + size, ZMQ_DONTWAIT) < 0) {
        if (zmq_errno() != EAGAIN)
            die("send");
        if (atomic_load(&all.stop))
            return 0;
        usleep(50);
        at = now();
    }
    return at;
}

static void flush(uint32_t lane)
{
    (void)lane;
}

static void settle(void)
{
}

int main(int count, char **arguments)
{
    int major, minor, patch;
    if (count == 2 && !strcmp(arguments[1], "version")) {
        zmq_version(&major, &minor, &patch);
        printf("libzmq %d.%d.%d\n", major, minor, patch);
        return 0;
    }
    if (count == 4 && !strcmp(arguments[1], "proxy"))
        return proxy(arguments[2], arguments[3]);
    if (count == 2 && !strcmp(arguments[1], "drive")) {
        context = zmq_ctx_new();
        return drive();
    }
    fprintf(stderr, "usage: zmqpeer version | proxy HOST:PORT HOST:PORT | drive\n");
    return 2;
}

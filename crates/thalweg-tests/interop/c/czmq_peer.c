// czmq as a puppet (see ../README.md): a PUB and a SUB socket for each peer, by czmq's own zsock and zmsg.
//
// A command is a line of JSON. What is read of it has no escapes, so a field is found by its name.

#include <czmq.h>

#define PEERS_MAX 64
#define PATIENCE_MS 15000

typedef struct {
    char *name;
    zsock_t *pub, *sub;
    int marks;
} peer_t;

static peer_t peers[PEERS_MAX];
static int peer_count;

// The value of a field, behind its opening quote if it has one; NULL if it is not there.
static const char *field(const char *line, const char *name) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *value = strstr(line, quoted);
    if (!value)
        return NULL;
    value += strlen(quoted);
    return *value == '"' ? value + 1 : value;
}

static char *text(const char *line, const char *name) {
    const char *value = field(line, name);
    return value ? strndup(value, strcspn(value, "\"")) : strdup("");
}

static int digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

// The frame whose hexadecimal digits end at the next quote.
static zframe_t *unhex(const char *digits) {
    size_t size = strcspn(digits, "\"") / 2;
    zframe_t *frame = zframe_new(NULL, size);
    for (size_t at = 0; at < size; at++)
        zframe_data(frame)[at] = (byte) (digit(digits[2 * at]) << 4 | digit(digits[2 * at + 1]));
    return frame;
}

static void prefix(peer_t *peer, int option, const void *bytes, size_t size) {
    if (zmq_setsockopt(zsock_resolve(peer->sub), option, bytes, size) != 0)
        abort();
}

// The next message, unless it is a mark, is an event; the mark it was, or NULL.
static char *hear(peer_t *peer) {
    zmsg_t *message = zmsg_recv(peer->sub);
    zframe_t *frame = zmsg_first(message);
    char *mark = NULL;
    if (zframe_size(frame) >= 6 && memcmp(zframe_data(frame), "$mark/", 6) == 0) {
        mark = zframe_strdup(frame);
    } else {
        printf("{\"event\":\"message\",\"peer\":\"%s\",\"frames\":[", peer->name);
        for (const char *comma = ""; frame; frame = zmsg_next(message), comma = ",") {
            char *digits = zframe_strhex(frame);
            printf("%s\"%s\"", comma, digits);
            free(digits);
        }
        puts("]}");
        fflush(stdout);
    }
    zmsg_destroy(&message);
    return mark;
}

// Waits until what PUB sends reaches SUB: nothing else says that subscriptions are in force.
static const char *meet(peer_t *peer) {
    char *mark = zsys_sprintf("$mark/%s/%d/", peer->name, ++peer->marks);
    prefix(peer, ZMQ_SUBSCRIBE, mark, strlen(mark));
    bool has_met = false;
    for (int64_t end = zclock_mono() + PATIENCE_MS; !has_met && zclock_mono() < end;) {
        zmsg_t *message = zmsg_new();
        zmsg_addstr(message, mark);
        zmsg_addstr(message, "");
        zmsg_send(&message, peer->pub);
        zmq_pollitem_t item = {zsock_resolve(peer->sub), 0, ZMQ_POLLIN, 0};
        if (zmq_poll(&item, 1, 20) > 0) {
            char *heard = hear(peer);
            has_met = heard && strcmp(heard, mark) == 0;
            free(heard);
        }
    }
    prefix(peer, ZMQ_UNSUBSCRIBE, mark, strlen(mark));
    free(mark);
    return has_met ? NULL : "no mark came back";
}

static peer_t *peer_of(const char *name) {
    for (int at = 0; at < peer_count; at++)
        if (peers[at].pub && strcmp(peers[at].name, name) == 0)
            return &peers[at];
    return NULL;
}

static const char *obey(const char *line, const char *verb, const char *name) {
    peer_t *peer = peer_of(name);
    if (strcmp(verb, "connect") == 0) {
        if (peer_count == PEERS_MAX)
            return "too many peers";
        peer = &peers[peer_count++];
        char *host = text(line, "host");
        char *place = zsys_sprintf(">tcp://%s:%d", host, atoi(field(line, "port")));
        peer->name = strdup(name);
        peer->pub = zsock_new_pub(place);
        peer->sub = zsock_new_sub(place, NULL);
        free(place);
        free(host);
        return meet(peer);
    }
    if (!peer)
        return "there is no such peer";
    if (strcmp(verb, "subscribe") == 0) {
        zframe_t *frame = unhex(field(line, "prefix"));
        prefix(peer, ZMQ_SUBSCRIBE, zframe_data(frame), zframe_size(frame));
        zframe_destroy(&frame);
        return meet(peer);
    }
    if (strcmp(verb, "send") == 0) {
        zmsg_t *message = zmsg_new();
        // ["…","…"]
        for (const char *at = field(line, "frames") + 1; *at == '"'; at += *at == ',') {
            zframe_t *frame = unhex(++at);
            zmsg_append(message, &frame);
            at += strcspn(at, "\"") + 1;
        }
        return zmsg_send(&message, peer->pub) == 0 ? NULL : "the message was not sent";
    }
    if (strcmp(verb, "disconnect") == 0) {
        zsock_destroy(&peer->pub);
        zsock_destroy(&peer->sub);
        return NULL;
    }
    return "unknown command";
}

int main(void) {
    char *input = NULL;
    size_t used = 0, room = 0;
    zsys_init();
    puts("{\"event\":\"ready\"}");
    fflush(stdout);
    for (;;) {
        zmq_pollitem_t items[1 + PEERS_MAX] = {{NULL, STDIN_FILENO, ZMQ_POLLIN, 0}};
        peer_t *owners[1 + PEERS_MAX];
        int count = 1;
        for (int at = 0; at < peer_count; at++) {
            if (!peers[at].sub)
                continue;
            owners[count] = &peers[at];
            items[count++] = (zmq_pollitem_t) {zsock_resolve(peers[at].sub), 0, ZMQ_POLLIN, 0};
        }
        if (zmq_poll(items, count, -1) < 0)
            return 1;
        for (int at = 1; at < count; at++)
            if (items[at].revents)
                free(hear(owners[at]));
        if (!items[0].revents)
            continue;
        if (room < used + 65537)
            input = realloc(input, room = 2 * room + 65537);
        ssize_t more = read(STDIN_FILENO, input + used, 65536);
        if (more <= 0)
            return 0;
        used += (size_t) more;
        input[used] = 0;
        for (char *end; (end = memchr(input, '\n', used));) {
            *end = 0;
            char *verb = text(input, "do"), *name = text(input, "peer");
            const char *why = obey(input, verb, name);
            printf("{\"reply\":%d", atoi(field(input, "id")));
            if (why)
                printf(",\"error\":\"%s\"", why);
            puts("}");
            fflush(stdout);
            free(verb);
            free(name);
            used -= (size_t) (end + 1 - input);
            memmove(input, end + 1, used + 1);
        }
    }
}

/*
 * libcoapd - the server that Thalweg's CoAP is measured against: libcoap's own API and nothing else.
 *
 * Build:  cc -O2 -o libcoapd libcoapd.c $(pkg-config --cflags --libs libcoap-3-notls)      (Debian: libcoap3-dev)
 *
 *   libcoapd PORT [non]
 *
 * A PUT on any path makes a resource, stores the payload and notifies its observers, as `coap-server -d` does; GET gives
 * it, with Observe too. Notifications are confirmable; with `non` every fifth is, as libcoap does it. Single-threaded, as
 * libcoap is; epoll inside; no logging; no block-wise transfer, which costs a little and is not measured.
 */
#include <coap3/coap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES 1024

struct value {
    size_t bytes;
    uint8_t payload[VALUE_BYTES];
};

static int notify_flags = COAP_RESOURCE_FLAGS_NOTIFY_CON;

static void on_get(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request, const coap_string_t *query,
                   coap_pdu_t *response)
{
    (void)session;
    (void)request;
    (void)query;
    const struct value *value = coap_resource_get_userdata(resource);
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_CONTENT);
    coap_add_data(response, value->bytes, value->payload);
}

static void on_put(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request, const coap_string_t *query,
                   coap_pdu_t *response)
{
    (void)session;
    (void)query;
    struct value *value = coap_resource_get_userdata(resource);
    size_t bytes = 0;
    const uint8_t *payload = NULL;
    coap_get_data(request, &bytes, &payload);
    value->bytes = bytes < VALUE_BYTES ? bytes : VALUE_BYTES;
    memcpy(value->payload, payload, value->bytes);
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_CHANGED);
    coap_resource_notify_observers(resource, NULL);
}

/* A PUT on a path that is not there yet. */
static void on_new(coap_resource_t *unknown, coap_session_t *session, const coap_pdu_t *request, const coap_string_t *query,
                   coap_pdu_t *response)
{
    (void)unknown;
    coap_string_t *path = coap_get_uri_path(request);
    coap_str_const_t *name = coap_new_str_const(path->s, path->length);
    coap_delete_string(path);
    coap_resource_t *resource = coap_resource_init(name, COAP_RESOURCE_FLAGS_RELEASE_URI | notify_flags);
    coap_resource_set_userdata(resource, calloc(1, sizeof(struct value)));
    coap_register_request_handler(resource, COAP_REQUEST_GET, on_get);
    coap_register_request_handler(resource, COAP_REQUEST_PUT, on_put);
    coap_resource_set_get_observable(resource, 1);
    coap_add_resource(coap_session_get_context(session), resource);
    on_put(resource, session, request, query, response);
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_CREATED);
}

int main(int argc, char **argv)
{
    coap_address_t at;
    if (argc < 2) {
        fputs("usage: libcoapd PORT [non]\n", stderr);
        return 1;
    }
    if (argc > 2 && strcmp(argv[2], "non") == 0)
        notify_flags = COAP_RESOURCE_FLAGS_NOTIFY_NON;
    coap_startup();
    coap_set_log_level(LOG_EMERG);
    coap_address_init(&at);
    at.addr.sin.sin_family = AF_INET;
    at.addr.sin.sin_port = htons((uint16_t)atoi(argv[1]));
    at.addr.sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.size = sizeof at.addr.sin;
    coap_context_t *context = coap_new_context(NULL);
    if (!context || !coap_new_endpoint(context, &at, COAP_PROTO_UDP)) {
        fputs("libcoapd: cannot listen\n", stderr);
        return 1;
    }
    coap_resource_t *unknown = coap_resource_unknown_init(on_new);
    coap_add_resource(context, unknown);
    for (;;)
        if (coap_io_process(context, COAP_IO_WAIT) < 0)
            return 1;
}

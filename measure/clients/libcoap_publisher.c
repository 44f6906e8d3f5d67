/* libcoap: PORT MESSAGES SIZE QOS [UNDER_WAY]. PUT of /speed/1: non-confirmable, or confirmable with so many under way. */
#include <arpa/inet.h>
#include <coap3/coap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* RFC 7252 says one: a publisher waits for each answer before the next message. On a loopback that is also its fastest way:
   its list of what is under way is gone through for every answer. */
static long under_way = 1;

static long settled;

static coap_response_t on_response(coap_session_t *session, const coap_pdu_t *sent, const coap_pdu_t *received,
                                   const coap_mid_t mid) {
    (void)session, (void)sent, (void)received, (void)mid;
    settled++;
    return COAP_RESPONSE_OK;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc != 5 && argc != 6) return fprintf(stderr, "PORT MESSAGES SIZE QOS [UNDER_WAY]\n"), 2;
    if (argc == 6) under_way = atol(argv[5]);
    long messages = atol(argv[2]);
    int size = atoi(argv[3]), qos = atoi(argv[4]);
    uint8_t *payload = malloc(size + 1);
    memset(payload, 'x', size);

    coap_startup();
    coap_set_log_level(LOG_ERR);
    coap_context_t *context = coap_new_context(NULL);
    coap_address_t peer;
    coap_address_init(&peer);
    peer.size = sizeof peer.addr.sin;
    peer.addr.sin.sin_family = AF_INET;
    peer.addr.sin.sin_port = htons(atoi(argv[1]));
    inet_pton(AF_INET, "127.0.0.1", &peer.addr.sin.sin_addr);
    coap_session_t *session = coap_new_client_session(context, NULL, &peer, COAP_PROTO_UDP);
    if (!session) return 1;
    coap_session_set_nstart(session, under_way);
    coap_register_response_handler(context, on_response);

    double begun = now();
    for (long sent = 0; sent < messages;) {
        if (qos && sent - settled >= under_way) {
            coap_io_process(context, COAP_IO_NO_WAIT);
            continue;
        }
        coap_pdu_t *pdu = coap_new_pdu(qos ? COAP_MESSAGE_CON : COAP_MESSAGE_NON, COAP_REQUEST_CODE_PUT, session);
        uint8_t token[2] = {sent >> 8, sent};
        if (qos) coap_add_token(pdu, sizeof token, token);
        coap_add_option(pdu, COAP_OPTION_URI_PATH, 5, (const uint8_t *)"speed");
        coap_add_option(pdu, COAP_OPTION_URI_PATH, 1, (const uint8_t *)"1");
        coap_add_data(pdu, size, payload);
        if (coap_send(session, pdu) == COAP_INVALID_MID) return fprintf(stderr, "refused\n"), 1;
        sent++;
    }
    while (qos && settled < messages && now() - begun < 120) coap_io_process(context, COAP_IO_NO_WAIT);
    double seconds = now() - begun;
    printf("{\"client\":\"libcoap\",\"messages\":%ld,\"seconds\":%f,\"answered\":%ld}\n", messages, seconds, settled);
    coap_session_release(session);
    coap_free_context(context);
    coap_cleanup();
    return 0;
}

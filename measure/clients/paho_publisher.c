/* Eclipse Paho C, asynchronous: PORT MESSAGES SIZE QOS. */
#include <MQTTAsync.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int connected, failed;
static atomic_long settled;

static void on_connect(void *context, MQTTAsync_successData5 *data) { (void)context, (void)data; connected = 1; }
static void on_refusal(void *context, MQTTAsync_failureData5 *data) { (void)context, (void)data; failed = 1; }
static void on_sent(void *context, MQTTAsync_successData5 *data) { (void)context, (void)data; settled++; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "PORT MESSAGES SIZE QOS\n"), 2;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%s", argv[1]);
    long messages = atol(argv[2]);
    int size = atoi(argv[3]), qos = atoi(argv[4]);
    char *payload = malloc(size + 1);
    memset(payload, 'x', size);

    MQTTAsync client;
    MQTTAsync_createOptions create = MQTTAsync_createOptions_initializer5;
    create.maxBufferedMessages = 1000; /* more is slower: its lists are gone through for every answer */
    if (MQTTAsync_createWithOptions(&client, url, "paho", MQTTCLIENT_PERSISTENCE_NONE, NULL, &create)) return 1;
    MQTTAsync_connectOptions options = MQTTAsync_connectOptions_initializer5;
    options.keepAliveInterval = 60;
    options.cleanstart = 1;
    options.maxInflight = 1000;
    options.onSuccess5 = on_connect;
    options.onFailure5 = on_refusal;
    if (MQTTAsync_connect(client, &options)) return 1;
    while (!connected && !failed) usleep(1000);
    if (failed) return 1;

    MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
    /* Each settled publish is counted, as who wants to know what became of it has to. */
    response.onSuccess5 = on_sent;
    response.onFailure5 = on_refusal;
    double begun = now();
    for (long sent = 0; sent < messages;) {
        int said = MQTTAsync_send(client, "speed/1", size, payload, qos, 0, &response);
        if (said == MQTTASYNC_SUCCESS) sent++;
        else if (said == MQTTASYNC_MAX_BUFFERED_MESSAGES || said == MQTTASYNC_NO_MORE_MSGIDS) usleep(100);
        else return fprintf(stderr, "refused: %d\n", said), 1;
    }
    while (settled < messages && !failed) usleep(100);
    double seconds = now() - begun;
    if (failed) return 1;
    MQTTAsync_disconnectOptions goodbye = MQTTAsync_disconnectOptions_initializer5;
    goodbye.timeout = 5000;
    MQTTAsync_disconnect(client, &goodbye);
    while (MQTTAsync_isConnected(client)) usleep(1000);
    MQTTAsync_destroy(&client);
    printf("{\"client\":\"paho-c\",\"messages\":%ld,\"seconds\":%f}\n", messages, seconds);
    return 0;
}

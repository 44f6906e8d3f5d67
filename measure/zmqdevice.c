/*
 * zmqdevice - libzmq's own PULL/PUSH device: what programs push to the first port goes round robin to those that pull
 * from the second.
 *
 * Build:  cc -O3 -march=native -std=gnu11 -Wall -Wextra -o zmqdevice zmqdevice.c -lzmq
 * Run:    zmqdevice PULL_PORT PUSH_PORT
 */
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

static void *bound(void *context, int kind, const char *port)
{
    void *socket = zmq_socket(context, kind);
    int queue = 10000;
    char url[64];
    zmq_setsockopt(socket, ZMQ_SNDHWM, &queue, sizeof queue);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &queue, sizeof queue);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%s", port);
    if (zmq_bind(socket, url) != 0) {
        fprintf(stderr, "zmqdevice: %s: %s\n", url, zmq_strerror(zmq_errno()));
        exit(1);
    }
    return socket;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: zmqdevice PULL_PORT PUSH_PORT\n", stderr);
        return 1;
    }
    void *context = zmq_ctx_new();
    void *in = bound(context, ZMQ_PULL, argv[1]), *out = bound(context, ZMQ_PUSH, argv[2]);
    zmq_proxy(in, out, NULL);
    return 0;
}

/*
 * ddspeer - publishers and subscribers of Eclipse Cyclone DDS, without a broker between. The laboratory compiles this file
 * itself: idlc lab.idl; cc -O2 -std=gnu11 -pthread -o ddspeer ddspeer.c lab.c -lddsc
 *
 *   ddspeer version
 *   ddspeer drive       talks in the lines that drivers/program.rs describes
 *
 * The publishers of a lane are one domain of the library, each of its subscribers is another one, with sockets of their own
 * and the same number on the wire: as if each were a program. QoS 0 is BestEffort, anything else Reliable; both keep all samples.
 */
#include "peer.h"
#include <dds/dds.h>
#include <dds/version.h>
#include "lab.h"

DDS_EXPORT void dds_write_set_batch(bool enable);

/* Samples that are taken at once. */
#define AT_ONCE 64

static dds_entity_t *writers;
static unsigned char *payload[LANES_MAX];
static char configuration[2][2048];
static bool is_batched;
static atomic_bool readers_matched;

static void die(const char *what)
{
    printf("fault %s\n", what);
    fflush(stdout);
    fprintf(stderr, "ddspeer: %s\n", what);
    _exit(1);
}

/* What cannot be is the end of it. */
static dds_return_t good(dds_return_t code, const char *what)
{
    char words[200];
    if (code >= 0)
        return code;
    snprintf(words, sizeof words, "%s: %s", what, dds_strretcode(-code));
    die(words);
    return code;
}

static const char *version(void)
{
    return "Cyclone DDS " DDS_VERSION;
}

static void tell_version(void)
{
    printf("n %s%s\n", version(), is_batched ? ", batching" : "");
}

static dds_qos_t *quality(void)
{
    dds_qos_t *qos = dds_create_qos();
    dds_qset_reliability(qos, all.qos ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT, DDS_SECS(1));
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, DDS_LENGTH_UNLIMITED);
    return qos;
}

/* A participant in a domain of its own, and a topic for each flow of a lane. */
static dds_entity_t participant(dds_domainid_t domain, const char *text, uint32_t lane, dds_entity_t *topics)
{
    good(dds_create_domain(domain, text), "domain");
    dds_entity_t one = good(dds_create_participant(domain, NULL, NULL), "participant");
    for (uint32_t flow = lane; flow < all.flows; flow += all.lanes) {
        char name[TOPIC_MAX + 16];
        /* All trials of a machine may hear each other. */
        snprintf(name, sizeof name, "%s_%llu", all.topics[flow], (unsigned long long)number(all.job, "run"));
        /* Names of topics are letters, digits, _ and / is none of them. */
        for (char *at = name; *at; at++)
            *at = *at == '/' ? '_' : *at;
        topics[flow] = good(dds_create_topic(one, &lab_Message_desc, name, NULL, NULL), "topic");
    }
    return one;
}

static void open_publishers(void)
{
    dds_qos_t *qos = quality();
    dds_entity_t *topics = calloc(all.flows, sizeof *topics);
    writers = calloc(all.flows, sizeof *writers);
    if (!topics || !writers)
        die("memory");
    for (uint32_t lane = 0; lane < all.lanes; lane++) {
        if (!(payload[lane] = malloc(all.size_max + HEADER)))
            die("memory");
        memset(payload[lane], 'x', all.size_max + HEADER);
    }
    for (uint32_t lane = 0; lane < all.lanes; lane++) {
        dds_entity_t one = participant(lane, configuration[0], lane, topics);
        dds_write_set_batch(is_batched);
        for (uint32_t flow = lane; flow < all.flows; flow += all.lanes)
            writers[flow] = good(dds_create_writer(one, topics[flow], qos, NULL), "writer");
    }
    dds_delete_qos(qos);
    free(topics);
}

static void probe(void)
{
    bool are_all = atomic_load(&readers_matched);
    for (uint32_t flow = 0; flow < all.flows && are_all; flow++) {
        dds_publication_matched_status_t status;
        good(dds_get_publication_matched_status(writers[flow], &status), "status");
        are_all = status.current_count == all.copies;
    }
    if (are_all)
        atomic_store(&all.heard, true);
}

/* Receives for all copies. */
static void subscribe(void)
{
    uint32_t count = all.copies * all.flows;
    dds_qos_t *qos = quality();
    dds_entity_t *readers = calloc(count, sizeof *readers), *topics = calloc(all.flows, sizeof *topics);
    dds_attach_t *ready = calloc(count, sizeof *ready);
    if (!readers || !topics || !ready)
        die("memory");
    for (uint32_t at = 0; at < all.copies * all.lanes; at++) {
        uint32_t copy = at / all.lanes, lane = at % all.lanes;
        dds_entity_t one = participant(LANES_MAX + at, configuration[1], lane, topics);
        for (uint32_t flow = lane; flow < all.flows; flow += all.lanes)
            readers[copy * all.flows + flow] = good(dds_create_reader(one, topics[flow], qos, NULL), "reader");
    }
    dds_delete_qos(qos);
    dds_entity_t waiting = good(dds_create_waitset(DDS_CYCLONEDDS_HANDLE), "waitset");
    for (uint32_t at = 0; at < count; at++) {
        good(dds_set_status_mask(readers[at], DDS_DATA_AVAILABLE_STATUS), "status mask");
        good(dds_waitset_attach(waiting, readers[at], (dds_attach_t)at), "attach");
    }
    while (!atomic_load(&all.stop)) {
        if (!atomic_load(&readers_matched)) {
            bool are_all = true;
            for (uint32_t at = 0; at < count && are_all; at++) {
                dds_subscription_matched_status_t status;
                good(dds_get_subscription_matched_status(readers[at], &status), "status");
                are_all = status.current_count > 0;
            }
            atomic_store(&readers_matched, are_all);
        }
        dds_return_t some = good(dds_waitset_wait(waiting, ready, count, DDS_MSECS(20)), "wait");
        for (dds_return_t each = 0; each < some && each < (dds_return_t)count; each++) {
            uint32_t place = (uint32_t)ready[each];
            for (;;) {
                void *samples[AT_ONCE] = {NULL};
                dds_sample_info_t infos[AT_ONCE];
                dds_return_t taken = good(dds_take(readers[place], samples, infos, AT_ONCE, AT_ONCE), "take");
                uint64_t at = now();
                for (dds_return_t one = 0; one < taken; one++) {
                    lab_Message *message = samples[one];
                    if (infos[one].valid_data)
                        came(place / all.flows, place % all.flows, (const char *)message->bytes._buffer,
                             message->bytes._length, at);
                }
                if (taken > 0)
                    dds_return_loan(readers[place], samples, taken);
                if (taken < AT_ONCE)
                    break;
            }
        }
    }
}

static uint64_t give(uint32_t lane, uint32_t flow, uint32_t seq, uint32_t size, uint64_t tried)
{
    lab_Message message = {.bytes = {._maximum = size, ._length = size, ._buffer = payload[lane], ._release = false}};
    head((char *)payload[lane], flow, seq, size);
    for (;;) {
        dds_return_t code = dds_write(writers[flow], &message);
        if (code == DDS_RETCODE_TIMEOUT) {
            /* Subscribers have not acknowledged enough yet. */
            if (atomic_load(&all.stop))
                return 0;
            continue;
        }
        good(code, "write");
        /* Whoever had to wait sent when the waiting was over. */
        uint64_t after = now();
        return after > tried + NS / 1000 ? after : tried;
    }
}

static void flush(uint32_t lane)
{
    for (uint32_t flow = lane; is_batched && flow < all.flows; flow += all.lanes)
        dds_write_flush(writers[flow]);
}

static void settle(void)
{
    bool are_all = all.qos > 0;
    for (uint32_t flow = 0; flow < all.flows && are_all; flow++)
        while ((are_all = dds_wait_for_acks(writers[flow], DDS_MSECS(100)) == 0) == false && !atomic_load(&all.stop))
            ;
    atomic_store(&all.is_acknowledged, are_all);
}

/* What only this library is told. */
static void tune(void)
{
    words(all.job, "configuration_publish", configuration[0], sizeof configuration[0]);
    words(all.job, "configuration_subscribe", configuration[1], sizeof configuration[1]);
    char *settings = behind(all.job, "broker_settings"), *end = settings ? strchr(settings, '}') : NULL;
    char *batch = behind(settings, "batch");
    is_batched = batch && batch < end && !strncmp(batch, "\"true\"", 6);
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "version")) {
        puts(version());
        return 0;
    }
    if (count == 2 && !strcmp(arguments[1], "drive"))
        return drive();
    fprintf(stderr, "usage: ddspeer version | drive\n");
    return 2;
}

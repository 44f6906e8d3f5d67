/*
 * peer.h - what publishers and subscribers in C have in common: the job, the clock, what is sent when, what is told. They talk
 * in the lines that drivers/program.rs describes. Each library brings the few functions that are declared here.
 *
 * A lane is a publisher with a thread of its own: one for all flows, or one for each flow where one sender's large messages
 * must not stand before another's in the program. Subscribers may be in another network namespace than publishers: then there
 * is no broker, and the link is between them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
#define TOPIC_MAX 64
#define HEADER 8
#define COPIES_MAX 64
#define LANES_MAX 8

static void die(const char *what);

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t due)
{
    struct timespec t = {.tv_sec = (time_t)(due / NS), .tv_nsec = (long)(due % NS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* A row of what happened. */
struct row {
    uint32_t copy, flow, seq;
    uint64_t tried, at;
};

/* Rows of one thread, told by another one. */
struct rows {
    struct row *all;
    size_t room;
    _Atomic size_t count;
    size_t told;
    pthread_mutex_t grows;
};

static void add(struct rows *rows, struct row row)
{
    size_t count = atomic_load_explicit(&rows->count, memory_order_relaxed);
    if (count == rows->room) {
        pthread_mutex_lock(&rows->grows);
        rows->room = rows->room ? 2 * rows->room : 1 << 16;
        rows->all = realloc(rows->all, rows->room * sizeof *rows->all);
        pthread_mutex_unlock(&rows->grows);
        if (!rows->all)
            die("memory");
    }
    rows->all[count] = row;
    atomic_store_explicit(&rows->count, count + 1, memory_order_release);
}

static void tell(struct rows *rows, bool is_sent)
{
    size_t count = atomic_load_explicit(&rows->count, memory_order_acquire);
    pthread_mutex_lock(&rows->grows);
    for (; rows->told < count; rows->told++) {
        struct row *row = &rows->all[rows->told];
        if (is_sent)
            printf("s %u %u %llu %llu\n", row->flow, row->seq, (unsigned long long)row->tried, (unsigned long long)row->at);
        else
            printf("r %u %u %u %llu\n", row->copy, row->flow, row->seq, (unsigned long long)row->at);
    }
    pthread_mutex_unlock(&rows->grows);
}


struct item {
    uint64_t offset;
    uint32_t flow, seq, size;
};

static struct {
    char *job;
    char publish_at[64], subscribe_at[64];
    /* Where subscribers are, if elsewhere than publishers. */
    char subscribe_space[256];
    /* Without a broker. */
    bool is_peers;
    char (*topics)[TOPIC_MAX];
    uint32_t flows, copies, lanes, qos;
    struct item *items;
    size_t count;
    uint64_t begin, span, think;
    /* Where there is no schedule. */
    uint32_t *sizes, size_count, size_max;
    enum { OPEN, FLOOD, CLOSED } load;
    struct rows sent[LANES_MAX], got;
    _Atomic uint32_t *through;
    /* Everything that was sent was acknowledged. */
    atomic_bool stop, heard, is_acknowledged;
} all;

/* What a library does. */

/* Reads of the job what only it knows. */
static void tune(void);
/* Name and version. */
static void tell_version(void);
/* In the thread that the rest is called from: opens all publishers. */
static void open_publishers(void);
/* Something that subscribers answer to by setting all.heard. */
static void probe(void);
/* Sends a message of a lane; returns when it was taken, or 0 if that will not be any more. */
static uint64_t give(uint32_t lane, uint32_t flow, uint32_t seq, uint32_t size, uint64_t tried);
/* What is gathered leaves now. */
static void flush(uint32_t lane);
/* In the thread of subscribers, until all.stop: came(), and all.heard. */
static void subscribe(void);
/* Before the end; sets all.is_acknowledged. */
static void settle(void);

static void wrong(const char *what)
{
    printf("fault the job has no %s\n", what);
    fflush(stdout);
    exit(1);
}

/* What follows a key in compact JSON, from `from` on. The job is ours: its shape is known. */
static char *behind(char *from, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    char *found = from ? strstr(from, pattern) : NULL;
    return found ? found + strlen(pattern) : NULL;
}

static uint64_t number(char *from, const char *key)
{
    char *text = behind(from, key);
    if (!text)
        wrong(key);
    return strtoull(text, NULL, 10);
}

static void words(char *from, const char *key, char *into, size_t room)
{
    char *text = behind(from, key), *end = text ? strchr(text + 1, '"') : NULL;
    if (!end || *text != '"' || (size_t)(end - text) > room)
        wrong(key);
    memcpy(into, text + 1, (size_t)(end - text - 1));
    into[end - text - 1] = 0;
}

static void read_job(void)
{
    size_t room = 0;
    if (getline(&all.job, &room, stdin) < 0)
        wrong("line");
    words(all.job, "publish_at", all.publish_at, sizeof all.publish_at);
    words(all.job, "subscribe_at", all.subscribe_at, sizeof all.subscribe_at);
    char *system = behind(all.job, "system");
    all.is_peers = system && !strncmp(system, "\"zmq-peers\"", 11);
    if (behind(all.job, "subscribe_space") && *behind(all.job, "subscribe_space") == '"')
        words(all.job, "subscribe_space", all.subscribe_space, sizeof all.subscribe_space);
    all.copies = (uint32_t)number(all.job, "fan_out");
    if (all.copies < 1 || all.copies > COPIES_MAX)
        wrong("fan-out from 1 to 64");
    char *load = behind(all.job, "load");
    all.load = load && !strncmp(load, "{\"flood\"", 8) ? FLOOD : load && !strncmp(load, "{\"closed\"", 9) ? CLOSED : OPEN;
    if (all.load == CLOSED)
        all.think = number(load, "think_ns");
    all.qos = (uint32_t)number(behind(all.job, "publish"), "qos");
    char *phases = behind(all.job, "phases");
    all.span = number(phases, "warmup_ns") + number(phases, "measure_ns");

    char *at = behind(all.job, "topics"), *close = at ? strchr(at, ']') : NULL;
    for (; close && (at = strchr(at, '"')) && at < close; all.flows++) {
        char *end = strchr(at + 1, '"');
        all.topics = realloc(all.topics, (all.flows + 1) * sizeof *all.topics);
        if (!all.topics || !end || end - at > TOPIC_MAX)
            wrong("topics");
        memcpy(all.topics[all.flows], at + 1, (size_t)(end - at - 1));
        all.topics[all.flows][end - at - 1] = 0;
        at = end + 1;
    }
    if (!all.flows)
        wrong("topics");
    all.through = calloc(all.flows, sizeof *all.through);
    /* Neighbours are programs of their own, as far as one program can be two. */
    char *workload = behind(all.job, "workload");
    all.lanes = workload && !strncmp(workload, "{\"beside\"", 9) && all.flows <= LANES_MAX ? all.flows : 1;

    char path[4096];
    words(all.job, "schedule", path, sizeof path);
    FILE *file = fopen(path, "r");
    if (!file)
        wrong("schedule");
    struct item item;
    unsigned long long offset;
    for (size_t more = 0; fscanf(file, "%llu,%u,%u,%u", &offset, &item.flow, &item.seq, &item.size) == 4;) {
        item.offset = offset;
        if (all.count == more) {
            more = more ? 2 * more : 1 << 12;
            all.items = realloc(all.items, more * sizeof *all.items);
        }
        if (!all.items || item.flow >= all.flows)
            wrong("schedule");
        all.items[all.count++] = item;
        all.size_max = item.size > all.size_max ? item.size : all.size_max;
    }
    fclose(file);
    words(all.job, "sizes", path, sizeof path);
    if (!(file = fopen(path, "r")))
        wrong("sizes");
    for (uint32_t size, more = 0; fscanf(file, "%u", &size) == 1;) {
        if (all.size_count == more) {
            more = more ? 2 * more : 1 << 6;
            all.sizes = realloc(all.sizes, more * sizeof *all.sizes);
        }
        if (!all.sizes)
            wrong("sizes");
        all.sizes[all.size_count++] = size;
        all.size_max = size > all.size_max ? size : all.size_max;
    }
    fclose(file);
    if (!all.size_count)
        wrong("sizes");
}

/* Flows begin at places of their own of one list. */
static uint32_t size_of(uint32_t flow, uint32_t seq)
{
    return all.sizes[(7919u * flow + seq) % all.size_count];
}

/* A message came to a subscriber. */
static void came(uint32_t copy, uint32_t flow, const char *payload, size_t size, uint64_t at)
{
    uint32_t seq = 0;
    if (size < 4 || flow >= all.flows)
        return;
    memcpy(&seq, payload + (size >= HEADER ? 4 : 0), 4);
    add(&all.got, (struct row){copy, flow, seq, 0, at});
    if (!copy)
        atomic_fetch_add(&all.through[flow], 1);
}

/* What a payload begins with: flow and number, or the number alone below 8 bytes. */
static void head(char *payload, uint32_t flow, uint32_t seq, uint32_t size)
{
    if (size >= HEADER) {
        memcpy(payload, &flow, 4);
        memcpy(payload + 4, &seq, 4);
    } else {
        memcpy(payload, &seq, 4);
    }
}

/* This thread, and those that it starts, are in that network namespace from now on. */
static void enter(const char *space)
{
    if (!*space)
        return;
    int file = open(space, O_RDONLY | O_CLOEXEC);
    if (file < 0 || setns(file, CLONE_NEWNET))
        die(space);
    close(file);
}

static void *take(void *nothing)
{
    enter(all.subscribe_space);
    subscribe();
    return nothing;
}

/* Tells what has happened, ten times a second. */
static void tell_all(void)
{
    for (uint32_t lane = 0; lane < all.lanes; lane++)
        tell(&all.sent[lane], true);
    tell(&all.got, false);
    fflush(stdout);
}

static void *report(void *nothing)
{
    while (!atomic_load(&all.stop)) {
        tell_all();
        usleep(100000);
    }
    return nothing;
}

static void *listen_for_end(void *nothing)
{
    char line[64];
    /* `end`, or the end of input. */
    if (!fgets(line, sizeof line, stdin))
        line[0] = 0;
    atomic_store(&all.stop, true);
    return nothing;
}

static void give_one(uint32_t lane, uint32_t flow, uint32_t seq, uint32_t size)
{
    uint64_t tried = now(), at = give(lane, flow, seq, size, tried);
    if (at)
        add(&all.sent[lane], (struct row){0, flow, seq, tried, at});
}

static void *publish(void *number)
{
    uint32_t lane = (uint32_t)(uintptr_t)number;
    uint64_t end = all.begin + all.span;
    if (all.load == OPEN) {
        for (size_t at = 0; at < all.count && !atomic_load(&all.stop); at++) {
            struct item *item = &all.items[at];
            uint64_t due = all.begin + item->offset, time;
            if (item->flow % all.lanes != lane)
                continue;
            if (now() < due)
                flush(lane);
            /* In steps, so that the end is heard. */
            while ((time = now()) < due && !atomic_load(&all.stop))
                sleep_until(due - time > NS / 20 ? time + NS / 50 : due);
            if (!atomic_load(&all.stop))
                give_one(lane, item->flow, item->seq, item->size);
        }
        flush(lane);
        return NULL;
    }
    uint32_t *seqs = calloc(all.flows, sizeof *seqs);
    uint64_t *due = calloc(all.flows, sizeof *due);
    if (!seqs || !due)
        die("memory");
    sleep_until(all.begin);
    while (now() < end && !atomic_load(&all.stop)) {
        bool has_sent = false;
        for (uint32_t flow = lane; flow < all.flows; flow += all.lanes) {
            if (all.load == CLOSED) {
                /* A flow goes on when its message has come, after a pause. */
                if (atomic_load(&all.through[flow]) < seqs[flow])
                    continue;
                if (seqs[flow] && !due[flow])
                    due[flow] = now() + all.think;
                if (due[flow] > now())
                    continue;
                due[flow] = 0;
            }
            give_one(lane, flow, seqs[flow], size_of(flow, seqs[flow]));
            seqs[flow]++;
            has_sent = true;
        }
        if (all.load == CLOSED)
            flush(lane);
        if (!has_sent)
            usleep(20);
    }
    flush(lane);
    free(seqs);
    free(due);
    return NULL;
}

static int drive(void)
{
    pthread_t subscribers, reporter, listener, publishers[LANES_MAX];
    char line[64];
    read_job();
    tune();
    tell_version();
    if (!all.through)
        die("memory");
    pthread_mutex_init(&all.got.grows, NULL);
    for (uint32_t lane = 0; lane < all.lanes; lane++)
        pthread_mutex_init(&all.sent[lane].grows, NULL);
    pthread_create(&subscribers, NULL, take, NULL);
    open_publishers();
    /* A publisher does not know when its subscribers are known to it: it asks until they hear. */
    for (uint64_t patience = now() + 30 * NS; !atomic_load(&all.heard); usleep(5000)) {
        probe();
        if (now() > patience) {
            printf("fault no subscription\n");
            fflush(stdout);
            return 1;
        }
    }
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || strncmp(line, "begin ", 6))
        return 1;
    all.begin = strtoull(line + 6, NULL, 10);
    pthread_create(&listener, NULL, listen_for_end, NULL);
    pthread_create(&reporter, NULL, report, NULL);
    for (uint32_t lane = 0; lane < all.lanes; lane++)
        pthread_create(&publishers[lane], NULL, publish, (void *)(uintptr_t)lane);
    for (uint32_t lane = 0; lane < all.lanes; lane++)
        pthread_join(publishers[lane], NULL);
    settle();
    pthread_join(subscribers, NULL);
    pthread_join(reporter, NULL);
    tell_all();
    if (atomic_load(&all.is_acknowledged))
        for (uint32_t lane = 0; lane < all.lanes; lane++)
            for (size_t at = 0; at < all.sent[lane].count; at++)
                printf("a %u %u\n", all.sent[lane].all[at].flow, all.sent[lane].all[at].seq);
    printf("end\n");
    fflush(stdout);
    /* Threads of a library that do not end are not waited for. */
    _exit(0);
}

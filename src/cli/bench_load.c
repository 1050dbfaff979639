/* bench_load.c - the measurements of `outbox bench`. Clients are threads with a connection each; the relay is a process of its own. */
#include "cli/bench.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 200000, BACKLOG = 2000, CHUNK = 500, CLIENTS_MOST = 64, PATIENCE_S = 60 };

static const char payload[] =
    "{\"order\": 4711, \"customer\": \"8f14e45f-ceea-467a-9575-6f0a1b2c3d4e\", \"total\": \"149.90\", "
    "\"currency\": \"EUR\", \"items\": [{\"sku\": \"A-100\", \"n\": 2}, {\"sku\": \"B-200\", \"n\": 1}]}";

/* ---- samples ---- */

struct samples {
    double *ms;
    size_t count;
};

static void sample(struct samples *samples, double ms)
{
    if (samples->ms && samples->count < SAMPLES)
        samples->ms[samples->count++] = ms;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(struct samples *samples, double part)
{
    if (!samples->count)
        return 0;
    qsort(samples->ms, samples->count, sizeof *samples->ms, by_size);
    return samples->ms[(size_t)((double)(samples->count - 1) * part)];
}

static void pause_us(int64_t us)
{
    struct timespec wait = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&wait, NULL);
}

/* ---- clients ---- */

struct client {
    pthread_t thread;
    bool started;
    const struct ob_bench *bench;
    int64_t until_us, done;
    struct samples commits;
    enum outbox_code code;
    struct outbox_error err;
};

static struct outbox_message message(void)
{
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    msg.topic = "bench";
    msg.payload = payload;
    msg.payload_len = sizeof payload - 1;
    return msg;
}

static enum outbox_code put_one(struct ob_store *store, struct samples *commits, struct outbox_error *err)
{
    struct outbox_message msg = message();
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    enum outbox_code code = store->ops->begin(store, err);
    if (!code)
        code = store->ops->enqueue(store, &msg, &receipt, err);
    int64_t begun = ob_clock_mono_us();
    if (!code)
        code = store->ops->commit(store, err);
    sample(commits, (double)(ob_clock_mono_us() - begun) / 1000);
    return code;
}

static void *run_client(void *ctx)
{
    struct client *client = ctx;
    struct ob_store *store = NULL;
    client->code = ob_store_open(client->bench->scratch.url, &client->bench->scratch.open, &store, &client->err);
    while (!client->code && !ob_bench_stopped() && ob_clock_mono_us() < client->until_us) {
        client->code = put_one(store, &client->commits, &client->err);
        client->done += !client->code;
    }
    if (store)
        store->ops->close(store);
    return NULL;
}

/* Messages a second of so many clients. */
static enum outbox_code run_clients(struct ob_bench *bench, int count, struct samples *commits, double *rate,
                                    struct outbox_error *err)
{
    struct client clients[CLIENTS_MOST] = {0};
    enum outbox_code code = OUTBOX_OK;
    int64_t begun = ob_clock_mono_us(), done = 0;
    for (int i = 0; i < count; i++) {
        clients[i] = (struct client){.bench = bench, .until_us = begun + (int64_t)bench->seconds * 1000000 / 4};
        if (i == 0 && commits)
            clients[i].commits = *commits;
        clients[i].started = pthread_create(&clients[i].thread, NULL, run_client, &clients[i]) == 0;
    }
    for (int i = 0; i < count; i++) {
        if (!clients[i].started)
            continue;
        pthread_join(clients[i].thread, NULL);
        done += clients[i].done;
        if (clients[i].code && !code) {
            code = clients[i].code;
            *err = clients[i].err;
        }
    }
    if (commits)
        *commits = clients[0].commits;
    *rate = (double)done * 1e6 / (double)(ob_clock_mono_us() - begun + 1);
    bench->enqueued += done;
    return code;
}

enum outbox_code ob_bench_enqueue(struct ob_bench *bench, int clients, struct outbox_error *err)
{
    struct samples commits = {.ms = ob_calloc(SAMPLES, sizeof(double))};
    int64_t before = 0, after = 0;
    if (!commits.ms)
        return ob_error_nomem(err);
    enum outbox_code code = run_clients(bench, 1, &commits, &bench->enqueue_1, err);
    bench->commit_p50 = quantile(&commits, 0.5);
    bench->commit_p99 = quantile(&commits, 0.99);
    ob_free(commits.ms);
    int64_t so_far = bench->enqueued;
    if (!code)
        code = ob_scratch_bytes(&bench->scratch, &before, err);
    if (!code && !ob_bench_stopped())
        code = run_clients(bench, clients, NULL, &bench->enqueue_8, err);
    if (!code)
        code = ob_scratch_bytes(&bench->scratch, &after, err);
    if (!code && bench->enqueued > so_far && after > before) /* a log that began anew may have shrunk */
        bench->bytes_per_message = (double)(after - before) / (double)(bench->enqueued - so_far);
    return code;
}

/* ---- the relay ---- */

/* Its configuration has no store: the environment names it, with whatever password there is. */
struct relay {
    char config[64];
    pid_t pid;
};

static enum outbox_code start_relay(const struct ob_bench *bench, bool until_empty, struct relay *relay,
                                    struct outbox_error *err)
{
    static const char text[] = "sinks: {bench: {kind: \"null\"}}\nroutes: [{sink: bench}]\n";
    char name[] = "outbox", run[] = "run", option[] = "--config", end[] = "--until-empty";
    char *const words[] = {name, run, option, relay->config, until_empty ? end : NULL, NULL};
    posix_spawn_file_actions_t files;
    snprintf(relay->config, sizeof relay->config, "/tmp/outbox-bench-XXXXXX");
    int fd = mkostemp(relay->config, O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1;
    if (fd >= 0)
        close(fd);
    int failed = written ? 0 : errno;
    setenv("OUTBOX_STORE", bench->scratch.url, 1);
    if (!bench->file)
        setenv("OUTBOX_SCHEMA", bench->scratch.schema, 1);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!failed)
        failed = posix_spawn(&relay->pid, "/proc/self/exe", &files, NULL, words, environ);
    posix_spawn_file_actions_destroy(&files);
    return failed ? ob_error_set(err, OUTBOX_INTERNAL, "the relay of the benchmark cannot be started: %s",
                                 strerror(failed))
                  : OUTBOX_OK;
}

/* Waits until it ends; asks it to when the time is over or a signal came. */
static int end_relay(struct relay *relay, bool now, int64_t until_us)
{
    int status = -1, asked = 0;
    while (relay->pid > 0) {
        pid_t ended = waitpid(relay->pid, &status, WNOHANG);
        if (ended == relay->pid || (ended < 0 && errno != EINTR))
            break;
        if (now || ob_bench_stopped() || ob_clock_mono_us() > until_us)
            kill(relay->pid, asked++ < 1000 ? SIGTERM : SIGKILL);
        pause_us(10000);
    }
    relay->pid = 0;
    if (*relay->config)
        unlink(relay->config);
    return status;
}

static enum outbox_code fill(struct ob_bench *bench, struct ob_store *store, struct outbox_error *err)
{
    struct outbox_message messages[CHUNK];
    struct outbox_receipt receipts[CHUNK];
    enum outbox_code code = OUTBOX_OK;
    for (int i = 0; i < CHUNK; i++) {
        messages[i] = message();
        receipts[i] = (struct outbox_receipt)OUTBOX_RECEIPT_INIT;
    }
    while (!code && bench->enqueued < BACKLOG && !ob_bench_stopped()) {
        code = store->ops->enqueue_many(store, messages, CHUNK, receipts, err);
        bench->enqueued += CHUNK;
    }
    return code;
}

struct deliveries {
    int64_t count, first_us, last_us;
    struct samples latencies;
};

static void count_delivery(void *ctx, const struct ob_transition_row *row)
{
    struct deliveries *seen = ctx;
    if (row->kind != OB_TRANSITION_ATTEMPT || row->outcome != OUTBOX_DELIVERED)
        return;
    seen->count++;
    if (!seen->first_us || row->at_us < seen->first_us)
        seen->first_us = row->at_us;
    if (row->at_us > seen->last_us)
        seen->last_us = row->at_us;
    sample(&seen->latencies, (double)(row->at_us - row->created_at_us) / 1000);
}

static enum outbox_code see(struct ob_store *store, struct ob_tail *tail, struct deliveries *seen,
                            struct outbox_error *err)
{
    enum outbox_code code = OUTBOX_OK;
    for (bool more = true; !code && more && !ob_bench_stopped();)
        code = store->ops->tail(store, tail, NULL, count_delivery, seen, &more, err);
    return code;
}

enum outbox_code ob_bench_drain(struct ob_bench *bench, struct outbox_error *err)
{
    struct ob_store *store = NULL;
    struct ob_tail *tail = NULL;
    struct relay relay = {0};
    struct deliveries seen = {0};
    enum outbox_code code = ob_store_open(bench->scratch.url, &bench->scratch.open, &store, err);
    if (!code)
        code = fill(bench, store, err);
    if (!code)
        code = store->ops->tail_begin(store, 0, &tail, err);
    if (!code)
        code = start_relay(bench, true, &relay, err);
    int64_t share = (int64_t)bench->seconds * 1000000 / 4;
    if (relay.pid > 0)
        end_relay(&relay, false,
                  ob_clock_mono_us() + (share > 2000000 ? share : 2000000)); /* it may need a second to start */
    if (!code)
        code = see(store, tail, &seen, err);
    bench->drained = seen.count;
    if (seen.last_us > seen.first_us)
        bench->drain = (double)seen.count * 1e6 / (double)(seen.last_us - seen.first_us);
    ob_tail_free(tail);
    if (store)
        store->ops->close(store);
    return code;
}

enum outbox_code ob_bench_latency(struct ob_bench *bench, int rate, struct outbox_error *err)
{
    struct ob_store *store = NULL;
    struct ob_tail *tail = NULL;
    struct relay relay = {0};
    struct samples unused = {0};
    struct deliveries seen = {.latencies = {.ms = ob_calloc(SAMPLES, sizeof(double))}};
    int64_t sent = 0, share = (int64_t)bench->seconds * 1000000 / 4;
    enum outbox_code code = ob_store_open(bench->scratch.url, &bench->scratch.open, &store, err);
    if (!code)
        code = start_relay(bench, false, &relay, err);
    /* It first delivers what an unfinished drain has left, and this one message: then it is there. */
    if (!code)
        code = store->ops->tail_begin(store, 0, &tail, err);
    if (!code)
        code = put_one(store, &unused, err);
    int64_t patience = ob_clock_mono_us() + (int64_t)PATIENCE_S * 1000000;
    for (int64_t before = -1;
         !code && !ob_bench_stopped() && (seen.count == 0 || seen.count > before) && ob_clock_mono_us() < patience;) {
        before = seen.count;
        pause_us(500000);
        code = see(store, tail, &seen, err);
    }
    seen.count = 0;
    seen.latencies.count = 0;
    for (int64_t begun = ob_clock_mono_us(); !code && !ob_bench_stopped() && ob_clock_mono_us() < begun + share;
         sent++) {
        pause_us(begun + sent * 1000000 / rate - ob_clock_mono_us());
        code = put_one(store, &unused, err);
    }
    if (!code)
        pause_us(500000);
    if (!code)
        code = see(store, tail, &seen, err);
    if (relay.pid > 0)
        end_relay(&relay, true, 0);
    bench->latency_p50 = quantile(&seen.latencies, 0.5);
    bench->latency_p99 = quantile(&seen.latencies, 0.99);
    ob_free(seen.latencies.ms);
    ob_tail_free(tail);
    if (store)
        store->ops->close(store);
    return code;
}

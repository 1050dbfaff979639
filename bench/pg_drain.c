/* pg_drain.c - takes and settles batches until --count messages are through, by one process or several.
 *
 * Every worker is a process with a connection of its own. Each takes two batches before the clock starts, so that plans
 * are made and caches warm; then all start together. Workers share nothing but a counter. */
#include "pg_bench.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_BATCHES = 2, STALL_SECONDS = 20 };

struct part {
    int count;
    double seconds, cpu;
};

struct report {
    int count, calls, empty, part_count;
    double started, ended, take, settle, take_cpu, settle_cpu, cpu;
    struct part parts[PARTS_MAX];
};

struct shared {
    atomic_int ready, go, taken;
    struct report reports[WORKERS_MAX];
};

/* Adds what has passed since the last lap to wall and cpu; wall may be NULL. */
static void lap(const struct side *side, double last[2], double *wall, double *cpu)
{
    double now[2] = {seconds_now(), side_cpu(side)};
    if (wall) {
        *wall += now[0] - last[0];
        *cpu += now[1] - last[1];
    }
    last[0] = now[0];
    last[1] = now[1];
}

/* One batch, or none; returns how many. With one_tx, what the last step took is settled in the transaction that takes
 * the next. */
static int step(struct side *side, bool one_tx, struct report *report)
{
    double last[2];
    int got;
    lap(side, last, NULL, NULL);
    if (one_tx) {
        side->ops->begin(side);
        side->ops->settle(side);
        lap(side, last, &report->settle, &report->settle_cpu);
        got = side->ops->take(side);
        side->ops->commit(side);
        lap(side, last, &report->take, &report->take_cpu);
    } else {
        got = side->ops->take(side);
        lap(side, last, &report->take, &report->take_cpu);
        if (got > 0)
            side->ops->settle(side);
        lap(side, last, &report->settle, &report->settle_cpu);
    }
    return got;
}

static void drain(struct side *side, const struct bench_options *options, struct shared *shared, struct report *report)
{
    double last = seconds_now(), part_start = last, part_cpu = side_cpu(side);
    int part_taken = 0, per_part = options->count / options->parts;
    report->started = last;
    report->cpu = -part_cpu;
    while (atomic_load(&shared->taken) < options->count) {
        int got = step(side, options->one_tx, report);
        report->calls++;
        double now = seconds_now();
        if (got == 0) {
            report->empty++;
            if (now - last > STALL_SECONDS)
                die("drain", "nothing came for 20 s, though messages are left");
            usleep(1000); /* others hold what is left */
            continue;
        }
        last = now;
        report->count += got;
        atomic_fetch_add(&shared->taken, got);
        if (report->part_count < options->parts && report->count >= (report->part_count + 1) * per_part) {
            double cpu = side_cpu(side);
            report->parts[report->part_count++] =
                (struct part){report->count - part_taken, now - part_start, cpu - part_cpu};
            part_taken = report->count;
            part_start = now;
            part_cpu = cpu;
        }
    }
    side->ops->settle(side); /* of --one-tx */
    report->ended = seconds_now();
    report->cpu += side_cpu(side);
}

static void work(const struct bench_options *options, struct shared *shared, struct report *report)
{
    const struct side_ops *ops = side_find(options->side);
    struct side *side = ops->open(options);
    side->ops = ops;
    struct report warm = {0};
    for (int i = 0; i < WARM_BATCHES; i++)
        step(side, false, &warm);
    if (side->application)
        side->backend_count = backends_of(options->places[0], side->application, side->backends, BACKENDS_MAX);
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go))
        usleep(100);
    drain(side, options, shared, report);
    ops->close(side);
}

static void print(const struct bench_options *options, const struct shared *shared)
{
    struct report sum = shared->reports[0];
    for (int i = 1; i < options->workers; i++) {
        const struct report *one = &shared->reports[i];
        sum.count += one->count;
        sum.calls += one->calls;
        sum.empty += one->empty;
        sum.take += one->take;
        sum.settle += one->settle;
        sum.take_cpu += one->take_cpu;
        sum.settle_cpu += one->settle_cpu;
        sum.cpu += one->cpu;
        sum.started = one->started < sum.started ? one->started : sum.started;
        sum.ended = one->ended > sum.ended ? one->ended : sum.ended;
    }
    printf("{\"count\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"claim_seconds\": %.6f, "
           "\"settle_seconds\": %.6f, \"claim_cpu_seconds\": %.6f, \"settle_cpu_seconds\": %.6f, \"calls\": %d, "
           "\"empty\": %d, \"parts\": [",
           sum.count, sum.ended - sum.started, sum.cpu, sum.take, sum.settle, sum.take_cpu, sum.settle_cpu, sum.calls,
           sum.empty);
    for (int i = 0; i < sum.part_count; i++)
        printf("%s{\"count\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f}", i ? ", " : "", sum.parts[i].count,
               sum.parts[i].seconds, sum.parts[i].cpu);
    printf("]}\n");
}

void command_drain(const struct bench_options *options)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* zeroed */
    if (shared == MAP_FAILED)
        die("mmap", "failed");
    for (int i = 0; i < options->workers; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork", "failed");
        if (pid == 0) {
            work(options, shared, &shared->reports[i]);
            exit(0);
        }
    }
    bool failed = false;
    for (int left = options->workers; left > 0;) {
        int status;
        if (!atomic_load(&shared->go) && atomic_load(&shared->ready) == options->workers)
            atomic_store(&shared->go, 1);
        pid_t pid = waitpid(-1, &status, atomic_load(&shared->go) ? 0 : WNOHANG);
        if (pid == 0)
            usleep(100);
        if (pid > 0) {
            left--;
            failed |= status != 0;
            atomic_fetch_add(&shared->ready, status != 0); /* the others must not wait for one that died */
        }
    }
    if (failed)
        exit(1);
    print(options, shared);
    munmap(shared, sizeof *shared);
}

/* bench.h - what the files of `outbox bench` share. */
#ifndef OB_CLI_BENCH_H
#define OB_CLI_BENCH_H

#include "cli/cli.h"
#include "lib/scratch.h"

enum { OB_BENCH_ADVICE = 8 };

struct ob_bench {
    struct ob_scratch scratch;
    int seconds;                                             /* for all measurements together */
    bool file;                                               /* SQLite */
    double enqueue_1, enqueue_8, drain;                      /* messages a second */
    double commit_p50, commit_p99, latency_p50, latency_p99; /* ms */
    double bytes_per_message;
    int64_t enqueued, drained;
    char advice[OB_BENCH_ADVICE][320];
    int advice_count;
};

bool ob_bench_stopped(void); /* by a signal */

/* Enqueues from one client and from several, a message a transaction. */
enum outbox_code ob_bench_enqueue(struct ob_bench *bench, int clients, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Lets a relay deliver what was enqueued. */
enum outbox_code ob_bench_drain(struct ob_bench *bench, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Enqueues at a moderate rate beside a running relay, and sees how long each message takes. */
enum outbox_code ob_bench_latency(struct ob_bench *bench, int rate, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif

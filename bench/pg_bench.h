/* pg_bench.h - what the parts of pg_bench share. Everything here gives up with a message on the first error: a figure
 * taken after a failure is worth nothing. */
#ifndef PG_BENCH_H
#define PG_BENCH_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PLACES_MAX = 4, WORKERS_MAX = 64, PARTS_MAX = 16, BACKENDS_MAX = 4, PAYLOAD = 200 };

struct bench_options {
    const char *places[PLACES_MAX]; /* conninfos; most commands use the first */
    int place_count;
    const char *side; /* log, queue, floor */
    int count;        /* messages, or calls */
    int batch;
    int run; /* of one key at once; 1: the head only */
    int workers;
    int parts; /* drain: report so many equal parts */
    int keys;  /* enqueue: so many keys; 0: none */
    int rounds;
    bool one_tx; /* drain: settle the last batch and claim the next in one transaction */
    bool ack;    /* claims: ack what was claimed and enqueue as many, instead of releasing it */
};

/* ---- pg_raw.c: libpq, clocks ---- */

void die(const char *what, const char *why) __attribute__((noreturn));
double seconds_now(void);
/* CPU time a process has used, in seconds: what the scheduler counted, free of waiting and of other processes. */
double cpu_of(int pid);

PGconn *raw_open(const char *conninfo);
PGresult *raw_exec(PGconn *conn, const char *sql); /* owned by the caller */
void raw_run(PGconn *conn, const char *sql);
void raw_prepare(PGconn *conn, const char *name, const char *sql);
/* The first column of the first row. */
double raw_number(PGconn *conn, const char *sql);
/* The backends of the sessions that carry this application name; returns how many. */
int backends_of(const char *conninfo, const char *application, int *pids, int room);
int backend_of(const char *conninfo, const char *application); /* the one */

/* A bigint[] in binary; returns its length. `bytes` has room for 20 + 12 * count. */
size_t int8_array(char *bytes, const int64_t *values, int count);
int64_t int8_at(const PGresult *res, int row, int column);

/* A JSON document of PAYLOAD bytes and its NUL. */
void payload_make(char payload[PAYLOAD + 1], int64_t number);

double median(double *values, size_t count); /* sorts */

/* ---- pg_sides.c: those who drain ---- */

/* One connection that takes batches and settles them. */
struct side {
    const struct side_ops *ops;
    const char *application; /* of its sessions */
    int backends[BACKENDS_MAX], backend_count;
    int batch;
};

struct side_ops {
    const char *name;
    struct side *(*open)(const struct bench_options *options);
    int (*take)(struct side *side); /* how many it got */
    void (*settle)(struct side *side);
    void (*begin)(struct side *side); /* NULL: cannot share a transaction */
    void (*commit)(struct side *side);
    void (*close)(struct side *side);
};

const struct side_ops *side_find(const char *name);
double side_cpu(const struct side *side); /* of its backends, as far as they are known */

/* ---- pg_log_side.c ---- */

extern const struct side_ops log_side_ops;

/* ---- commands: each prints one JSON object ---- */

void command_drain(const struct bench_options *options);
void command_claims(const struct bench_options *options);
void command_enqueue_cost(const struct bench_options *options);
void command_enqueue_calls(const struct bench_options *options);
void command_enqueue_many(const struct bench_options *options);

#endif

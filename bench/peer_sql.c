/* peer_sql.c - a worker for queues that are plain SQL: the floor, pgmq and PgQ. bench/peers/README.md has the protocol.
 *
 *   peer_sql floor|pgmq-delete|pgmq-archive|pgmq-pop|pgq
 *
 * Connections by libpq's variables (PGHOST, PGDATABASE ...), each on a thread of its own, with prepared statements and
 * binary values: the best that such a queue can get. PEER_BATCH at once; PEER_POLL_US between two looks that found
 * nothing. */
#include <arpa/inet.h>
#include <endian.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, INT8_OID = 20 };

/* take: $1 int4, how many; returns id and payload. settle: $1 bigint[], their ids; NULL: taken is settled. */
static const struct queue {
    const char *name, *take, *settle;
    bool by_batch; /* PgQ: take finds the number of a batch, read its rows, settle ends it */
} queues[] = {
    {"floor",
     "delete from floor using (select id from floor where available_at <= now() order by available_at, id limit $1::int "
     "for update skip locked) due where floor.id = due.id returning floor.id, floor.payload::text",
     NULL, false},
    {"pgmq-delete", "select msg_id, message::text from pgmq.read('bench', 600, $1::int)",
     "select pgmq.delete('bench', $1::bigint[])", false},
    {"pgmq-archive", "select msg_id, message::text from pgmq.read('bench', 600, $1::int)",
     "select pgmq.archive('bench', $1::bigint[])", false},
    {"pgmq-pop", "select msg_id, message::text from pgmq.pop('bench', $1::int)", NULL, false},
    {"pgq", "select pgq.next_batch('bench', 'bench')", "select pgq.finish_batch($1::bigint)", true},
};

struct stamp {
    long number;
    int64_t us;
};

struct worker {
    pthread_t thread;
    PGconn *conn;
    int64_t *ids;
    char *array;
    struct stamp *stamps;
    size_t stamp_count, stamp_room;
};

static const struct queue *queue;
static long wanted, batch = 500, poll_us = 5000, connections = 1;
static const char *stamps_path;
static atomic_long handled;
static atomic_bool over;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "peer_sql: %s: %s\n", what, why);
    exit(1);
}

static long number_from(const char *name, long fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : fallback;
}

static void handle(struct worker *worker, const char *payload)
{
    if (!stamps_path)
        return;
    if (worker->stamp_count == worker->stamp_room) {
        worker->stamp_room = worker->stamp_room ? 2 * worker->stamp_room : 65536;
        worker->stamps = realloc(worker->stamps, worker->stamp_room * sizeof worker->stamps[0]);
        if (!worker->stamps)
            die("memory", "is out");
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char *found = strstr(payload, "\"i\":");
    worker->stamps[worker->stamp_count++] =
        (struct stamp){found ? strtol(found + 4, NULL, 10) : -1, now.tv_sec * 1000000LL + now.tv_nsec / 1000};
}

static PGresult *call(struct worker *worker, const char *name, int params, const char *value, int length)
{
    const char *values[] = {value};
    int lengths[] = {length}, formats[] = {1};
    PGresult *res = PQexecPrepared(worker->conn, name, params, values, lengths, formats, 1);
    if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
        die(name, PQerrorMessage(worker->conn));
    return res;
}

static char *put_int4(char *at, int32_t value)
{
    uint32_t wire = htonl((uint32_t)value);
    memcpy(at, &wire, sizeof wire);
    return at + sizeof wire;
}

/* A bigint[] in binary; the ids are in network order already. */
static int array_of(struct worker *worker, int count)
{
    char *at = put_int4(worker->array, 1); /* dimensions */
    at = put_int4(put_int4(put_int4(put_int4(at, 0), INT8_OID), count), 1);
    for (int i = 0; i < count; i++) {
        at = put_int4(at, sizeof worker->ids[0]);
        memcpy(at, &worker->ids[i], sizeof worker->ids[0]);
        at += sizeof worker->ids[0];
    }
    return (int)(at - worker->array);
}

/* One batch, taken, handled and settled; returns how many. */
static int step(struct worker *worker)
{
    uint32_t most = htonl((uint32_t)batch);
    PGresult *res = call(worker, "take", 1, (const char *)&most, sizeof most);
    int count = PQntuples(res);
    for (int i = 0; i < count; i++) {
        memcpy(&worker->ids[i], PQgetvalue(res, i, 0), sizeof worker->ids[0]);
        handle(worker, PQgetvalue(res, i, 1));
    }
    PQclear(res);
    if (count > 0 && queue->settle)
        PQclear(call(worker, "settle", 1, worker->array, array_of(worker, count)));
    return count;
}

/* The same for PgQ; -1: there was no batch. */
static int step_by_batch(struct worker *worker)
{
    char number[8];
    PGresult *res = call(worker, "take", 0, NULL, 0);
    bool none = PQgetisnull(res, 0, 0);
    if (!none)
        memcpy(number, PQgetvalue(res, 0, 0), sizeof number);
    PQclear(res);
    if (none)
        return -1;
    res = call(worker, "read", 1, number, sizeof number);
    int count = PQntuples(res);
    for (int i = 0; i < count; i++)
        handle(worker, PQgetvalue(res, i, 0));
    PQclear(res);
    PQclear(call(worker, "settle", 1, number, sizeof number));
    return count;
}

static void *work(void *data)
{
    struct worker *worker = data;
    while (!atomic_load(&over) && !(wanted && atomic_load(&handled) >= wanted)) {
        int got = queue->by_batch ? step_by_batch(worker) : step(worker);
        if (got > 0)
            atomic_fetch_add(&handled, got);
        else if (got < 0 || !queue->by_batch)
            usleep((useconds_t)poll_us);
    }
    return NULL;
}

static void prepare(struct worker *worker, const char *name, const char *sql)
{
    PGresult *res = PQprepare(worker->conn, name, sql, 0, NULL);
    if (PQresultStatus(res) != PGRES_COMMAND_OK)
        die(sql, PQerrorMessage(worker->conn));
    PQclear(res);
}

static void open_worker(struct worker *worker)
{
    worker->conn = PQconnectdb("");
    if (PQstatus(worker->conn) != CONNECTION_OK)
        die("connect", PQerrorMessage(worker->conn));
    prepare(worker, "take", queue->take);
    if (queue->settle)
        prepare(worker, "settle", queue->settle);
    if (queue->by_batch)
        prepare(worker, "read", "select ev_data from pgq.get_batch_events($1::bigint)");
    worker->ids = calloc((size_t)batch, sizeof worker->ids[0]);
    worker->array = malloc(20 + 12 * (size_t)batch);
    if (!worker->ids || !worker->array)
        die("memory", "is out");
}

static void close_worker(struct worker *worker, FILE *stamps)
{
    for (size_t i = 0; stamps && i < worker->stamp_count; i++)
        fprintf(stamps, "%ld %lld\n", worker->stamps[i].number, (long long)worker->stamps[i].us);
    free(worker->stamps);
    free(worker->ids);
    free(worker->array);
    PQfinish(worker->conn);
}

static void run(struct worker *workers)
{
    char line[16];
    if (!fgets(line, sizeof line, stdin)) /* "go" */
        exit(1);
    for (long i = 0; i < connections; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            die("thread", "cannot be made");
    if (!wanted) { /* until we are told to stop */
        while (fgets(line, sizeof line, stdin))
            ;
        atomic_store(&over, true);
    }
    for (long i = 0; i < connections; i++)
        pthread_join(workers[i].thread, NULL);
    printf("done %ld\n", atomic_load(&handled));
    fflush(stdout);
    while (wanted && fgets(line, sizeof line, stdin))
        ;
}

int main(int argc, char **argv)
{
    static struct worker workers[CONNECTIONS_MAX];
    for (size_t i = 0; argc == 2 && i < sizeof queues / sizeof queues[0]; i++)
        if (strcmp(argv[1], queues[i].name) == 0)
            queue = &queues[i];
    wanted = number_from("PEER_COUNT", 0);
    batch = number_from("PEER_BATCH", batch);
    poll_us = number_from("PEER_POLL_US", poll_us);
    connections = number_from("PEER_CONNECTIONS", connections);
    stamps_path = getenv("PEER_STAMPS");
    if (!queue || batch < 1 || batch > 10000 || connections < 1 || connections > CONNECTIONS_MAX)
        die("usage", "peer_sql floor|pgmq-delete|pgmq-archive|pgmq-pop|pgq; see its source");
    for (long i = 0; i < connections; i++)
        open_worker(&workers[i]);
    puts("ready");
    fflush(stdout);
    run(workers);
    FILE *stamps = stamps_path ? fopen(stamps_path, "w") : NULL;
    for (long i = 0; i < connections; i++)
        close_worker(&workers[i], stamps);
    if (stamps && fclose(stamps) != 0)
        die(stamps_path, "cannot be written");
    return 0;
}

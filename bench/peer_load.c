/* peer_load.c - producers: transactions of one business row and one message, at a fixed rate or as fast as they go.
 *
 *   peer_load CONNINFO [--rate R] [--seconds S] [--count N] [--clients C] [--keys K] [--enqueue SQL] [--business SQL]
 *             [--ring SQL --ring-ms MS] [--stamps FILE] [--first I]
 *
 * Every statement gets $1 bigint (the number of the message), $2 text (a JSON document of 200 bytes with that number as
 * "i") and $3 text (its key, or null). A transaction is one round trip (pipeline mode). The schedule is fixed before the
 * start: a producer that falls behind makes no pause until it has caught up, so a slow server cannot hide by slowing its
 * clients. --ring is put into a transaction when the last one that had it is MS old: some clients notify like that.
 * --stamps gets a line per message: its number, and the clock in microseconds when its COMMIT was answered.
 * Prints one JSON object. */
#include <getopt.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { CLIENTS_MAX = 256, PAYLOAD = 200, INT8_OID = 20, TEXT_OID = 25 };

static struct {
    const char *conninfo, *business, *enqueue, *ring, *stamps;
    double rate, seconds;
    long count, clients, keys, ring_ms, first;
} opt = {.clients = 8, .first = 1, .business = "insert into orders (customer, total) values ($1 % 1000, 100)"};

static atomic_long next_number, ring_at_us;
static int64_t *committed; /* by number, 0: never */
static long room;
static double start;
static pthread_barrier_t all_connected;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "peer_load: %s: %s\n", what, why);
    exit(1);
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static double now_seconds(void)
{
    return (double)clock_us(CLOCK_MONOTONIC) / 1e6;
}

static void prepare(PGconn *conn, const char *name, const char *sql)
{
    static const Oid types[] = {INT8_OID, TEXT_OID, TEXT_OID};
    PGresult *res = PQprepare(conn, name, sql, 3, types);
    if (PQresultStatus(res) != PGRES_COMMAND_OK)
        die(sql, PQerrorMessage(conn));
    PQclear(res);
}

static PGconn *connect_and_prepare(void)
{
    PGconn *conn = PQconnectdb(opt.conninfo);
    if (PQstatus(conn) != CONNECTION_OK)
        die("connect", PQerrorMessage(conn));
    PQclear(PQexec(conn, "set client_min_messages = error"));
    prepare(conn, "begin", "begin");
    prepare(conn, "commit", "commit");
    prepare(conn, "business", opt.business);
    if (opt.enqueue)
        prepare(conn, "enqueue", opt.enqueue);
    if (opt.ring)
        prepare(conn, "ring", opt.ring);
    PQenterPipelineMode(conn);
    return conn;
}

/* Whether this transaction has to ring. */
static bool ring_is_due(void)
{
    long now = (long)clock_us(CLOCK_MONOTONIC), last = atomic_load(&ring_at_us);
    return opt.ring && now - last >= opt.ring_ms * 1000 && atomic_compare_exchange_strong(&ring_at_us, &last, now);
}

static void send(PGconn *conn, const char *name, const char *const *values, int count)
{
    if (!PQsendQueryPrepared(conn, name, count, values, NULL, NULL, 0))
        die(name, PQerrorMessage(conn));
}

/* Everything that was sent, up to the answer of the COMMIT. */
static void receive(PGconn *conn)
{
    for (int nulls = 0; nulls < 2;) {
        PGresult *res = PQgetResult(conn);
        ExecStatusType status = res ? PQresultStatus(res) : PGRES_EMPTY_QUERY;
        nulls = res ? 0 : nulls + 1;
        if (status == PGRES_FATAL_ERROR || status == PGRES_PIPELINE_ABORTED)
            die("transaction", PQerrorMessage(conn));
        PQclear(res);
        if (status == PGRES_PIPELINE_SYNC)
            return;
    }
    die("transaction", "its answer ended early");
}

static void transaction(PGconn *conn, long number)
{
    char digits[24], payload[PAYLOAD + 1], key[24];
    snprintf(digits, sizeof digits, "%ld", number);
    int head = snprintf(payload, sizeof payload, "{\"i\": %ld, \"pad\": \"", number);
    memset(payload + head, 'x', (size_t)(PAYLOAD - head - 2));
    memcpy(payload + PAYLOAD - 2, "\"}", 3);
    snprintf(key, sizeof key, "k%ld", opt.keys ? number % opt.keys : 0);
    const char *values[] = {digits, payload, opt.keys ? key : NULL};
    send(conn, "begin", values, 3);
    send(conn, "business", values, 3);
    if (opt.enqueue)
        send(conn, "enqueue", values, 3);
    if (ring_is_due())
        send(conn, "ring", values, 3);
    send(conn, "commit", values, 3);
    if (!PQpipelineSync(conn))
        die("sync", PQerrorMessage(conn));
    receive(conn);
    committed[number - opt.first] = clock_us(CLOCK_REALTIME);
}

static void *produce(void *unused)
{
    (void)unused;
    PGconn *conn = connect_and_prepare();
    if (pthread_barrier_wait(&all_connected) == PTHREAD_BARRIER_SERIAL_THREAD)
        start = now_seconds();
    pthread_barrier_wait(&all_connected);
    for (;;) {
        long number = atomic_fetch_add(&next_number, 1);
        double due = opt.rate > 0 ? (double)number / opt.rate : now_seconds() - start;
        if (number >= room || (opt.seconds > 0 && due >= opt.seconds))
            break;
        double wait = start + due - now_seconds();
        if (wait > 0)
            nanosleep(&(struct timespec){(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)}, NULL);
        if (opt.seconds > 0 && now_seconds() - start > 1.5 * opt.seconds)
            break; /* hopelessly behind */
        transaction(conn, number + opt.first);
    }
    PQfinish(conn);
    return NULL;
}

static void parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"rate", required_argument, NULL, 'r'},     {"seconds", required_argument, NULL, 's'},
        {"count", required_argument, NULL, 'n'},    {"clients", required_argument, NULL, 'c'},
        {"keys", required_argument, NULL, 'k'},     {"enqueue", required_argument, NULL, 'e'},
        {"business", required_argument, NULL, 'b'}, {"ring", required_argument, NULL, 'g'},
        {"ring-ms", required_argument, NULL, 'm'},  {"stamps", required_argument, NULL, 'f'},
        {"first", required_argument, NULL, 'i'},    {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'r': opt.rate = strtod(optarg, NULL); break;
        case 's': opt.seconds = strtod(optarg, NULL); break;
        case 'n': opt.count = strtol(optarg, NULL, 10); break;
        case 'c': opt.clients = strtol(optarg, NULL, 10); break;
        case 'k': opt.keys = strtol(optarg, NULL, 10); break;
        case 'e': opt.enqueue = optarg; break;
        case 'b': opt.business = optarg; break;
        case 'g': opt.ring = optarg; break;
        case 'm': opt.ring_ms = strtol(optarg, NULL, 10); break;
        case 'f': opt.stamps = optarg; break;
        case 'i': opt.first = strtol(optarg, NULL, 10); break;
        default: exit(2);
        }
    }
    if (optind != argc - 1 || opt.clients < 1 || opt.clients > CLIENTS_MAX || (opt.seconds <= 0 && opt.count <= 0))
        die("usage", "peer_load CONNINFO --seconds S or --count N, --clients 1 to 256; see its source");
    opt.conninfo = argv[optind];
}

static long write_stamps(void)
{
    FILE *file = opt.stamps ? fopen(opt.stamps, "w") : NULL;
    long made = 0;
    if (opt.stamps && !file)
        die(opt.stamps, "cannot be written");
    for (long i = 0; i < room; i++) {
        made += committed[i] != 0;
        if (file && committed[i])
            fprintf(file, "%ld %lld\n", i + opt.first, (long long)committed[i]);
    }
    if (file && fclose(file) != 0)
        die(opt.stamps, "cannot be written");
    return made;
}

int main(int argc, char **argv)
{
    pthread_t threads[CLIENTS_MAX];
    parse(argc, argv);
    double most = opt.rate > 0 ? opt.rate : 200000;
    room = opt.count > 0 ? opt.count : (long)(most * opt.seconds) + 1;
    committed = calloc((size_t)room, sizeof committed[0]);
    if (!committed || pthread_barrier_init(&all_connected, NULL, (unsigned)opt.clients) != 0)
        die("memory", "is out");
    for (long i = 0; i < opt.clients; i++)
        if (pthread_create(&threads[i], NULL, produce, NULL) != 0)
            die("thread", "cannot be made");
    for (long i = 0; i < opt.clients; i++)
        pthread_join(threads[i], NULL);
    double seconds = now_seconds() - start;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"produced\": %ld, \"seconds\": %.6f, \"cpu_seconds\": %.3f}\n", write_stamps(), seconds,
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    free(committed);
    return 0;
}

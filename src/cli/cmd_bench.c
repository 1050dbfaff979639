/* cmd_bench.c - what this database and this machine can do, in half a minute, and what to do about it.
 *
 * It measures in an outbox of its own (lib/scratch.h) that is removed in the end, also after Ctrl-C; what a killed run left is removed by
 * the next one. Messages of the user are not touched. Deliveries are made by a real relay, this same program, into the sink null. */
#include "cli/bench.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { SECONDS = 30, SECONDS_LEAST = 3, SECONDS_MOST = 600, CLIENTS = 8, RATE = 50 };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

bool ob_bench_stopped(void)
{
    return stopped;
}

/* The first signal ends the measurement, and what was made is removed; the second has its usual effect. */
static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

/* ---- advice ---- */

static void advise(struct ob_bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void advise(struct ob_bench *bench, const char *format, ...)
{
    va_list list;
    if (bench->advice_count == OB_BENCH_ADVICE)
        return;
    va_start(list, format);
    vsnprintf(bench->advice[bench->advice_count++], sizeof bench->advice[0], format, list);
    va_end(list);
}

static void draw_conclusions(struct ob_bench *bench)
{
    double day = bench->drain * 86400;
    if (bench->commit_p50 > 5)
        advise(
            bench,
            "A commit takes %.1f ms: the disk is slow to make it durable. Enqueue several messages in one transaction, "
            "use a faster disk, or set durability: relaxed for the relay's own commits.",
            bench->commit_p50);
    if (bench->commit_p99 > 10 * bench->commit_p50 && bench->commit_p99 > 20)
        advise(
            bench,
            "One commit in a hundred takes %.0f ms, much longer than usual: look at checkpoints and at other writers of the disk.",
            bench->commit_p99);
    if (!bench->file && bench->enqueue_8 < 1.5 * bench->enqueue_1)
        advise(bench,
               "Eight clients enqueue hardly more than one: the processor or the disk is the limit, not the clients.");
    if (bench->drain > 0 && bench->drain < bench->enqueue_8)
        advise(
            bench,
            bench->file
                ? "One relay delivers fewer messages than eight clients enqueue; a file allows one relay: if that is not "
                  "enough, use PostgreSQL."
                : "One relay delivers fewer messages than eight clients enqueue: for such a load run two relays, or raise "
                  "relay.batch.");
    if (bench->latency_p50 > 200)
        advise(
            bench,
            "Half of the messages need more than %.0f ms from commit to delivery without load: check that the doorbell works "
            "(a transaction pooler in between prevents it), or lower relay.poll.",
            bench->latency_p50);
    if (!bench->file && day > 50e6)
        advise(
            bench,
            "At full rate a day has %.0f million messages: set partition_width below a day (outbox configure partition_width 1h).",
            day / 1e6);
    if (!bench->advice_count)
        advise(bench, "Nothing stands out.");
}

/* ---- output ---- */

static void say_text(const struct ob_bench *bench)
{
    printf("enqueue, 1 client      %9.0f messages/s\n", bench->enqueue_1);
    printf("enqueue, %d clients     %9.0f messages/s\n", CLIENTS, bench->enqueue_8);
    printf("commit                 %9.2f ms (99 %%: %.2f ms)\n", bench->commit_p50, bench->commit_p99);
    printf("drain, 1 relay         %9.0f messages/s (%lld messages)\n", bench->drain, (long long)bench->drained);
    printf("enqueue to delivered   %9.1f ms (99 %%: %.1f ms), at %d messages/s\n", bench->latency_p50,
           bench->latency_p99, RATE);
    printf("%s     %9.0f bytes per message enqueued\n", bench->file ? "size of the file" : "write-ahead log ",
           bench->bytes_per_message);
    for (int i = 0; i < bench->advice_count; i++)
        printf("-> %s\n", bench->advice[i]);
}

static void put_number(struct ob_json *json, const char *key, double value)
{
    ob_json_key(json, key);
    ob_json_double(json, value);
}

static void say_json(const struct ob_bench *bench)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    put_number(&json, "seconds", (double)bench->seconds);
    put_number(&json, "enqueue_1", bench->enqueue_1);
    put_number(&json, "enqueue_8", bench->enqueue_8);
    put_number(&json, "commit_p50_ms", bench->commit_p50);
    put_number(&json, "commit_p99_ms", bench->commit_p99);
    put_number(&json, "drain", bench->drain);
    put_number(&json, "latency_p50_ms", bench->latency_p50);
    put_number(&json, "latency_p99_ms", bench->latency_p99);
    put_number(&json, "bytes_per_message", bench->bytes_per_message);
    ob_json_key(&json, "advice");
    ob_json_array(&json);
    for (int i = 0; i < bench->advice_count; i++)
        ob_json_string(&json, bench->advice[i]);
    ob_json_end(&json);
    ob_json_end(&json);
    ob_say_json(&buf);
}

/* ---- the run ---- */

/* Whether somebody works with this database: then its owner is asked. */
static bool may_run(struct ob_cli *cli, int seconds)
{
    struct ob_look look = {0};
    struct ob_open open = {.schema = cli->schema};
    struct ob_store *store = NULL;
    bool used = false;
    if (!ob_store_open(cli->url, &open, &store, NULL)) {
        if (!ob_look_read(store, NULL, NULL, &look, NULL))
            used = look.count > 0 || ob_relays_alive(look.relays) > 0;
        ob_look_fini(&look);
        store->ops->close(store);
    }
    return !used ||
           ob_cli_confirm(
               cli,
               "This outbox is in use. The benchmark does not touch its messages, but loads the database for about %d s. Go on?",
               seconds);
}

static int measure(struct ob_cli *cli, struct ob_bench *bench)
{
    struct outbox_error kept;
    enum outbox_code code = ob_scratch_create(cli->url, &bench->scratch, &cli->err);
    if (!code)
        code = ob_bench_enqueue(bench, CLIENTS, &cli->err);
    if (!code && !stopped)
        code = ob_bench_drain(bench, &cli->err);
    if (!code && !stopped)
        code = ob_bench_latency(bench, RATE, &cli->err);
    kept = cli->err;
    enum outbox_code dropped = ob_scratch_drop(cli->url, &bench->scratch, &cli->err);
    if (!code && dropped)
        return ob_cli_fail(cli);
    cli->err = kept;
    if (code)
        return ob_cli_fail(cli);
    if (stopped) {
        ob_cli_note(cli, "Stopped; what was made for the benchmark is removed.");
        return OB_EXIT_UNHEALTHY;
    }
    draw_conclusions(bench);
    if (cli->args.json)
        say_json(bench);
    else
        say_text(bench);
    return OB_EXIT_OK;
}

int cmd_bench(struct ob_cli *cli)
{
    int seconds = cli->args.seconds.given ? cli->args.seconds.value : SECONDS, left = 0;
    if (seconds < SECONDS_LEAST || seconds > SECONDS_MOST)
        return ob_cli_usage(cli, "--seconds takes %d to %d", SECONDS_LEAST, SECONDS_MOST);
    if (!ob_cli_has_store(cli))
        return ob_cli_fail(cli);
    struct ob_bench *bench = ob_calloc(1, sizeof *bench);
    if (!bench) {
        ob_error_nomem(&cli->err);
        return ob_cli_fail(cli);
    }
    bench->seconds = seconds;
    bench->file = ob_url_kind(cli->url) == OB_URL_SQLITE;
    int status = OB_EXIT_USAGE;
    if (ob_scratch_sweep(cli->url, &left, &cli->err)) {
        status = ob_cli_fail(cli);
    } else {
        if (left)
            ob_cli_note(cli, "Removed what %d earlier run%s left behind.", left, left == 1 ? "" : "s");
        watch_signals();
        if (may_run(cli, seconds))
            status = measure(cli, bench);
    }
    ob_free(bench);
    return status;
}

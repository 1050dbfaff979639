/* http_sink.c - the http sink by itself: no store, no relay. Posts what http_bare posts, through the adapter.
 *
 *     http_sink URL MESSAGES CONCURRENCY PAYLOAD_BYTES [NAME=VALUE...]
 *
 * Options are those of the adapter, as open takes them (durations in microseconds). A message is delivered for each
 * that is done. Prints what http_bare prints. URL must be on loopback. */
#include "base/clock.h"
#include "sink/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

enum { OPTIONS_MOST = 32 };

struct run {
    outbox_sink *sink;
    const struct outbox_sink_ops *ops;
    struct outbox_delivery msg;
    uint64_t started, done, wanted;
    int credit; /* done since the last delivery */
    uv_check_t check;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "http_sink: %s: %s\n", what, why);
    exit(1);
}

static void on_done(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    struct run *run = ctx;
    (void)handle;
    if (verdict->outcome != OUTBOX_SINK_ACCEPTED)
        die(verdict->code ? verdict->code : "verdict", verdict->text ? verdict->text : "not accepted");
    run->done++;
    run->credit++;
}

static void on_log(void *ctx, enum outbox_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "%s\n", text);
}

static int64_t now_us(void *ctx)
{
    (void)ctx;
    return ob_clock_mono_us();
}

static void on_wake(void *ctx)
{
    (void)ctx;
}

/* As the relay does: what became free is filled once in each turn of the loop. */
static void refill(uv_check_t *check)
{
    struct run *run = check->data;
    struct outbox_sink_item items[64];
    while (run->credit > 0 && run->started < run->wanted) {
        size_t count = 0;
        for (; count < 64 && run->credit > 0 && run->started < run->wanted; count++, run->credit--)
            items[count] = (struct outbox_sink_item){.handle = ++run->started, .msg = &run->msg};
        run->ops->deliver(run->sink, items, count);
    }
    if (run->done == run->wanted)
        uv_check_stop(check);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        die("usage", "http_sink URL MESSAGES CONCURRENCY PAYLOAD_BYTES [NAME=VALUE...]");
    uv_loop_t *loop = uv_default_loop();
    struct run run = {.ops = ob_sink_find("http"), .wanted = (uint64_t)atoll(argv[2]), .credit = atoi(argv[3])};
    size_t len = (size_t)atol(argv[4]), given = 3;
    struct outbox_sink_option options[OPTIONS_MOST] = {
        {"url", argv[1]}, {"allow", "127.0.0.0/8"}, {"user_agent", "outbox"}};
    for (int i = 5; i < argc && given < OPTIONS_MOST; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals)
            die(argv[i], "must be NAME=VALUE");
        *equals = '\0';
        options[given++] = (struct outbox_sink_option){argv[i], equals + 1};
    }
    char *body = malloc(len + 1);
    if (!run.ops || !body || len < 2)
        die("start", "this build has no http sink, or there is no memory");
    memset(body, 'x', len);
    body[0] = body[len - 1] = '"';
    run.msg = (struct outbox_delivery){.size = sizeof run.msg,
                                       .name_space = "default",
                                       .topic = "bench",
                                       .payload = body,
                                       .payload_len = len,
                                       .attempt = 1,
                                       .created_at_us = ob_clock_wall_us()};
    if (!outbox_uuid_parse("01890a5d-ac96-774b-bcce-b302099a8057", &run.msg.id))
        die("id", "no uuid");
    struct outbox_sink_host host = {sizeof host, &run, loop, on_done, on_wake, now_us, on_log, "bench"};
    struct outbox_error err;
    if (run.ops->open(options, given, &host, &run.sink, &err))
        die("open", err.text);
    uv_check_init(loop, &run.check);
    run.check.data = &run;
    uv_check_start(&run.check, refill);
    double began = (double)ob_clock_mono_us();
    refill(&run.check);
    while (run.done < run.wanted)
        uv_run(loop, UV_RUN_ONCE);
    double took = ((double)ob_clock_mono_us() - began) / 1e6;
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf(
        "{\"messages\": %llu, \"seconds\": %.6f, \"per_second\": %.1f, \"connections\": %s, \"cpu_seconds\": %.6f}\n",
        (unsigned long long)run.done, took, (double)run.done / took, argv[3],
        (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
    run.ops->close(run.sink);
    uv_close((uv_handle_t *)&run.check, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    free(body);
    return 0;
}

/* serve.c - see serve.h.
 *
 * Work is done in the prepare phase, once in every turn of the loop before it waits: verdicts and answers that came in
 * this turn are then acted upon together. One timer wakes the loop for the earliest thing due. */
#include "relay/serve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "relay/generation.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum phase { RUNNING, TURNING, STOPPING };

enum { SIGNALS = 3 };
static const int signals[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

struct serve {
    struct ob_serve_options set;
    enum phase phase;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_timer_t timer;
    uv_signal_t signals[SIGNALS];
    char worker[120];
    struct ob_config *config, *next_config; /* owned */
    struct ob_generation *now, *next;       /* next: opened, waits for now to stop */
    bool impatient;                         /* told to stop twice */
    struct outbox_error fault;              /* what ended it, if something did */
};

static const struct ob_log *log_of(const struct serve *serve)
{
    return serve->set.log;
}

static void name_worker(struct serve *serve)
{
    char host[64] = "host";
    size_t len = sizeof host;
    uv_os_gethostname(host, &len);
    if (serve->config->worker)
        snprintf(serve->worker, sizeof serve->worker, "%.60s-%d-%llx", serve->config->worker, (int)getpid(),
                 (unsigned long long)ob_clock_wall_us());
    else
        snprintf(serve->worker, sizeof serve->worker, "%.60s-%d-%llx", host, (int)getpid(),
                 (unsigned long long)ob_clock_wall_us());
}

static enum outbox_code open_generation(struct serve *serve, const struct ob_config *config,
                                        struct ob_generation **generation, struct outbox_error *err)
{
    struct ob_generation_settings settings = {
        .config = config, .loop = &serve->loop, .log = log_of(serve), .worker = serve->worker};
    return ob_generation_open(&settings, generation, err);
}

/* ---- changes ---- */

static void stop(struct serve *serve, int64_t grace_us)
{
    serve->phase = STOPPING;
    ob_generation_stop(serve->now, grace_us);
}

static void adopt_log(struct serve *serve, const struct ob_config *config)
{
    serve->set.log->level = config->log_level;
    serve->set.log->format = config->log_format;
}

static void reload(struct serve *serve)
{
    if (serve->phase != RUNNING) {
        ob_log(log_of(serve), OB_LOG_WARN, "a reload is under way already, or the relay stops: not reloaded");
        return;
    }
    struct ob_config *config = serve->set.reload ? serve->set.reload(serve->set.ctx) : NULL;
    if (!config) {
        ob_log(log_of(serve), OB_LOG_ERROR, "the configuration was not reloaded; the old one goes on");
        return;
    }
    struct outbox_error err = {0};
    if (open_generation(serve, config, &serve->next, &err)) {
        ob_log(log_of(serve), OB_LOG_ERROR, "the configuration was not reloaded; the old one goes on",
               OB_STR("error", err.text));
        serve->set.unload(config);
        return;
    }
    ob_log(log_of(serve), OB_LOG_INFO, "reloading: what is out is finished under the old configuration");
    serve->next_config = config;
    serve->phase = TURNING;
    ob_generation_stop(serve->now, serve->config->grace_us);
}

static void turn_over(struct serve *serve)
{
    ob_generation_close(serve->now);
    serve->set.unload(serve->config);
    serve->now = serve->next;
    serve->config = serve->next_config;
    serve->next = NULL;
    serve->next_config = NULL;
    adopt_log(serve, serve->config);
    if (ob_generation_start(serve->now, &serve->fault)) {
        ob_log(log_of(serve), OB_LOG_ERROR, "cannot go on under the new configuration", OB_STR("error", serve->fault.text));
        stop(serve, 0);
        return;
    }
    serve->phase = RUNNING;
    ob_log(log_of(serve), OB_LOG_INFO, "reloaded");
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct serve *serve = handle->data;
    if (signum == SIGHUP) {
        reload(serve);
        return;
    }
    if (serve->phase == STOPPING) {
        serve->impatient = true;
        ob_log(log_of(serve), OB_LOG_WARN, "stopping at once");
        stop(serve, 0);
        return;
    }
    ob_log(log_of(serve), OB_LOG_INFO, "stopping: finishing what is out, giving back the rest",
           OB_INT("grace_ms", serve->config->grace_us / 1000));
    stop(serve, serve->config->grace_us);
}

/* ---- the loop ---- */

static void on_timer(uv_timer_t *timer)
{
    (void)timer; /* it only ends the wait */
}

static bool all_idle(struct serve *serve)
{
    for (size_t i = 0; i < serve->config->store_count; i++)
        if (!ob_engine_idle(ob_station_engine(ob_generation_station(serve->now, (int)i))))
            return false;
    return true;
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct serve *serve = prepare->data;
    int64_t due = ob_generation_turn(serve->now), now = ob_clock_boot_us();
    if (serve->phase == RUNNING && serve->set.until_empty && all_idle(serve)) {
        stop(serve, serve->config->grace_us);
        due = 0;
    }
    if (serve->phase != RUNNING && ob_generation_stopped(serve->now)) {
        if (serve->phase == STOPPING) {
            uv_stop(&serve->loop);
            return;
        }
        turn_over(serve);
        due = 0;
    }
    if (due == INT64_MAX) {
        uv_timer_stop(&serve->timer);
        return;
    }
    uint64_t wait_ms = due > now ? (uint64_t)(due - now + 999) / 1000 : 0;
    uv_update_time(&serve->loop);
    uv_timer_start(&serve->timer, on_timer, wait_ms, 0);
}

static enum outbox_code handles_init(struct serve *serve, struct outbox_error *err)
{
    int failed = uv_prepare_init(&serve->loop, &serve->prepare);
    serve->prepare.data = serve;
    failed = failed ? failed : uv_timer_init(&serve->loop, &serve->timer);
    for (int i = 0; i < SIGNALS && !failed; i++) {
        failed = uv_signal_init(&serve->loop, &serve->signals[i]);
        serve->signals[i].data = serve;
        failed = failed ? failed : uv_signal_start(&serve->signals[i], on_signal, signals[i]);
    }
    failed = failed ? failed : uv_prepare_start(&serve->prepare, on_prepare);
    return failed ? ob_error_set(err, OUTBOX_INTERNAL, "cannot start the loop: %s", uv_strerror(failed)) : OUTBOX_OK;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static enum outbox_code begin(struct serve *serve, struct outbox_error *err)
{
    enum outbox_code code = handles_init(serve, err);
    if (!code)
        code = open_generation(serve, serve->config, &serve->now, err);
    if (!code)
        code = ob_generation_start(serve->now, err);
    return code;
}

enum outbox_code ob_serve(const struct ob_serve_options *options, struct outbox_error *err)
{
    struct serve serve = {.set = *options, .config = options->config};
    if (uv_loop_init(&serve.loop)) {
        options->unload(options->config);
        return ob_error_set(err, OUTBOX_INTERNAL, "cannot make a loop");
    }
    signal(SIGPIPE, SIG_IGN);
    adopt_log(&serve, serve.config);
    name_worker(&serve);
    enum outbox_code code = begin(&serve, err);
    if (!code) {
        ob_log(log_of(&serve), OB_LOG_INFO, "relay started", OB_STR("worker", serve.worker),
               OB_INT("stores", (int64_t)serve.config->store_count), OB_INT("sinks", (int64_t)serve.config->sink_count));
        uv_run(&serve.loop, UV_RUN_DEFAULT);
        ob_log(log_of(&serve), OB_LOG_INFO, "relay stopped");
        code = serve.fault.code;
        if (code && err)
            *err = serve.fault;
    }
    ob_generation_close(serve.next);
    ob_generation_close(serve.now);
    uv_walk(&serve.loop, close_handle, NULL);
    uv_run(&serve.loop, UV_RUN_DEFAULT);
    uv_loop_close(&serve.loop);
    if (serve.next_config)
        options->unload(serve.next_config);
    options->unload(serve.config);
    return code;
}

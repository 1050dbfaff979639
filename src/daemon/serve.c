/* serve.c - see serve.h.
 *
 * Work is done in the prepare phase, once per turn of the loop before it waits, so that all verdicts and answers of a
 * turn are handled together. One timer wakes the loop for whatever is due first: a descriptor, because the loop's own timers know
 * no time shorter than a millisecond, and a busy relay's pauses are hardly longer. */
#include "daemon/serve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "daemon/admin.h"
#include "daemon/descriptors.h"
#include "daemon/generation.h"
#include "daemon/lag.h"
#include "daemon/leftover.h"
#include "daemon/systemd.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum phase { RUNNING, STOPPING };

enum { SIGNALS = 3, COUNT_LEAST_US = 200000, COUNT_MOST_US = 2000000, DRAINING = 8 };
static const int signals[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

struct serve {
    struct ob_serve_options set;
    enum phase phase;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_poll_t timer;
    int timer_fd;
    int64_t timer_us; /* when it ends the loop's wait; INT64_MAX: it does not */
    uv_timer_t tick;
    struct ob_lag lag;
    uv_signal_t signals[SIGNALS];
    char worker[OB_WORKER_NAME];
    struct ob_store_loop_table table;
    int64_t descriptors;      /* the process's limit */
    unsigned generations;     /* opened so far */
    bool again;               /* a reload was requested while too many drain */
    struct ob_config *config; /* owned, like those of draining generations */
    struct ob_config *first;  /* the initial one, kept to the end: options that need a restart still have its values */
    size_t changed;           /* options changed by this reload */
    struct ob_generation *now, *draining[DRAINING];
    struct ob_config *draining_configs[DRAINING];
    size_t draining_count;
    struct ob_metrics *metrics;
    struct ob_tracer *tracer; /* NULL: no traces */
    struct ob_health *health;
    struct ob_admin *admin; /* NULL: no HTTP */
    int64_t watchdog_us, barked_us;
    uint64_t log_dropped;       /* lines counted so far */
    struct ob_leftover *left;   /* one per store, as of the last count; for until_empty */
    struct outbox_error failed; /* for until_empty: a store that cannot be used as it is */
    int64_t count_at_us;        /* when to request the next count */
    int64_t count_every_us;
    int64_t held_us; /* when messages were held last */
    uint64_t looked; /* messages claimed from all stores when they were last made to poll */
};

static const struct ob_log *log_of(const struct serve *serve)
{
    return serve->set.log;
}

static void on_report(void *ctx, int store, const struct ob_maintenance_report *report)
{
    struct serve *serve = ctx;
    if (!report->reached && ob_code_class(report->err.code) == OUTBOX_CLASS_OPERATOR)
        serve->failed = report->err;
    const struct ob_store_loop *store_loop = serve->now ? ob_generation_store_loop(serve->now, store) : NULL;
    if (report->by_topic && serve->left && store_loop)
        ob_leftover_read(&serve->left[store], store_loop, serve->config, report);
}

static void forget_left(struct serve *serve, const struct ob_config *config)
{
    for (size_t i = 0; serve->left && i < config->store_count; i++)
        ob_leftover_fini(&serve->left[i]);
}

static enum outbox_code open_generation(struct serve *serve, const struct ob_config *config,
                                        struct ob_generation **generation, struct outbox_error *err)
{
    struct ob_descriptors plan;
    enum outbox_code code = ob_descriptors_plan(config, serve->descriptors, &plan, err);
    if (code)
        return code;
    if (plan.cap > 0)
        ob_log(log_of(serve), OB_LOG_WARN,
               "file descriptor limit too low: concurrency reduced; raise the limit (ulimit -n) or configure fewer "
               "sinks",
               OB_INT("needed", plan.needed), OB_INT("limit", plan.limit), OB_INT("concurrency_per_sink", plan.cap));
    struct ob_generation_settings settings = {.config = config,
                                              .loop = &serve->loop,
                                              .log = log_of(serve),
                                              .worker = serve->worker,
                                              .number = ++serve->generations,
                                              .cap = plan.cap,
                                              .before = serve->now,
                                              .table = &serve->table,
                                              .metrics = serve->metrics,
                                              .tracer = serve->tracer,
                                              .health = serve->health,
                                              .ctx = serve,
                                              .reported = on_report};
    return ob_generation_open(&settings, generation, err);
}

/* ---- changes ---- */

static void stop(struct serve *serve, int64_t grace_us)
{
    serve->phase = STOPPING;
    ob_systemd_stopping("finishing deliveries in flight");
    ob_health_set_phase(serve->health, OB_HEALTH_STOPPING);
    ob_series_set(ob_metrics_process(serve->metrics), OB_METRIC_up, 0);
    ob_generation_stop(serve->now, grace_us);
    for (size_t i = 0; i < serve->draining_count; i++)
        ob_generation_stop(serve->draining[i], grace_us);
}

static void adopt_log(struct serve *serve, const struct ob_config *config)
{
    serve->set.log->level = config->log_level;
    serve->set.log->format = config->log_format;
}

static void count_reload(struct serve *serve, bool ok)
{
    struct ob_series *process = ob_metrics_process(serve->metrics);
    ob_series_add_to(process, OB_METRIC_reloads, ok ? 0 : 1, 1);
    ob_series_set(process, OB_METRIC_reload_ok, ok);
    if (ok)
        ob_series_set(process, OB_METRIC_reload_at, (double)ob_clock_wall_us() / 1e6);
}

static void not_reloaded(struct serve *serve, const char *why)
{
    count_reload(serve, false);
    ob_log(log_of(serve), OB_LOG_ERROR, "reload failed: keeping the old configuration", OB_STR("error", why));
}

static void tell_change(void *ctx, const struct ob_config_change *change)
{
    struct serve *serve = ctx;
    if (!change->reloadable)
        return;
    serve->changed++;
    ob_log(log_of(serve), OB_LOG_INFO, "configuration changed", OB_STR("option", change->name),
           OB_STR("before", change->before), OB_STR("after", change->after));
}

/* Logged at every reload until the restart, because the relay does not do what the file says. */
static void tell_restart(void *ctx, const struct ob_config_change *change)
{
    const struct serve *serve = ctx;
    if (!change->reloadable)
        ob_log(log_of(serve), OB_LOG_WARN, "configuration changed: restart the relay to apply it",
               OB_STR("option", change->name), OB_STR("before", change->before), OB_STR("after", change->after));
}

static void unload(struct serve *serve, struct ob_config *config)
{
    if (config != serve->first)
        serve->set.unload(config);
}

/* NULL after it logged the error. */
static struct ob_generation *open_next(struct serve *serve, const struct ob_config *config)
{
    struct outbox_error err = {0};
    struct ob_generation *next = NULL;
    enum outbox_code code = open_generation(serve, config, &next, &err);
    struct ob_leftover *left = ob_calloc(config->store_count + 1, sizeof *left);
    if (!code && !left)
        code = ob_error_nomem(&err);
    if (!code)
        code = ob_generation_start(next, &err);
    if (code) {
        not_reloaded(serve, err.text);
        ob_generation_close(next);
        ob_free(left);
        return NULL;
    }
    forget_left(serve, serve->config);
    ob_free(serve->left);
    serve->left = left;
    return next;
}

static void reload(struct serve *serve)
{
    if (serve->phase == STOPPING) {
        ob_log(log_of(serve), OB_LOG_WARN, "reload ignored: the relay is stopping");
        return;
    }
    if (serve->draining_count == DRAINING) {
        if (!serve->again)
            ob_log(log_of(serve), OB_LOG_WARN,
                   "reload postponed: deliveries of earlier configurations are still in "
                   "flight",
                   OB_INT("configurations", DRAINING + 1));
        serve->again = true;
        return;
    }
    serve->again = false;
    struct ob_config *config = serve->set.reload ? serve->set.reload(serve->set.ctx) : NULL;
    if (!config) {
        not_reloaded(serve, NULL);
        return;
    }
    ob_systemd_reloading("reloading");
    struct ob_generation *next = open_next(serve, config);
    if (next) {
        serve->draining_configs[serve->draining_count] = serve->config;
        serve->draining[serve->draining_count++] = serve->now;
        serve->changed = 0;
        ob_config_diff(serve->config, config, tell_change, serve);
        ob_config_diff(serve->first, config, tell_restart, serve);
        serve->now = next;
        serve->config = config;
        adopt_log(serve, config);
        struct outbox_error err;
        if (ob_admin_reload(serve->admin, config, &err))
            ob_log(log_of(serve), OB_LOG_ERROR, "api: keeping the old stores", OB_STR("error", err.text));
        count_reload(serve, true);
        ob_log(log_of(serve), OB_LOG_INFO, "reloaded", OB_INT("options_changed", (int64_t)serve->changed),
               OB_INT("sinks_kept", (int64_t)ob_generation_kept_sinks(next)),
               OB_INT("sinks_opened", (int64_t)(config->sink_count - ob_generation_kept_sinks(next))),
               OB_INT("configurations_draining", (int64_t)serve->draining_count));
    } else {
        serve->set.unload(config);
    }
    ob_systemd_ready("delivering");
}

/* The deliveries of an earlier configuration are finished. */
static void end_draining(struct serve *serve, size_t i)
{
    ob_generation_close(serve->draining[i]);
    unload(serve, serve->draining_configs[i]);
    serve->draining_count--;
    serve->draining[i] = serve->draining[serve->draining_count];
    serve->draining_configs[i] = serve->draining_configs[serve->draining_count];
    ob_log(log_of(serve), OB_LOG_INFO, "deliveries of an earlier configuration finished",
           OB_INT("configurations_draining", (int64_t)serve->draining_count));
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct serve *serve = handle->data;
    if (signum == SIGHUP) {
        reload(serve);
        return;
    }
    if (serve->phase == STOPPING) {
        ob_log(log_of(serve), OB_LOG_WARN, "stopping now");
        stop(serve, 0);
        return;
    }
    ob_log(log_of(serve), OB_LOG_INFO, "stopping: finishing deliveries in flight, releasing the rest",
           OB_INT("grace_ms", serve->config->grace_us / 1000));
    stop(serve, serve->config->grace_us);
}

/* ---- the loop ---- */

static void on_timer(uv_poll_t *timer, int status, int events)
{
    struct serve *serve = timer->data;
    uint64_t count;
    (void)status;
    (void)events;
    if (read(serve->timer_fd, &count, sizeof count) > 0) /* it only ends the loop's wait */
        serve->timer_us = INT64_MAX;
}

/* One that is too early does no harm, and is left as it is. */
static void set_timer(struct serve *serve, int64_t due_us, int64_t now_us)
{
    if (due_us >= serve->timer_us && serve->timer_us > now_us)
        return;
    int64_t at_us = due_us == INT64_MAX ? 0 : due_us > 1 ? due_us : 1; /* 0: never */
    struct itimerspec at = {.it_value = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000}};
    if (timerfd_settime(serve->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0)
        serve->timer_us = due_us;
}

/* With until_empty we do not wait for the next poll: when everything claimed is settled, there may be more. True when the
 * stores should poll now. */
static bool look_again(struct serve *serve)
{
    uint64_t claimed = 0;
    bool held = false;
    for (size_t i = 0; i < serve->config->store_count; i++) {
        struct ob_machine_stats stats;
        ob_machine_stats(ob_engine_machine(ob_store_loop_engine(ob_generation_store_loop(serve->now, (int)i))), &stats);
        claimed += stats.claimed;
        held = held || stats.held > 0;
    }
    if (held || claimed == serve->looked)
        return false;
    serve->looked = claimed;
    for (size_t i = 0; i < serve->config->store_count; i++)
        ob_engine_wake(ob_store_loop_engine(ob_generation_store_loop(serve->now, (int)i)));
    return true;
}

/* The queue may be empty only for a moment, so messages that wait for their next attempt are waited for. Messages that
 * wait for a route, a resume, a later time or an operator's decision are not.
 *
 * A count costs as much as many deliveries. So nothing is counted between two claims, only when a claim found no more; or
 * when no claim has come for long: no sink may take any. */
static bool all_done(struct serve *serve, int64_t now)
{
    bool idle = true, asking = false, drained = true, by_headers = false;
    for (size_t i = 0; i < serve->config->store_count; i++) {
        struct ob_machine_stats stats;
        ob_machine_stats(ob_engine_machine(ob_store_loop_engine(ob_generation_store_loop(serve->now, (int)i))), &stats);
        idle = idle && stats.held == 0; /* messages due in the store are in the store's count */
        asking = asking || stats.asking;
        if (!idle)
            ob_leftover_fini(&serve->left[i]);
        drained = drained && serve->left[i].known && serve->left[i].waiting == 0;
        by_headers = by_headers || serve->left[i].by_headers;
    }
    if (!idle || serve->count_every_us == 0)
        serve->count_every_us = COUNT_LEAST_US;
    if (!idle || serve->held_us == 0)
        serve->held_us = now;
    bool quiet = idle && (!asking || now - serve->held_us >= COUNT_MOST_US);
    if (quiet && !drained && now >= serve->count_at_us) {
        ob_generation_hurry(serve->now, by_headers);
        serve->count_at_us = now + serve->count_every_us;
        serve->count_every_us = serve->count_every_us < COUNT_MOST_US / 2 ? 2 * serve->count_every_us : COUNT_MOST_US;
    }
    return idle && drained;
}

static void tell_left(const struct serve *serve)
{
    for (size_t i = 0; i < serve->config->store_count; i++)
        ob_leftover_log(&serve->left[i], serve->config->stores[i].name, log_of(serve));
}

/* The relay is up when it delivers for at least one store. */
static void tell_up(struct serve *serve)
{
    bool up = false;
    for (size_t i = 0; i < serve->config->store_count; i++) {
        const struct ob_store_loop *store_loop = ob_generation_store_loop(serve->now, (int)i);
        up = up || (store_loop && ob_store_loop_enabled(store_loop)); /* NULL: the start failed */
    }
    ob_series_set(ob_metrics_process(serve->metrics), OB_METRIC_up, up && serve->phase != STOPPING);
}

/* Logs how many lines were dropped while the log was not read, once it is read again. */
static void tell_dropped(struct serve *serve)
{
    if (!serve->set.out)
        return;
    ob_log_out_flush(serve->set.out);
    uint64_t dropped = ob_log_out_dropped(serve->set.out), lines = ob_log_out_cleared(serve->set.out);
    ob_series_add(ob_metrics_process(serve->metrics), OB_METRIC_log_dropped, dropped - serve->log_dropped);
    serve->log_dropped = dropped;
    if (lines > 0)
        ob_log(log_of(serve), OB_LOG_WARN, "log lines dropped: the reader of the log is too slow",
               OB_INT("lines", (int64_t)lines));
}

static void on_tick(uv_timer_t *timer)
{
    struct serve *serve = timer->data;
    int64_t now = ob_clock_boot_us();
    tell_up(serve);
    tell_dropped(serve);
    ob_health_tick(serve->health);
    ob_generation_tick(serve->now);
    for (size_t i = 0; i < serve->draining_count; i++)
        ob_generation_tick(serve->draining[i]);
    if (serve->watchdog_us > 0 && now >= serve->barked_us + serve->watchdog_us) {
        serve->barked_us = now;
        ob_systemd_watchdog();
    }
}

/* Runs the draining generations, and closes those that have finished. */
static void turn_draining(struct serve *serve)
{
    if (serve->draining_count == 0)
        return;
    for (size_t i = serve->draining_count; i-- > 0;) {
        ob_generation_turn(serve->draining[i]);
        if (serve->phase == RUNNING && ob_generation_stopped(serve->draining[i]))
            end_draining(serve, i);
    }
    if (serve->phase == RUNNING && serve->again && serve->draining_count < DRAINING)
        reload(serve);
    ob_generation_count_out(serve->now, serve->draining, serve->draining_count);
}

/* Computed after all had their turn: where they share an async store, the turn of one may bring an answer for another. */
static int64_t draining_due(const struct serve *serve)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < serve->draining_count; i++) {
        int64_t at = ob_generation_due(serve->draining[i]);
        due = at < due ? at : due;
    }
    return due;
}

static bool all_stopped(const struct serve *serve)
{
    bool stopped = ob_generation_stopped(serve->now);
    for (size_t i = 0; i < serve->draining_count; i++)
        stopped = stopped && ob_generation_stopped(serve->draining[i]);
    return stopped;
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct serve *serve = prepare->data;
    turn_draining(serve);
    int64_t due = ob_generation_turn(serve->now), others = draining_due(serve), now = ob_clock_boot_us();
    due = others < due ? others : due;
    if (serve->phase == RUNNING && serve->set.until_empty && serve->failed.code) {
        stop(serve, serve->config->grace_us); /* other stores may have messages in flight */
        due = 0;
    } else if (serve->phase == RUNNING && serve->set.until_empty && all_done(serve, now)) {
        tell_left(serve);
        stop(serve, serve->config->grace_us);
        due = 0;
    } else if (serve->phase == RUNNING && serve->set.until_empty && look_again(serve)) {
        due = 0;
    }
    if (serve->phase == STOPPING && all_stopped(serve)) {
        uv_stop(&serve->loop);
        return;
    }
    uv_update_time(&serve->loop);
    set_timer(serve, due, now);
}

static enum outbox_code handles_init(struct serve *serve, struct outbox_error *err)
{
    int failed = uv_prepare_init(&serve->loop, &serve->prepare);
    serve->prepare.data = serve;
    failed =
        failed ? failed : ob_lag_start(&serve->lag, &serve->loop, log_of(serve), ob_metrics_process(serve->metrics));
    serve->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    serve->timer_us = INT64_MAX;
    serve->timer.data = serve;
    failed = failed                ? failed
             : serve->timer_fd < 0 ? UV_ENFILE
                                   : uv_poll_init(&serve->loop, &serve->timer, serve->timer_fd);
    failed = failed ? failed : uv_poll_start(&serve->timer, UV_READABLE, on_timer);
    failed = failed ? failed : uv_timer_init(&serve->loop, &serve->tick);
    serve->tick.data = serve;
    for (int i = 0; i < SIGNALS && !failed; i++) {
        failed = uv_signal_init(&serve->loop, &serve->signals[i]);
        serve->signals[i].data = serve;
        failed = failed ? failed : uv_signal_start(&serve->signals[i], on_signal, signals[i]);
    }
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
    serve->metrics = ob_metrics_new(outbox_version());
    serve->health = ob_health_new(0);
    serve->left = ob_calloc(serve->config->store_count + 1, sizeof *serve->left);
    if (!serve->metrics || !serve->health || !serve->left)
        return ob_error_nomem(err);
    enum outbox_code code = handles_init(serve, err);
    if (!code && serve->config->admin_listen) {
        struct ob_admin_options admin = {.listen = serve->config->admin_listen,
                                         .metrics = serve->metrics,
                                         .health = serve->health,
                                         .log = log_of(serve),
                                         .config = serve->config,
                                         .open = serve->set.open};
        code = ob_admin_start(&admin, &serve->admin, err);
    }
    if (!code)
        code = ob_tracer_open(serve->config, serve->metrics, log_of(serve), serve->worker, &serve->tracer, err);
    if (!code)
        code = open_generation(serve, serve->config, &serve->now, err);
    if (!code)
        code = ob_generation_start(serve->now, err);
    if (!code) {
        uv_timer_start(&serve->tick, on_tick, 0, 1000);
        ob_health_set_phase(serve->health, OB_HEALTH_RUNNING);
        ob_series_set(ob_metrics_process(serve->metrics), OB_METRIC_up, serve->config->enabled);
        count_reload(serve, true);
        serve->watchdog_us = ob_systemd_watchdog_us();
        ob_systemd_ready("delivering");
    }
    return code;
}

static void mask_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(how, &set, NULL);
}

void ob_serve_hold_signals(void)
{
    mask_signals(SIG_BLOCK);
}

/* Signals that arrived during the start come first: one turn without work, then the turns that claim. */
static void run(struct serve *serve)
{
    mask_signals(SIG_UNBLOCK);
    uv_run(&serve->loop, UV_RUN_NOWAIT);
    uv_prepare_start(&serve->prepare, on_prepare);
    uv_run(&serve->loop, UV_RUN_DEFAULT);
}

enum outbox_code ob_serve(const struct ob_serve_options *options, struct outbox_error *err)
{
    struct serve serve = {.set = *options, .config = options->config, .first = options->config, .timer_fd = -1};
    if (uv_loop_init(&serve.loop)) {
        options->unload(options->config);
        return ob_error_set(err, OUTBOX_INTERNAL, "cannot create an event loop");
    }
    signal(SIGPIPE, SIG_IGN);
    serve.descriptors = ob_descriptors_raise();
    adopt_log(&serve, serve.config);
    ob_worker_name(serve.config->worker, serve.worker);
    enum outbox_code code = begin(&serve, err);
    if (!code) {
        ob_log(log_of(&serve), OB_LOG_INFO, "relay started", OB_STR("worker", serve.worker),
               OB_INT("stores", (int64_t)serve.config->store_count),
               OB_INT("sinks", (int64_t)serve.config->sink_count));
        if (options->started)
            options->started(options->ctx, serve.admin ? ob_admin_port(serve.admin) : 0);
        run(&serve);
    }
    for (size_t i = 0; i < serve.draining_count; i++)
        ob_generation_close(serve.draining[i]);
    ob_generation_close(serve.now);
    uv_walk(&serve.loop, close_handle, NULL);
    uv_run(&serve.loop, UV_RUN_DEFAULT);
    uv_loop_close(&serve.loop);
    if (serve.timer_fd >= 0)
        close(serve.timer_fd);
    ob_tracer_close(serve.tracer); /* its last counts are still on the metrics page */
    if (!code)
        ob_log(log_of(&serve), OB_LOG_INFO, "relay stopped");
    ob_admin_stop(serve.admin);
    ob_health_free(serve.health);
    ob_metrics_free(serve.metrics);
    forget_left(&serve, serve.config);
    ob_free(serve.left);
    for (size_t i = 0; i < serve.draining_count; i++)
        unload(&serve, serve.draining_configs[i]);
    unload(&serve, serve.config);
    options->unload(serve.first);
    if (!code && options->until_empty && serve.failed.code)
        code = ob_error_set(err, serve.failed.code, "%s", serve.failed.text);
    return code;
}

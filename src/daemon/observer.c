/* observer.c - see observer.h. */
#include "daemon/observer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "daemon/tracer.h"

#include <string.h>

struct sink {
    char *name;
    struct ob_series *series;
    struct ob_observer_sink seen;
    uint64_t delivered, counted; /* so far, and as of the last tick */
    bool down;                   /* deliveries are suspended, and that was logged */
    int64_t short_us;            /* when a shortage was last logged */
};

struct ob_observer {
    const struct ob_log *log;
    struct ob_tracer_view *traces;
    int64_t (*wall_us)(void);
    char *store;
    struct ob_series *series;
    struct sink *sinks;
    int sink_count;
    struct ob_machine_stats stats; /* as of the last tick */
    uint64_t wakeups, connects;
    bool retired;
    int64_t rate_us; /* when the rates were last taken */
    /* since the last summary */
    int64_t summary_us;
    uint64_t claimed, delivered, retried, dead, lost, unrouted, left_out;
    /* of the second that began at second_us */
    int64_t second_us;
    int lines;
};

static struct sink *sink_of(const struct ob_observer *observer, int sink)
{
    return sink >= 0 && sink < observer->sink_count ? &observer->sinks[sink] : NULL;
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */

/* False when the limit of lines per second is reached. */
static bool may_say(struct ob_observer *observer, enum ob_log_level level, int64_t now)
{
    if (!ob_log_wants(observer->log, level))
        return false;
    if (level == OB_LOG_DEBUG)
        return true;
    if (now - observer->second_us >= 1000000 || now < observer->second_us) {
        observer->second_us = now;
        observer->lines = 0;
    }
    if (observer->lines >= OB_OBSERVER_LINES) {
        observer->left_out++;
        return false;
    }
    observer->lines++;
    return true;
}

static void say(struct ob_observer *observer, enum ob_log_level level, const char *what, const struct ob_note *note,
                int64_t now)
{
    const struct outbox_delivery *msg = note->msg;
    const struct sink *to = sink_of(observer, note->sink);
    struct ob_field fields[16];
    size_t count = 0;
    char id[37];
    if (!may_say(observer, level, now))
        return;
    outbox_uuid_format(&note->id, id);
    fields[count++] = OB_STR("store", observer->store);
    fields[count++] = OB_STR("id", id);
    if (msg) {
        fields[count++] = OB_STR("namespace", msg->name_space);
        fields[count++] = OB_STR("topic", msg->topic);
        fields[count++] = OB_STR("tenant", msg->tenant_id);
        fields[count++] = OB_STR("key", msg->key);
        if (msg->seq)
            fields[count++] = OB_INT("seq", msg->seq);
        fields[count++] = OB_STR("subject", msg->subject);
        fields[count++] = OB_STR("correlation_id", msg->correlation_id);
        fields[count++] = OB_INT("attempt", msg->attempt);
    }
    if (to)
        fields[count++] = OB_STR("sink", to->name);
    if (note->kind == OB_NOTE_SETTLED || note->kind == OB_NOTE_LOST || note->kind == OB_NOTE_ENDED) {
        fields[count++] = OB_STR("code", note->code);
        fields[count++] = OB_STR("error", note->error);
        if (note->latency_us >= 0)
            fields[count++] = OB_DOUBLE("latency_ms", (double)note->latency_us / 1000);
    }
    if (note->kind == OB_NOTE_ENDED && note->delay_us >= 0)
        fields[count++] = OB_DOUBLE("again_in_s", (double)note->delay_us / 1e6);
    ob_log_write(observer->log, level, what, fields, count);
}

void ob_observer_flush(struct ob_observer *observer)
{
    int64_t now = observer->wall_us();
    if (observer->claimed || observer->delivered || observer->retried || observer->dead || observer->lost ||
        observer->unrouted)
        ob_log(observer->log, OB_LOG_INFO, "deliveries", OB_STR("store", observer->store),
               OB_DOUBLE("seconds", (double)(now - observer->summary_us) / 1e6),
               OB_INT("claimed", (int64_t)observer->claimed), OB_INT("delivered", (int64_t)observer->delivered),
               OB_INT("retried", (int64_t)observer->retried), OB_INT("dead", (int64_t)observer->dead),
               OB_INT("lost", (int64_t)observer->lost), OB_INT("unrouted", (int64_t)observer->unrouted),
               OB_INT("lines_left_out", (int64_t)observer->left_out), OB_INT("held", observer->stats.held),
               OB_INT("in_flight", observer->stats.in_flight));
    observer->claimed = observer->delivered = observer->retried = observer->dead = observer->lost = observer->unrouted =
        observer->left_out = 0;
    observer->summary_us = now;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

static void on_sent(struct ob_observer *observer, const struct ob_note *note, int64_t now)
{
    const struct sink *to = sink_of(observer, note->sink);
    if (to && note->msg && note->msg->attempt == 1)
        ob_series_observe(to->series, OB_METRIC_queue_time, now - note->msg->created_at_us);
    say(observer, OB_LOG_DEBUG, "sent", note, now);
}

static bool again(enum outbox_outcome outcome)
{
    return outcome == OUTBOX_RETRY || outcome == OUTBOX_LIMITED || outcome == OUTBOX_BLOCKED ||
           outcome == OUTBOX_UNKNOWN || outcome == OUTBOX_SILENT;
}

/* The sink could not even try: this process is short of memory or descriptors. Nothing is spent, and there is no
 * immediate retry. */
static void on_shortage(struct ob_observer *observer, struct sink *to, const struct ob_note *note, int64_t now)
{
    ob_series_add(to->series, OB_METRIC_shortages, 1);
    if (to->short_us > 0 && now >= to->short_us && now - to->short_us < OB_OBSERVER_SUMMARY_US)
        return;
    to->short_us = now;
    ob_log(observer->log, OB_LOG_WARN, "sink suspended: out of descriptors or memory", OB_STR("store", observer->store),
           OB_STR("sink", to->name), OB_STR("code", note->code), OB_STR("error", note->error),
           OB_DOUBLE("again_in_s", (double)note->delay_us / 1e6));
}

/* Copies at most as much as fits, and never a part of a character. */
static void copy_text(char *to, size_t room, const char *text)
{
    size_t len = text ? strlen(text) : 0, used = 0, width;
    while (used < len && (width = ob_utf8_width(text + used, len - used)) > 0 && used + width < room)
        used += width;
    if (used)
        memcpy(to, text, used);
    to[used] = 0;
}

static void remember_failure(struct sink *to, const struct ob_note *note, int64_t now)
{
    struct ob_observer_sink *seen = &to->seen;
    copy_text(seen->code, sizeof seen->code, note->code);
    copy_text(seen->error, sizeof seen->error, note->error);
    seen->error_us = now;
    seen->failed++;
    ob_series_set(to->series, OB_METRIC_failed_in_a_row, (double)seen->failed);
}

static void on_ended(struct ob_observer *observer, const struct ob_note *note, int64_t now)
{
    struct sink *to = sink_of(observer, note->sink);
    if (to && note->latency_us >= 0)
        ob_series_observe(to->series, OB_METRIC_delivery, note->latency_us);
    if (to && note->starved)
        on_shortage(observer, to, note, now);
    if (to && (again(note->outcome) || note->outcome == OUTBOX_FAILED))
        remember_failure(to, note, now);
    if (again(note->outcome))
        say(observer, OB_LOG_DEBUG, "attempt failed", note, now);
}

static void on_delivered(struct ob_observer *observer, const struct ob_note *note, int64_t now)
{
    struct sink *to = sink_of(observer, note->sink);
    observer->delivered++;
    ob_series_add(observer->series, OB_METRIC_delivered, 1);
    if (to) {
        to->delivered++;
        to->seen.success_us = now;
        to->seen.failed = 0;
        ob_series_set(to->series, OB_METRIC_failed_in_a_row, 0);
        ob_series_set(to->series, OB_METRIC_last_success, (double)now / 1e6);
        if (note->msg)
            ob_series_observe(to->series, OB_METRIC_end_to_end, now - note->msg->created_at_us);
    }
    say(observer, OB_LOG_DEBUG, "delivered", note, now);
}

/* Only the first time that a message is deferred is logged as news. */
static bool is_new(const struct ob_note *note)
{
    bool put_off = note->outcome == OUTBOX_LIMITED || note->outcome == OUTBOX_BLOCKED || note->outcome == OUTBOX_SILENT;
    return !put_off || !note->msg || note->msg->deferred == 0;
}

/* No answer came in either case: silent is recorded as unknown. They differ only in whether an attempt is spent. */
static enum outbox_outcome on_record(enum outbox_outcome outcome)
{
    return outcome == OUTBOX_SILENT ? OUTBOX_UNKNOWN : outcome;
}

static void on_settled(struct ob_observer *observer, const struct ob_note *note, int64_t now)
{
    const struct sink *to = sink_of(observer, note->sink);
    if (to && note->outcome >= OUTBOX_DELIVERED && note->outcome != OUTBOX_RELEASED)
        ob_series_add_to(to->series, OB_METRIC_attempts, (int)on_record(note->outcome), 1);
    if (note->outcome == OUTBOX_DELIVERED) {
        on_delivered(observer, note, now);
    } else if (note->dead) {
        observer->dead++;
        ob_series_add(observer->series, OB_METRIC_dead_letters, 1);
        say(observer, OB_LOG_WARN, "dead", note, now);
    } else if (again(note->outcome)) {
        observer->retried++;
        ob_series_add(observer->series, OB_METRIC_retried, 1);
        say(observer, is_new(note) ? OB_LOG_INFO : OB_LOG_DEBUG, "retry", note, now);
    } else if (note->outcome == OUTBOX_INTERRUPTED) {
        say(observer, OB_LOG_INFO, "interrupted", note, now);
    } else {
        say(observer, OB_LOG_DEBUG, "released", note, now);
    }
}

/* A sink that stays down is tried again and again: log when it goes down, not that it is still down. */
static void on_breaker(struct ob_observer *observer, const struct ob_note *note)
{
    static const char *const texts[OB_BREAKER_STATE_COUNT] = {
        [OB_BREAKER_CLOSED] = "breaker closed: deliveries resumed",
        [OB_BREAKER_OPEN] = "breaker open: deliveries suspended",
        [OB_BREAKER_HALF_OPEN] = "breaker half-open: probing",
    };
    static const enum ob_log_level levels[OB_BREAKER_STATE_COUNT] = {
        [OB_BREAKER_CLOSED] = OB_LOG_INFO, [OB_BREAKER_OPEN] = OB_LOG_WARN, [OB_BREAKER_HALF_OPEN] = OB_LOG_DEBUG};
    struct sink *to = sink_of(observer, note->sink);
    enum ob_log_level level = levels[note->breaker];
    bool open = note->breaker == OB_BREAKER_OPEN;
    if (observer->retired)
        return;
    if (to) {
        ob_series_set_state(to->series, OB_METRIC_breaker, (int)note->breaker);
        level = open && to->down ? OB_LOG_DEBUG : level;
        if (open && !to->down)
            to->seen.open_us = observer->wall_us();
        to->down = open || (to->down && note->breaker == OB_BREAKER_HALF_OPEN);
        if (!to->down)
            to->seen.open_us = 0;
    }
    ob_log(observer->log, level, texts[note->breaker], OB_STR("store", observer->store),
           OB_STR("sink", to ? to->name : NULL), OB_STR("breaker", ob_breaker_state_name(note->breaker)),
           OB_STR("cause", open ? ob_breaker_cause_name(note->cause) : NULL),
           OB_STR("code", open && to && to->seen.code[0] ? to->seen.code : NULL));
}

void ob_observer_note(void *ctx, const struct ob_note *note)
{
    struct ob_observer *observer = ctx;
    int64_t now = observer->wall_us();
    if (observer->traces)
        ob_tracer_note(observer->traces, note);
    switch (note->kind) {
    case OB_NOTE_CLAIMED:
        observer->claimed++;
        say(observer, OB_LOG_DEBUG, "claimed", note, now);
        break;
    case OB_NOTE_SENT: on_sent(observer, note, now); break;
    case OB_NOTE_ENDED: on_ended(observer, note, now); break;
    case OB_NOTE_SETTLED: on_settled(observer, note, now); break;
    case OB_NOTE_LOST:
        observer->lost++;
        ob_series_add(observer->series, OB_METRIC_lease_lost, 1);
        say(observer, OB_LOG_WARN, "lease lost", note, now);
        break;
    case OB_NOTE_UNROUTED:
        observer->unrouted++;
        ob_series_add(observer->series, OB_METRIC_unrouted, 1);
        say(observer, OB_LOG_INFO, "no route", note, now);
        break;
    case OB_NOTE_BREAKER: on_breaker(observer, note); break;
    case OB_NOTE_KIND_COUNT: break;
    }
}

/* ---- ticks ------------------------------------------------------------------------------------------------------- */

/* The messages held, added to those of other generations. */
static void hold(struct ob_observer *observer, const struct ob_machine_stats *stats)
{
    const struct ob_machine_stats *last = &observer->stats;
    struct ob_series *series = observer->series;
    ob_series_shift(series, OB_METRIC_held, stats->held - last->held);
    ob_series_shift(series, OB_METRIC_held_bytes, (double)stats->bytes - (double)last->bytes);
    ob_series_shift(series, OB_METRIC_in_flight, stats->in_flight - last->in_flight);
    ob_series_shift(series, OB_METRIC_settling, stats->settling - last->settling);
}

/* The core and the async store count from zero in every generation; the counters on the page must never fall. */
static void take_over(struct ob_observer *observer, const struct ob_machine_stats *stats)
{
    const struct ob_machine_stats *last = &observer->stats;
    struct ob_series *series = observer->series;
    ob_series_add(series, OB_METRIC_claims, stats->claims - last->claims);
    ob_series_add(series, OB_METRIC_claimed, stats->claimed - last->claimed);
    ob_series_add(series, OB_METRIC_renewed, stats->renewed - last->renewed);
    ob_series_add(series, OB_METRIC_released, stats->released - last->released);
    ob_series_add(series, OB_METRIC_timeouts, stats->timeouts - last->timeouts);
    ob_series_add(series, OB_METRIC_store_failures, stats->store_failures - last->store_failures);
    hold(observer, stats);
    observer->stats = *stats;
}

/* The first connection of the async store is not a reconnect. */
static uint64_t reconnects_of(const struct ob_async_store_state *async)
{
    return async->connects > 1 ? async->connects - 1 : 0;
}

static void take_over_store(struct ob_observer *observer, const struct ob_async_store_state *async)
{
    struct ob_series *series = observer->series;
    uint64_t reconnects = reconnects_of(async);
    ob_series_add(series, OB_METRIC_store_reconnects, reconnects - observer->connects);
    ob_series_add(series, OB_METRIC_wakeups, async->wakeups - observer->wakeups);
    ob_series_set(series, OB_METRIC_store_connected, async->connected);
    ob_series_set(series, OB_METRIC_store_polling, async->polling);
    observer->connects = reconnects;
    observer->wakeups = async->wakeups;
}

/* Deliveries per second, the last seconds counting most; what is left of a burst fades within half a minute. */
static void take_rates(struct ob_observer *observer)
{
    int64_t now = observer->wall_us();
    double seconds = (double)(now - observer->rate_us) / 1e6;
    if (seconds < 0.5 && seconds >= 0)
        return;
    for (int i = 0; i < observer->sink_count; i++) {
        struct sink *to = &observer->sinks[i];
        double last = seconds > 0 && observer->rate_us ? (double)(to->delivered - to->counted) / seconds : 0;
        to->seen.rate += (last - to->seen.rate) * 0.2;
        to->seen.rate = to->seen.rate < 0.01 ? 0 : to->seen.rate;
        to->counted = to->delivered;
    }
    observer->rate_us = now;
}

void ob_observer_tick(struct ob_observer *observer, const struct ob_machine_stats *stats,
                      const struct ob_async_store_state *async)
{
    if (stats)
        take_over(observer, stats);
    if (async)
        take_over_store(observer, async);
    take_rates(observer);
    int64_t since = observer->wall_us() - observer->summary_us;
    if (since >= OB_OBSERVER_SUMMARY_US || since < 0)
        ob_observer_flush(observer);
}

void ob_observer_begin(struct ob_observer *observer, const struct ob_async_store_state *async)
{
    observer->connects = reconnects_of(async);
    observer->wakeups = async->wakeups;
}

const struct ob_observer_sink *ob_observer_sink(const struct ob_observer *observer, int sink)
{
    return &observer->sinks[sink].seen;
}

void ob_observer_inherit(struct ob_observer *observer, int sink, const struct ob_observer *from, int from_sink)
{
    observer->sinks[sink].seen = from->sinks[from_sink].seen;
    observer->sinks[sink].down = from->sinks[from_sink].down;
}

void ob_observer_retire(struct ob_observer *observer)
{
    observer->retired = true;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static bool name_sinks(struct ob_observer *observer, const struct ob_observer_settings *settings)
{
    observer->sinks = ob_calloc((size_t)settings->sink_count + 1, sizeof *observer->sinks);
    if (!observer->sinks)
        return false;
    observer->sink_count = settings->sink_count;
    for (int i = 0; i < settings->sink_count; i++) {
        struct sink *to = &observer->sinks[i];
        to->name = ob_strdup(settings->sinks[i]);
        if (settings->metrics)
            to->series = ob_metrics_sink(settings->metrics, settings->store, settings->sinks[i]);
        if (!to->name || (settings->metrics && !to->series))
            return false;
    }
    return true;
}

struct ob_observer *ob_observer_new(const struct ob_observer_settings *settings)
{
    struct ob_observer *observer = ob_calloc(1, sizeof *observer);
    if (!observer)
        return NULL;
    observer->log = settings->log;
    observer->traces = settings->traces;
    observer->wall_us = settings->wall_us ? settings->wall_us : ob_clock_wall_us;
    observer->summary_us = observer->wall_us();
    observer->store = ob_strdup(settings->store);
    if (settings->metrics)
        observer->series = ob_metrics_store(settings->metrics, settings->store);
    if (!observer->store || (settings->metrics && !observer->series) || !name_sinks(observer, settings)) {
        ob_observer_free(observer);
        return NULL;
    }
    return observer;
}

void ob_observer_free(struct ob_observer *observer)
{
    if (!observer)
        return;
    hold(observer, &(struct ob_machine_stats){0});
    for (int i = 0; i < observer->sink_count; i++)
        ob_free(observer->sinks[i].name);
    ob_free(observer->sinks);
    ob_free(observer->store);
    ob_free(observer);
}

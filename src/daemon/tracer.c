/* tracer.c - see tracer.h. */
#include "daemon/tracer_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "base/uuid.h"
#include "core/trace.h"

#include <string.h>

enum { SLOTS = 4096, EVENTS = 8, CODE = 40, SPAN_ROOM = 8192 };

struct failure {
    int64_t at_us, delay_us; /* delay < 0: not known */
    int attempt;
    enum outbox_outcome outcome;
    char code[CODE];
};

/* The failed attempts of one message, the first EVENTS of them. */
struct slot {
    struct outbox_uuid id;
    int count;
    struct failure failures[EVENTS];
};

struct ob_tracer {
    struct ob_exporter *exporter;
    struct ob_series *process; /* of the metrics */
    int64_t sample;
    struct slot *slots; /* by a hash of the id; a message takes the place of another */
};

struct ob_tracer_view {
    struct ob_tracer *tracer;
    unsigned char at[OB_TRACER_FIXED]; /* attributes of every span for the outbox, as they are sent */
    size_t at_len;
    struct ob_tracer_sink *sinks;
    int sink_count;
};

static const char *const outcomes[] = {
    [OUTBOX_DELIVERED] = "delivered", [OUTBOX_RETRY] = "retry",       [OUTBOX_FAILED] = "failed",
    [OUTBOX_LOST] = "lost",           [OUTBOX_LIMITED] = "limited",   [OUTBOX_BLOCKED] = "blocked",
    [OUTBOX_UNKNOWN] = "unknown",     [OUTBOX_RELEASED] = "released", [OUTBOX_INTERRUPTED] = "interrupted",
    [OUTBOX_SILENT] = "silent"};

static const char *outcome_name(enum outbox_outcome outcome)
{
    bool known = (size_t)outcome < sizeof outcomes / sizeof outcomes[0] && outcomes[outcome];
    return known ? outcomes[outcome] : "unknown";
}

const char *ob_tracer_clean(const char *text, char *to, size_t room)
{
    size_t left = text ? strlen(text) : 0, used = 0;
    if (!text)
        return NULL;
    while (used < left && used + 1 < room && (unsigned char)text[used] < 0x80) { /* nearly all of all texts */
        to[used] = text[used];
        used++;
    }
    text += used;
    left -= used;
    while (left > 0) {
        size_t width = ob_utf8_width(text, left), taken = width ? width : 1;
        if (used + taken >= room)
            break;
        if (width)
            memcpy(to + used, text, width);
        else
            to[used] = '?';
        used += taken;
        text += taken;
        left -= taken;
    }
    to[used] = '\0';
    return to;
}

/* ---- failed attempts ---- */

static struct slot *slot_of(struct ob_tracer *tracer, const struct outbox_uuid *id)
{
    uint32_t hash;
    memcpy(&hash, id->bytes + 12, sizeof hash);
    return &tracer->slots[hash % SLOTS];
}

static void remember(struct ob_tracer *tracer, const struct ob_note *note, int64_t now)
{
    struct slot *slot = slot_of(tracer, &note->id);
    if (memcmp(&slot->id, &note->id, sizeof slot->id) != 0)
        *slot = (struct slot){.id = note->id};
    if (slot->count == EVENTS)
        return;
    struct failure *failure = &slot->failures[slot->count++];
    *failure = (struct failure){
        .at_us = now, .delay_us = note->delay_us, .attempt = note->msg->attempt, .outcome = note->outcome};
    ob_tracer_clean(note->code ? note->code : "", failure->code, sizeof failure->code);
}

static void put_failures(struct ob_tracer *tracer, const struct outbox_uuid *id, struct ob_pb *pb)
{
    struct slot *slot = slot_of(tracer, id);
    if (!slot->count || memcmp(&slot->id, id, sizeof slot->id) != 0)
        return;
    for (int i = 0; i < slot->count; i++) {
        const struct failure *failure = &slot->failures[i];
        struct ob_attribute at[4] = {{.key = "outbox.attempt", .number = failure->attempt},
                                     {.key = "outbox.outcome", .text = outcome_name(failure->outcome)}};
        size_t count = 2;
        if (*failure->code)
            at[count++] = (struct ob_attribute){.key = "error.type", .text = failure->code};
        if (failure->delay_us >= 0 && failure->delay_us != OUTBOX_NEVER)
            at[count++] = (struct ob_attribute){.key = "outbox.delay_ms", .number = failure->delay_us / 1000};
        ob_otlp_event(pb, "attempt failed", failure->at_us, at, count);
    }
    slot->count = 0;
}

/* ---- spans ---- */

static const char *state_of(const struct outbox_delivery *msg, const struct outbox_trace *trace, char *text,
                            size_t room)
{
    static const unsigned char none[8];
    bool given = memcmp(trace->parent_id, none, sizeof none) != 0;
    return given && ob_trace_header(msg, "tracestate", text, room) && ob_tracestate_ok(text) ? text : NULL;
}

static void join(char *to, size_t room, const char *first, const char *second, const char *third)
{
    const char *const parts[] = {first, second, third};
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        size_t len = strlen(parts[i]);
        len = len < room - 1 - used ? len : room - 1 - used;
        memcpy(to + used, parts[i], len);
        used += len;
    }
    to[used] = '\0';
}

static void put_message(struct ob_pb *pb, const struct outbox_delivery *msg, bool broker)
{
    char id[OB_UUID_TEXT], text[OB_TRACER_TEXT];
    outbox_uuid_format(&msg->id, id);
    ob_otlp_text(pb, "messaging.message.id", id);
    ob_otlp_text(pb, "messaging.message.conversation_id", ob_tracer_clean(msg->correlation_id, text, sizeof text));
    ob_otlp_text(pb, "outbox.namespace", ob_tracer_clean(msg->name_space, text, sizeof text));
    if (broker)
        ob_otlp_int(pb, "messaging.message.body.size", (int64_t)msg->payload_len);
}

/* The status, and error.type: of HTTP the number, as its conventions want it, otherwise our code. */
static void put_result(struct ob_pb *pb, const struct ob_note *note, enum outbox_outcome outcome, bool http)
{
    char code[OB_TRACER_TEXT], error[OB_TRACER_TEXT], text[2 * OB_TRACER_TEXT + 4];
    const char *what = note->code ? note->code : outcome == OUTBOX_LOST ? "lease_lost" : outcome_name(outcome);
    ob_otlp_text(pb, "outbox.outcome", outcome_name(outcome));
    if (outcome == OUTBOX_DELIVERED)
        return;
    ob_tracer_clean(what, code, sizeof code);
    ob_tracer_clean(note->error ? note->error : "", error, sizeof error);
    join(text, sizeof text, code, *error ? ": " : "", error);
    ob_otlp_text(pb, "error.type", http && strncmp(code, "http_", 5) == 0 ? code + 5 : code);
    ob_otlp_status(pb, OB_SPAN_ERROR, text);
}

static void attempt_span(struct ob_tracer_view *view, const struct ob_note *note, enum outbox_outcome outcome,
                         int64_t begin_us, int64_t end_us)
{
    const struct outbox_delivery *msg = note->msg;
    const struct ob_tracer_sink *sink = &view->sinks[note->sink];
    unsigned char bytes[SPAN_ROOM], parent[8];
    char name[2 * OB_TRACER_TEXT + 8], topic[OB_TRACER_TEXT], state[OB_TRACESTATE_MOST + 1];
    struct ob_pb pb;
    static const unsigned char none[8];
    ob_trace_outbox_span(msg, parent);
    ob_tracer_clean(msg->topic, topic, sizeof topic);
    join(name, sizeof name, sink->broker ? "send " : "", sink->name, sink->by_topic ? topic : "");
    struct ob_span span = {.trace_id = msg->trace.trace_id,
                           .span_id = msg->trace.span_id,
                           .parent_id = parent,
                           .state = state_of(msg, &msg->trace, state, sizeof state),
                           .name = name,
                           .kind = sink->kind,
                           .begin_us = begin_us,
                           .end_us = end_us,
                           .flags = msg->trace.flags};
    ob_pb_init(&pb, bytes, sizeof bytes);
    ob_otlp_span(&pb, &span);
    ob_pb_raw(&pb, sink->at, sink->at_len);
    if (sink->broker)
        ob_otlp_text(&pb, "messaging.destination.name", name + strlen("send "));
    put_message(&pb, msg, sink->broker);
    ob_otlp_text(&pb, "outbox.topic", topic);
    ob_otlp_int(&pb, "outbox.attempt", msg->attempt);
    if (sink->http && msg->attempt > 1)
        ob_otlp_int(&pb, "http.request.resend_count", msg->attempt - 1);
    if (sink->http && note->status > 0)
        ob_otlp_int(&pb, "http.response.status_code", note->status);
    put_result(&pb, note, outcome, sink->http);
    if (memcmp(msg->trace.parent_id, none, sizeof none) == 0)
        ob_otlp_link(&pb, msg->trace.trace_id, parent); /* the trace begins with the message: the link says which */
    ob_exporter_add(view->tracer->exporter, &pb);
}

/* A message that was never sent, such as one without a route, has no context yet. */
static bool context_of(const struct ob_tracer_view *view, const struct outbox_delivery *msg, struct outbox_trace *trace)
{
    *trace = msg->trace;
    if (!ob_trace_is_set(trace)) {
        struct outbox_delivery copy = *msg;
        ob_trace_begin(&copy, view->tracer->sample);
        *trace = copy.trace;
    }
    return ob_trace_sampled(trace);
}

static void outbox_span(struct ob_tracer_view *view, const struct ob_note *note, int64_t now)
{
    static const unsigned char none[8];
    const struct outbox_delivery *msg = note->msg;
    struct outbox_trace trace;
    unsigned char bytes[SPAN_ROOM], own[8];
    char name[OB_TRACER_TEXT + 8], topic[OB_TRACER_TEXT], state[OB_TRACESTATE_MOST + 1];
    struct ob_pb pb;
    if (!context_of(view, msg, &trace))
        return;
    ob_trace_outbox_span(msg, own);
    ob_tracer_clean(msg->topic, topic, sizeof topic);
    join(name, sizeof name, "outbox ", topic, "");
    struct ob_span span = {.trace_id = trace.trace_id,
                           .span_id = own,
                           .parent_id = memcmp(trace.parent_id, none, sizeof none) ? trace.parent_id : NULL,
                           .state = state_of(msg, &trace, state, sizeof state),
                           .name = name,
                           .kind = OB_SPAN_INTERNAL,
                           .begin_us = msg->created_at_us,
                           .end_us = now,
                           .flags = trace.flags,
                           .remote = memcmp(trace.parent_id, none, sizeof none) != 0};
    ob_pb_init(&pb, bytes, sizeof bytes);
    ob_otlp_span(&pb, &span);
    ob_pb_raw(&pb, view->at, view->at_len);
    ob_otlp_text(&pb, "messaging.destination.name", topic);
    put_message(&pb, msg, false);
    ob_otlp_int(&pb, "outbox.attempts", msg->attempt);
    put_failures(view->tracer, &msg->id, &pb);
    put_result(&pb, note, note->outcome, false);
    ob_exporter_add(view->tracer->exporter, &pb);
}

/* ---- notes ---- */

void ob_tracer_begin(void *ctx, struct outbox_delivery *msg)
{
    const struct ob_tracer_view *view = ctx;
    ob_trace_begin(msg, view->tracer->sample);
}

/* Nothing was sent: this side was short of something, or another of its key was not accepted. */
static bool not_sent(const struct ob_note *note)
{
    return note->latency_us < 0 || note->starved || (note->outcome == OUTBOX_RELEASED && !note->code);
}

void ob_tracer_note(struct ob_tracer_view *view, const struct ob_note *note)
{
    const struct outbox_delivery *msg = note->msg;
    if (!msg || note->kind == OB_NOTE_CLAIMED || note->kind == OB_NOTE_SENT || note->kind == OB_NOTE_UNROUTED)
        return;
    bool final = note->kind == OB_NOTE_SETTLED && (note->outcome == OUTBOX_DELIVERED || note->dead);
    bool attempted = note->sink >= 0 && note->sink < view->sink_count && ob_trace_sampled(&msg->trace);
    int64_t now = attempted || final ? ob_clock_wall_us() : 0;
    if (attempted && note->kind == OB_NOTE_ENDED && !not_sent(note)) {
        attempt_span(view, note, note->outcome, now - note->latency_us, now);
        if (note->outcome != OUTBOX_DELIVERED)
            remember(view->tracer, note, now);
    } else if (attempted && note->kind == OB_NOTE_LOST && note->latency_us < 0) {
        attempt_span(view, note, OUTBOX_LOST, msg->claimed_at_us + note->queued_us, now);
    }
    if (final)
        outbox_span(view, note, now);
}

/* ---- life ---- */

static void on_count(void *ctx, enum ob_export_count what, uint64_t count)
{
    static const enum ob_metric metrics[] = {OB_METRIC_spans_exported, OB_METRIC_spans_dropped, OB_METRIC_spans_failed};
    ob_series_add(((struct ob_tracer *)ctx)->process, metrics[what], count);
}

static enum outbox_code open_exporter(struct ob_tracer *tracer, const struct ob_config_traces *set,
                                      const struct ob_log *log, const char *worker, struct outbox_error *err)
{
    char *url;
    enum outbox_code code = ob_post_url(set->endpoint, &url, err);
    if (code)
        return code;
    struct ob_exporter_settings exporter = {.post = {.url = url,
                                                     .headers = set->headers,
                                                     .header_count = set->header_count,
                                                     .ca = set->ca,
                                                     .timeout_us = set->timeout_us},
                                            .service = set->service ? set->service : "outbox",
                                            .instance = worker,
                                            .version = outbox_version(),
                                            .queue = set->queue,
                                            .batch = set->batch,
                                            .interval_us = set->interval_us,
                                            .flush_us = set->flush_us,
                                            .log = log,
                                            .ctx = tracer,
                                            .count = on_count};
    code = ob_exporter_open(&exporter, &tracer->exporter, err);
    ob_free(url);
    return code;
}

enum outbox_code ob_tracer_open(const struct ob_config *config, struct ob_metrics *metrics, const struct ob_log *log,
                                const char *worker, struct ob_tracer **out, struct outbox_error *err)
{
    *out = NULL;
    if (!config->traces.endpoint)
        return OUTBOX_OK;
    struct ob_tracer *tracer = ob_calloc(1, sizeof *tracer);
    if (!tracer)
        return ob_error_nomem(err);
    tracer->process = ob_metrics_process(metrics);
    tracer->sample = config->traces.sample;
    tracer->slots = ob_calloc(SLOTS, sizeof *tracer->slots);
    enum outbox_code code =
        tracer->slots ? open_exporter(tracer, &config->traces, log, worker, err) : ob_error_nomem(err);
    if (code)
        ob_tracer_close(tracer);
    else
        *out = tracer;
    return code;
}

void ob_tracer_close(struct ob_tracer *tracer)
{
    if (!tracer)
        return;
    ob_exporter_close(tracer->exporter);
    ob_free(tracer->slots);
    ob_free(tracer);
}

struct ob_tracer_view *ob_tracer_view_new(struct ob_tracer *tracer, const struct ob_config *config, const char *store)
{
    struct ob_tracer_view *view = ob_calloc(1, sizeof *view);
    if (!view)
        return NULL;
    *view = (struct ob_tracer_view){.tracer = tracer, .sink_count = (int)config->sink_count};
    view->sinks = ob_calloc(config->sink_count + 1, sizeof *view->sinks);
    if (!view->sinks) {
        ob_tracer_view_free(view);
        return NULL;
    }
    struct ob_pb pb;
    ob_pb_init(&pb, view->at, sizeof view->at);
    ob_otlp_text(&pb, "messaging.system", "outbox");
    ob_otlp_text(&pb, "outbox.store", store);
    view->at_len = pb.full ? 0 : pb.len;
    for (size_t i = 0; i < config->sink_count; i++)
        ob_tracer_sink_init(&view->sinks[i], &config->sinks[i], store);
    return view;
}

void ob_tracer_view_free(struct ob_tracer_view *view)
{
    if (!view)
        return;
    ob_free(view->sinks);
    ob_free(view);
}

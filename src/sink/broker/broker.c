/* broker.c - the loop's side of a broker thread; see broker.h. The thread is in thread.c.
 *
 * Invariants: every job is in `live` until it is answered, or was cancelled and came back. A job that was handed over
 * belongs to the thread until it is in `back`. The host is not called after close: the thread wakes it only under the mutex,
 * and not once `stop` is set. */
#include "sink/broker/broker_int.h"
#include "sink/shortage.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { JOIN_SECONDS = 1 };

void ob_verdict_set(struct ob_verdict *verdict, enum outbox_sink_outcome outcome, const char *prefix, const char *name,
                    const char *format, ...)
{
    va_list args;
    memset(verdict, 0, sizeof *verdict);
    verdict->outcome = outcome;
    verdict->scope = OUTBOX_SCOPE_SINK;
    verdict->not_before_us = -1;
    snprintf(verdict->code, sizeof verdict->code, "%s_%s", prefix, name);
    va_start(args, format);
    vsnprintf(verdict->text, sizeof verdict->text, format, args);
    va_end(args);
}

void ob_verdict_unreachable(struct ob_verdict *verdict, const char *prefix, const char *place, const char *why)
{
    ob_verdict_set(verdict, OUTBOX_SINK_RETRY, prefix, "connect", "%s: %s", place, why);
    verdict->unreachable = true;
}

void ob_verdict_silent(const struct ob_broker *broker, struct ob_verdict *verdict, const char *place)
{
    int64_t ms = broker->connect_timeout_us / 1000;
    bool whole = ms % 1000 == 0;
    ob_verdict_set(verdict, OUTBOX_SINK_RETRY, broker->driver->prefix, "connect", "%s did not answer within %lld %s",
                   place, (long long)(whole ? ms / 1000 : ms), whole ? "s" : "ms");
    verdict->unreachable = true;
}

void ob_verdict_shortage(struct ob_verdict *verdict)
{
    ob_verdict_set(verdict, OUTBOX_SINK_NOT_SENT, "out", "of_memory", "out of memory");
    verdict->not_before_us = OB_SHORTAGE_US;
}

/* ---- jobs ---- */

static struct ob_broker_job *job_new(struct ob_broker *broker, uint64_t handle)
{
    struct ob_broker_job *job = ob_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->handle = handle;
    ob_list_init(&job->node);
    ob_headers_init(&job->headers);
    atomic_init(&job->cancelled, false);
    ob_list_push(&broker->live, &job->live);
    return job;
}

void ob_broker_job_free(struct ob_broker_job *job)
{
    if (!job)
        return;
    ob_buf_fini(&job->address);
    ob_buf_fini(&job->body);
    ob_headers_fini(&job->headers);
    ob_free(job);
}

static void answer(struct ob_broker *broker, uint64_t handle, const struct outbox_verdict *verdict)
{
    broker->host->done(broker->host->ctx, handle, verdict);
}

static void answer_verdict(struct ob_broker *broker, uint64_t handle, const struct ob_verdict *verdict)
{
    struct outbox_verdict copy = OUTBOX_VERDICT_INIT;
    copy.outcome = verdict->outcome;
    copy.scope = verdict->scope;
    copy.unreachable = verdict->unreachable;
    copy.local = verdict->local;
    copy.not_before_us = verdict->not_before_us;
    copy.code = verdict->code[0] ? verdict->code : NULL;
    copy.text = verdict->text[0] ? verdict->text : NULL;
    copy.reference = verdict->reference[0] ? verdict->reference : NULL;
    answer(broker, handle, &copy);
}

static void answer_unsent(struct ob_broker *broker, uint64_t handle)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    answer(broker, handle, &verdict);
}

static void answer_shortage(struct ob_broker *broker, uint64_t handle)
{
    struct ob_verdict verdict;
    ob_verdict_shortage(&verdict);
    answer_verdict(broker, handle, &verdict);
}

/* The jobs behind it were never handed over. They are taken out of the chain first: the host may call cancel from within
 * an answer. */
static void drop_followers(struct ob_broker *broker, struct ob_broker_job *job)
{
    struct ob_list lost, *node;
    struct ob_broker_job *next;
    ob_list_init(&lost);
    for (struct ob_broker_job *at = job->behind; at; at = next) {
        next = at->behind;
        at->ahead = at->behind = NULL;
        ob_list_push(&lost, &at->node);
    }
    job->behind = NULL;
    while ((node = ob_list_shift(&lost))) {
        struct ob_broker_job *at = OB_CONTAINER(node, struct ob_broker_job, node);
        uint64_t handle = at->handle;
        ob_list_remove(&at->live);
        ob_broker_job_free(at);
        answer_unsent(broker, handle);
    }
}

/* ---- a message becomes a job ---- */

static bool fill_address(struct ob_broker *broker, struct ob_broker_job *job)
{
    const struct outbox_delivery *msg = job->msg;
    struct outbox_error err = {0};
    json_t *payload = broker->reads_payload && ob_render_is_json(msg)
                          ? json_loadb(msg->payload, msg->payload_len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                          : NULL;
    enum outbox_code code = ob_template_render(broker->address, msg, payload, &job->address, &err);
    json_decref(payload);
    if (!code && ob_buf_ok(&job->address))
        return true;
    if (code == OUTBOX_NOMEM || !ob_buf_ok(&job->address))
        ob_verdict_shortage(&job->verdict);
    else
        ob_verdict_set(&job->verdict, OUTBOX_SINK_TERMINAL, broker->driver->prefix, "address", "%s: %s",
                       broker->driver->address, err.text);
    return false;
}

static bool fill_body(struct ob_broker *broker, struct ob_broker_job *job)
{
    const struct outbox_delivery *msg = job->msg;
    const void *data;
    size_t len;
    bool made = ob_render_body(&broker->render, msg, &job->body, &data, &len);
    if (made && data != job->body.data && len) {
        ob_buf_reset(&job->body);
        ob_buf_put(&job->body, data, len);
    }
    if (made && ob_buf_ok(&job->body))
        return true;
    ob_verdict_shortage(&job->verdict);
    return false;
}

static bool fill(struct ob_broker *broker, struct ob_broker_job *job)
{
    const struct outbox_delivery *msg = job->msg;
    struct outbox_verdict verdict;
    const char *type = ob_render_content_type(&broker->render, msg);
    outbox_uuid_format(&msg->id, job->id);
    snprintf(job->content_type, sizeof job->content_type, "%s", type ? type : "");
    snprintf(job->correlation_id, sizeof job->correlation_id, "%s", msg->correlation_id ? msg->correlation_id : "");
    job->seq = msg->seq;
    job->attempt = msg->attempt;
    job->keyed = msg->key != NULL;
    job->created_at_us = msg->created_at_us;
    job->expires_at_us = msg->expires_at_us;
    if (!ob_header_value_ok(job->content_type, strlen(job->content_type)))
        job->content_type[0] = '\0';
    ob_render_headers(&broker->render, broker->driver->wire, msg, &job->headers);
    if (job->headers.code) {
        ob_headers_verdict(&job->headers, &verdict);
        ob_verdict_set(&job->verdict, verdict.outcome, "", "", "%s", verdict.text ? verdict.text : "");
        snprintf(job->verdict.code, sizeof job->verdict.code, "%s", verdict.code ? verdict.code : "");
        job->verdict.not_before_us = verdict.not_before_us;
        return false;
    }
    return fill_address(broker, job) && fill_body(broker, job) &&
           (!broker->driver->check || broker->driver->check(broker->self, job, &job->verdict));
}

static void job_hand(struct ob_broker *broker, struct ob_broker_job *job)
{
    job->handed = broker->handed = true;
    pthread_mutex_lock(&broker->mutex);
    ob_list_push(&broker->queue, &job->node);
    pthread_mutex_unlock(&broker->mutex);
}

/* Ends a job that is not with the thread. */
static void job_finish(struct ob_broker *broker, struct ob_broker_job *job)
{
    struct ob_verdict verdict = job->verdict;
    uint64_t handle = job->handle;
    ob_list_remove(&job->live);
    answer_verdict(broker, handle, &verdict);
    drop_followers(broker, job);
    ob_broker_job_free(job);
}

/* Hands the job over, or ends it if it cannot be sent at all. */
static void job_begin(struct ob_broker *broker, struct ob_broker_job *job)
{
    if (fill(broker, job)) {
        job_hand(broker, job);
    } else {
        job->verdict.local = true;
        job_finish(broker, job);
    }
}

/* ---- what came back ---- */

static void job_returned(struct ob_broker *broker, struct ob_broker_job *job)
{
    struct ob_broker_job *next;
    job->handed = false;
    if (atomic_load(&job->cancelled)) {
        ob_list_remove(&job->live);
        ob_broker_job_free(job);
        return;
    }
    if (job->verdict.outcome == OUTBOX_SINK_ACCEPTED && (next = job->behind)) {
        job->behind = NULL;
        next->ahead = NULL;
        job_begin(broker, next);
    }
    job_finish(broker, job);
}

/* ---- the end ---- */

void ob_broker_free(struct ob_broker *broker)
{
    if (!broker)
        return;
    if (broker->self) {
        broker->driver->disconnect(broker->self);
        if (broker->driver->fini)
            broker->driver->fini(broker->self);
        ob_free(broker->self);
    }
    OB_LIST_EACH_SAFE (it, &broker->live)
        ob_broker_job_free(OB_CONTAINER(it, struct ob_broker_job, live));
    ob_template_free(broker->address);
    ob_arena_fini(&broker->arena);
    if (broker->event_fd >= 0)
        close(broker->event_fd);
    pthread_mutex_destroy(&broker->mutex);
    ob_free(broker);
}

/* The thread ends at once unless it is blocked in a library: then it is detached and frees everything itself. */
static void broker_end(struct ob_broker *broker)
{
    struct timespec until;
    pthread_mutex_lock(&broker->mutex);
    broker->stop = true;
    pthread_mutex_unlock(&broker->mutex);
    if (broker->driver->interrupt)
        broker->driver->interrupt(broker->self);
    ob_broker_kick(broker);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_SECONDS;
    if (pthread_timedjoin_np(broker->thread, NULL, &until) == 0) {
        ob_broker_free(broker);
        return;
    }
    pthread_mutex_lock(&broker->mutex);
    bool finished = broker->finished;
    broker->abandoned = true;
    pthread_t thread = broker->thread;
    pthread_mutex_unlock(&broker->mutex);
    if (finished) {
        pthread_join(thread, NULL);
        ob_broker_free(broker);
    } else {
        pthread_detach(thread);
    }
}

/* Once for all jobs that were handed over in one call of the host. */
static void kick_handed(struct ob_broker *broker)
{
    if (broker->handed)
        ob_broker_kick(broker);
    broker->handed = false;
}

void ob_broker_step(outbox_sink *sink)
{
    struct ob_broker *broker = (struct ob_broker *)(void *)sink;
    struct ob_list *node;
    for (;;) {
        pthread_mutex_lock(&broker->mutex);
        node = ob_list_shift(&broker->back);
        pthread_mutex_unlock(&broker->mutex);
        if (!node)
            break;
        job_returned(broker, OB_CONTAINER(node, struct ob_broker_job, node));
    }
    kick_handed(broker);
}

/* ---- what the host says ---- */

void ob_broker_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    struct ob_broker *broker = (struct ob_broker *)(void *)sink;
    struct ob_broker_job *last = NULL, *first = NULL;
    struct ob_list fresh;
    bool lost = false;
    ob_list_init(&fresh);
    for (size_t i = 0; i < count; i++) {
        struct ob_broker_job *job = items[i].follows && lost ? NULL : job_new(broker, items[i].handle);
        lost = !job;
        if (lost) {
            answer_shortage(broker, items[i].handle);
            last = NULL;
            continue;
        }
        job->msg = items[i].msg;
        if (items[i].follows && last) {
            job->ahead = last;
            last->behind = job;
        } else {
            ob_list_push(&fresh, &job->node);
        }
        last = job;
    }
    for (struct ob_list *node; (node = ob_list_shift(&fresh));) {
        first = OB_CONTAINER(node, struct ob_broker_job, node);
        job_begin(broker, first);
    }
    kick_handed(broker);
}

void ob_broker_ping(outbox_sink *sink, uint64_t handle)
{
    struct ob_broker *broker = (struct ob_broker *)(void *)sink;
    struct ob_broker_job *job = job_new(broker, handle);
    if (!job) {
        answer_shortage(broker, handle);
        return;
    }
    job->ping = true;
    job_hand(broker, job);
    kick_handed(broker);
}

static struct ob_broker_job *find(struct ob_broker *broker, uint64_t handle)
{
    OB_LIST_EACH (it, &broker->live) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, live);
        if (job->handle == handle && !atomic_load(&job->cancelled))
            return job;
    }
    return NULL;
}

/* A job that the thread has comes back later, and is not reported. */
void ob_broker_cancel(outbox_sink *sink, uint64_t handle)
{
    struct ob_broker *broker = (struct ob_broker *)(void *)sink;
    struct ob_broker_job *job = find(broker, handle);
    if (!job)
        return;
    atomic_store(&job->cancelled, true);
    job->msg = NULL;
    if (job->ahead)
        job->ahead->behind = NULL;
    job->ahead = NULL;
    drop_followers(broker, job);
    if (!job->handed) {
        ob_list_remove(&job->node);
        ob_list_remove(&job->live);
        ob_broker_job_free(job);
    }
    kick_handed(broker);
}

/* ---- life ---- */

const char *ob_broker_keep(struct ob_broker *broker, const struct ob_options *options, const char *name, bool *failed)
{
    const char *text;
    *failed |= ob_option_keep(options, name, &broker->arena, &text, NULL) != OUTBOX_OK;
    return text;
}

static enum outbox_code read_settings(struct ob_broker *broker, const struct ob_options *options,
                                      struct outbox_error *err)
{
    const struct ob_broker_driver *driver = broker->driver;
    const char *address = driver->address ? ob_option_string(options, driver->address) : "";
    broker->connect_timeout_us = ob_option_int(options, "connect_timeout");
    broker->ack_timeout_us = ob_option_int(options, "ack_timeout");
    broker->in_flight_max = (size_t)ob_option_int(options, "in_flight");
    broker->one_address = !strstr(address, "{{");
    for (const char *at = address; (at = strstr(at, "{{")); at += 2)
        broker->reads_payload |= at[2 + strspn(at + 2, " ")] != '@';
    enum outbox_code code = driver->open(broker->self, broker, options, err);
    if (!code)
        code = ob_render_read(&broker->render, options, &broker->arena, err);
    return code ? code : ob_template_new(address, OB_ESCAPE_NONE, &broker->address, err);
}

enum outbox_code ob_broker_open(const struct ob_broker_driver *driver, const struct outbox_sink_option *options,
                                size_t count, const struct outbox_sink_host *host, outbox_sink **sink,
                                struct outbox_error *err)
{
    struct ob_broker *broker = ob_calloc(1, sizeof *broker);
    int number;
    *sink = NULL;
    if (!broker)
        return ob_error_nomem(err);
    broker->driver = driver;
    broker->self = ob_calloc(1, driver->size);
    broker->host = host;
    broker->event_fd = -1;
    ob_arena_init(&broker->arena, 0);
    ob_list_init(&broker->live);
    ob_list_init(&broker->queue);
    ob_list_init(&broker->back);
    ob_list_init(&broker->todo);
    ob_list_init(&broker->out);
    pthread_mutex_init(&broker->mutex, NULL);
    enum outbox_code code =
        broker->self ? read_settings(broker, &(const struct ob_options){options, count, driver->settings}, err)
                     : ob_error_nomem(err);
    if (!code && (broker->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        code = ob_error_set(err, OUTBOX_INVALID, "cannot create a descriptor for the sink: %s", strerror(errno));
    if (!code && (number = pthread_create(&broker->thread, NULL, ob_broker_run, broker)))
        code = ob_error_set(err, OUTBOX_INVALID, "cannot start a thread for the sink: %s", strerror(number));
    if (code) {
        ob_broker_free(broker);
        return code;
    }
    *sink = (outbox_sink *)(void *)broker;
    return OUTBOX_OK;
}

void ob_broker_close(outbox_sink *sink)
{
    struct ob_broker *broker = (struct ob_broker *)(void *)sink;
    if (broker)
        broker_end(broker);
}

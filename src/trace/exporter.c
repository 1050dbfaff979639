/* exporter.c - see exporter.h. One lock guards the batches; it is never held during a request. */
#include "trace/exporter.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t second = 1000000;
enum { BACKOFF_FIRST_S = 1, BACKOFF_MOST_S = 30, RESOURCE = 3 };

struct batch {
    struct batch *next;
    struct ob_buf spans;
    int count;
    int64_t begun_us;
};

struct ob_exporter {
    struct ob_exporter_settings set; /* texts are owned */
    struct ob_attribute resource[RESOURCE];
    struct ob_post *post;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    struct batch *open, *first, **last; /* being filled; full */
    struct batch *spare;                /* one that was sent: its memory is used again */
    int queued;                         /* spans in all of them and in the request under way */
    bool closing;
    int64_t close_by_us;
    /* the thread's own */
    bool failing; /* the last request failed, and that was logged */
    unsigned seed;
};

/* ---- batches ---- */

static void batch_free(struct batch *batch)
{
    if (batch)
        ob_buf_fini(&batch->spans);
    ob_free(batch);
}

static void keep_batch(struct ob_exporter *exporter, struct batch *batch)
{
    batch_free(exporter->spare);
    exporter->spare = batch;
    batch->next = NULL;
    batch->count = 0;
    ob_buf_reset(&batch->spans);
}

static void close_batch(struct ob_exporter *exporter)
{
    if (!exporter->open)
        return;
    *exporter->last = exporter->open;
    exporter->last = &exporter->open->next;
    exporter->open = NULL;
}

static struct batch *open_batch(struct ob_exporter *exporter)
{
    if (exporter->open)
        return exporter->open;
    exporter->open = exporter->spare ? exporter->spare : ob_calloc(1, sizeof *exporter->open);
    exporter->spare = NULL;
    if (exporter->open)
        exporter->open->begun_us = ob_clock_boot_us();
    return exporter->open;
}

static bool add_span(struct ob_exporter *exporter, const struct ob_pb *span)
{
    if (span->full || exporter->queued >= exporter->set.queue || !open_batch(exporter))
        return false;
    struct batch *batch = exporter->open;
    size_t before = batch->spans.len;
    ob_otlp_add(&batch->spans, span);
    if (!ob_buf_ok(&batch->spans)) {
        batch->spans.failed = false; /* what was added before is whole */
        batch->spans.len = before;
        return false;
    }
    exporter->queued++;
    batch->count++;
    return true;
}

void ob_exporter_add(struct ob_exporter *exporter, const struct ob_pb *span)
{
    pthread_mutex_lock(&exporter->lock);
    bool added = add_span(exporter, span), full = added && exporter->open->count >= exporter->set.batch;
    bool first = added && exporter->open->count == 1 && !exporter->first;
    if (full)
        close_batch(exporter);
    if (full || first)
        pthread_cond_signal(&exporter->changed);
    pthread_mutex_unlock(&exporter->lock);
    if (!added)
        exporter->set.count(exporter->set.ctx, OB_SPANS_DROPPED, 1);
}

/* ---- the thread ---- */

/* Until something changes, or the time comes. Under the lock. */
static void wait_until(struct ob_exporter *exporter, int64_t at_us)
{
    struct timespec until;
    if (at_us == INT64_MAX) {
        pthread_cond_wait(&exporter->changed, &exporter->lock);
        return;
    }
    int64_t left_us = at_us - ob_clock_boot_us();
    if (left_us <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanos = until.tv_nsec + left_us % second * 1000;
    until.tv_sec += (time_t)(left_us / second + nanos / 1000000000);
    until.tv_nsec = (long)(nanos % 1000000000);
    pthread_cond_timedwait(&exporter->changed, &exporter->lock, &until);
}

/* The next batch to send, the lock held; NULL: all is sent, and the exporter closes. */
static struct batch *next_batch(struct ob_exporter *exporter)
{
    while (!exporter->first) {
        int64_t due_us = exporter->open ? exporter->open->begun_us + exporter->set.interval_us : INT64_MAX;
        if (exporter->open && (exporter->closing || ob_clock_boot_us() >= due_us))
            close_batch(exporter);
        else if (exporter->closing)
            return NULL;
        else
            wait_until(exporter, due_us);
    }
    struct batch *batch = exporter->first;
    exporter->first = batch->next;
    if (!exporter->first)
        exporter->last = &exporter->first;
    return batch;
}

static bool out_of_time(void *ctx)
{
    struct ob_exporter *exporter = ctx;
    pthread_mutex_lock(&exporter->lock);
    bool over = exporter->closing && ob_clock_boot_us() >= exporter->close_by_us;
    pthread_mutex_unlock(&exporter->lock);
    return over;
}

/* Before the next try: the time that the collector asks for, or twice as long each time, with half of it left to chance.
 * False: there is no time for another. */
static bool pause_before(struct ob_exporter *exporter, int tries, int64_t after_us)
{
    int64_t wait_us = BACKOFF_FIRST_S * second << (tries < 10 ? tries : 10);
    wait_us = wait_us < BACKOFF_MOST_S * second ? wait_us : BACKOFF_MOST_S * second;
    wait_us = after_us >= 0 ? after_us : wait_us / 2 + rand_r(&exporter->seed) % (wait_us / 2 + 1);
    int64_t at_us = ob_clock_boot_us() + wait_us;
    pthread_mutex_lock(&exporter->lock);
    while (ob_clock_boot_us() < at_us && !(exporter->closing && at_us >= exporter->close_by_us))
        wait_until(exporter, at_us);
    bool again = !exporter->closing || at_us < exporter->close_by_us;
    pthread_mutex_unlock(&exporter->lock);
    return again;
}

/* A series of failures is logged once. */
static void tell(struct ob_exporter *exporter, const struct ob_post_answer *answer)
{
    bool fails = answer->outcome != OB_POST_ACCEPTED || answer->rejected > 0;
    if (fails && !exporter->failing)
        ob_log(exporter->set.log, OB_LOG_WARN,
               answer->outcome == OB_POST_AGAIN ? "traces not exported: trying again"
                                                : "traces not exported: the collector refuses them",
               OB_STR("endpoint", exporter->set.post.url), OB_STR("error", answer->text),
               OB_INT("spans_rejected", answer->rejected));
    else if (!fails && exporter->failing)
        ob_log(exporter->set.log, OB_LOG_INFO, "traces exported again");
    exporter->failing = fails;
}

static void count(struct ob_exporter *exporter, enum ob_export_count what, int64_t spans)
{
    if (spans > 0)
        exporter->set.count(exporter->set.ctx, what, (uint64_t)spans);
}

static void send_batch(struct ob_exporter *exporter, const struct batch *batch)
{
    struct ob_buf request = OB_BUF_INIT;
    struct ob_post_answer answer = {.outcome = OB_POST_AGAIN};
    ob_otlp_head(&request, exporter->resource, RESOURCE, exporter->set.version, batch->spans.len);
    bool again = ob_buf_ok(&request) && !out_of_time(exporter);
    for (int tries = 0; again; tries++) {
        const struct ob_post_part parts[2] = {{request.data, request.len}, {batch->spans.data, batch->spans.len}};
        ob_post_send(exporter->post, parts, out_of_time, exporter, &answer);
        tell(exporter, &answer);
        again = answer.outcome == OB_POST_AGAIN && pause_before(exporter, tries, answer.after_us);
    }
    ob_buf_fini(&request);
    int64_t rejected = answer.rejected < batch->count ? answer.rejected : batch->count;
    if (answer.outcome == OB_POST_ACCEPTED) {
        count(exporter, OB_SPANS_EXPORTED, batch->count - rejected);
        count(exporter, OB_SPANS_FAILED, rejected);
    } else {
        count(exporter, answer.outcome == OB_POST_AGAIN ? OB_SPANS_DROPPED : OB_SPANS_FAILED, batch->count);
    }
}

static void *run(void *ctx)
{
    struct ob_exporter *exporter = ctx;
    struct batch *batch;
    pthread_mutex_lock(&exporter->lock);
    while ((batch = next_batch(exporter))) {
        pthread_mutex_unlock(&exporter->lock);
        send_batch(exporter, batch);
        pthread_mutex_lock(&exporter->lock);
        exporter->queued -= batch->count;
        keep_batch(exporter, batch);
    }
    pthread_mutex_unlock(&exporter->lock);
    return NULL;
}

/* ---- life ---- */

static void free_all(struct ob_exporter *exporter)
{
    ob_post_close(exporter->post);
    batch_free(exporter->spare);
    pthread_cond_destroy(&exporter->changed);
    pthread_mutex_destroy(&exporter->lock);
    for (int i = 0; i < RESOURCE; i++)
        ob_free((char *)exporter->resource[i].text);
    ob_free((char *)exporter->set.version);
    ob_free((char *)exporter->set.post.url);
    ob_free(exporter);
}

static bool keep_texts(struct ob_exporter *exporter)
{
    struct ob_exporter_settings *set = &exporter->set;
    exporter->resource[0] = (struct ob_attribute){.key = "service.name", .text = ob_strdup(set->service)};
    exporter->resource[1] = (struct ob_attribute){.key = "service.version", .text = ob_strdup(set->version)};
    exporter->resource[2] = (struct ob_attribute){.key = "service.instance.id", .text = ob_strdup(set->instance)};
    set->version = ob_strdup(set->version);
    set->post.url = ob_strdup(set->post.url);
    set->service = set->instance = NULL;
    set->post.headers = NULL;
    return exporter->resource[0].text && exporter->resource[1].text && exporter->resource[2].text && set->version &&
           set->post.url;
}

enum outbox_code ob_exporter_open(const struct ob_exporter_settings *settings, struct ob_exporter **out,
                                  struct outbox_error *err)
{
    struct ob_exporter *exporter = ob_calloc(1, sizeof *exporter);
    pthread_condattr_t monotonic;
    *out = NULL;
    if (!exporter)
        return ob_error_nomem(err);
    exporter->set = *settings;
    exporter->last = &exporter->first;
    exporter->seed = (unsigned)ob_clock_wall_us();
    pthread_mutex_init(&exporter->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&exporter->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool kept = keep_texts(exporter);
    enum outbox_code code = kept ? ob_post_open(&settings->post, &exporter->post, err) : ob_error_nomem(err);
    if (!code && pthread_create(&exporter->thread, NULL, run, exporter))
        code = ob_error_set(err, OUTBOX_INTERNAL, "cannot start the thread that exports traces");
    if (code)
        free_all(exporter);
    else
        *out = exporter;
    return code;
}

void ob_exporter_close(struct ob_exporter *exporter)
{
    if (!exporter)
        return;
    pthread_mutex_lock(&exporter->lock);
    exporter->closing = true;
    exporter->close_by_us = ob_clock_boot_us() + exporter->set.flush_us;
    pthread_cond_signal(&exporter->changed);
    pthread_mutex_unlock(&exporter->lock);
    pthread_join(exporter->thread, NULL);
    free_all(exporter);
}

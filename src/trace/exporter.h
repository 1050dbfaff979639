/* exporter.h - sends spans to a collector, in batches, from a thread of its own.
 *
 *     add ──▶ the open batch ──full, or `interval` old──▶ queue ──▶ a request ──▶ exported
 *      └─ the queue is full: dropped               ▲────── again, later ──┘ └──▶ refused: failed
 *
 * The caller of add never waits for the collector. At most `queue` spans are kept, the request under way included; when the
 * collector is away, later spans are dropped and counted. Closing sends what is left, for `flush_us` at most; the rest is
 * dropped. add belongs to one thread. */
#ifndef OB_TRACE_EXPORTER_H
#define OB_TRACE_EXPORTER_H

#include "base/log.h"
#include "trace/otlp.h"
#include "trace/post.h"

struct ob_exporter;

enum ob_export_count { OB_SPANS_EXPORTED, OB_SPANS_DROPPED, OB_SPANS_FAILED };

struct ob_exporter_settings {
    struct ob_post_settings post; /* its url: see ob_post_url */
    const char *service;          /* service.name; copied, like the other texts */
    const char *instance;         /* service.instance.id */
    const char *version;
    int queue, batch; /* in spans */
    int64_t interval_us, flush_us;
    const struct ob_log *log; /* borrowed */
    void *ctx;
    void (*count)(void *ctx, enum ob_export_count what, uint64_t count); /* from any thread */
};

enum outbox_code ob_exporter_open(const struct ob_exporter_settings *settings, struct ob_exporter **out,
                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Waits for the thread: see above. */
void ob_exporter_close(struct ob_exporter *exporter);
void ob_exporter_add(struct ob_exporter *exporter, const struct ob_pb *span);

#endif

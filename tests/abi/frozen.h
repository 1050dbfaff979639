/* frozen.h - a copy of the public interface, frozen, as somebody's older or newer headers would have it.
 *
 * Do not keep it in step with include/outbox: that is its point. With -DOLDER structs lack their last members; with -DNEWER
 * they have members that today's host and library do not know, and that today's do not fill. What is added to
 * include/outbox goes before those, under TOMORROW. */
#ifndef FROZEN_H
#define FROZEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef OLDER
#define TODAY(...)
#else
#define TODAY(...) __VA_ARGS__
#endif
#ifdef NEWER
#define TOMORROW(...) __VA_ARGS__
#else
#define TOMORROW(...)
#endif

#define OUTBOX_HAS(object, member) \
    ((size_t)((const char *)(&(object)->member + 1) - (const char *)(object)) <= (object)->size)

struct outbox_error {
    int code, class_;
    char sqlstate[6];
    char text[512];
};

struct outbox_uuid {
    uint8_t bytes[16];
};

struct outbox_message {
    size_t size;
    const char *topic;
    const void *payload;
    size_t payload_len;
    const char *content_type;
    const char *name_space;
    const char *key;
    const char *dedupe_key;
    const char *tenant_id;
    const char *subject;
    const char *recipient;
    const char *headers;
    const char *correlation_id;
    int priority;
    int max_attempts;
    int64_t deliver_after_us;
    TODAY(int64_t expires_at_us; int64_t compress_over;)
    TOMORROW(const char *colour; int64_t weight;)
};

struct outbox_receipt {
    size_t size;
    struct outbox_uuid id;
    TODAY(bool created; int64_t seq;)
    TOMORROW(int64_t position;)
};

struct outbox_lane {
    const char *name_space, *topic;
    TOMORROW(const char *tenant;)
};

struct outbox_lane_rule {
    const char *name_space, *topic;
    TODAY(bool skip; unsigned char reserved[7];)
    TOMORROW(const char *tenant;)
};

struct outbox_claim {
    size_t size;
    const char *worker;
    int limit;
    int64_t lease_us;
    const char *name_space;
    const char *const *topics;
    size_t topic_count;
    const char *tenant_id;
    int max_attempts;
    int run;
    bool prefetch;
    int64_t retry_base_us;
    int64_t retry_cap_us;
    size_t lane_size;
    size_t rule_size;
    const struct outbox_lane *only;
    size_t only_count;
    const struct outbox_lane *skip;
    size_t skip_count;
    TODAY(size_t max_bytes; const struct outbox_lane_rule *rules; size_t rule_count;)
    TOMORROW(bool hurry; int64_t patience_us;)
};

struct outbox_delivery {
    size_t size;
    struct outbox_uuid id;
    int64_t token;
    const char *name_space, *topic;
    const char *tenant_id, *key;
    int64_t seq;
    const char *dedupe_key, *subject, *recipient, *headers, *correlation_id, *content_type;
    const void *payload;
    size_t payload_len;
    int priority;
    int attempt;
    int spent;
    int max_attempts;
    bool redriven;
    int64_t created_at_us, claimed_at_us, locked_until_us, expires_at_us;
    TODAY(int fault; int64_t stream; int deferred; int lost;)
    TOMORROW(bool own_attempts; int64_t retry_base_us, retry_cap_us; unsigned char trace[40]; const char *colour;)
};

struct outbox_settle {
    size_t size;
    struct outbox_uuid id;
    int64_t token;
    int outcome;
    int result;
    bool dead;
    int max_attempts;
    const char *code;
    const char *error;
    const char *reference;
    TODAY(const char *output; int64_t delay_us; int64_t latency_us;)
    TOMORROW(const char *colour; int64_t weight;)
};

/* ---- sinks ---- */

struct outbox_verdict {
    size_t size;
    int outcome;
    int scope;
    bool unreachable;
    bool local;
    const char *code;
    const char *text;
    TODAY(int64_t not_before_us; const char *reference; const char *output;)
    TOMORROW(int status; unsigned char reserved[4]; const char *colour;)
};

struct outbox_sink_item {
    uint64_t handle;
    const struct outbox_delivery *msg;
    TODAY(bool follows; unsigned char reserved[7];)
    TOMORROW(int64_t deadline_us;)
};

struct outbox_sink_host {
    size_t size;
    void *ctx;
    void *loop;
    void (*done)(void *ctx, uint64_t handle, const struct outbox_verdict *verdict);
    void (*wake)(void *ctx);
    int64_t (*now_us)(void *ctx);
    void (*log)(void *ctx, int level, const char *text);
    TODAY(const char *name; int64_t timeout_us;)
    TOMORROW(void (*count)(void *ctx, const char *metric);)
};

struct outbox_sink_option {
    const char *name, *value;
    TOMORROW(int64_t line;)
};

struct outbox_sink_setting {
    const char *name;
    int type;
    const char *fallback;
    const char *choices;
    int64_t least, most;
    TODAY(bool required, secret, hidden; const char *doc; const char *also;)
    TOMORROW(const char *unit;)
};

typedef struct outbox_sink outbox_sink;

struct outbox_sink_check {
    size_t size;
    const struct outbox_sink_option *options;
    size_t count;
    int64_t timeout_us;
    int64_t after_cap_us;
    void *ctx;
    void (*problem)(void *ctx, bool error, const char *setting, const char *text);
    TOMORROW(int64_t concurrency;)
};

struct outbox_sink_ops {
    size_t size;
    int abi;
    bool keeps_order;
    size_t item_size;
    size_t option_size;
    size_t setting_size;
    const char *kind;
    int (*open)(const struct outbox_sink_option *options, size_t count, const struct outbox_sink_host *host,
                outbox_sink **sink, struct outbox_error *err);
    void (*deliver)(outbox_sink *sink, const struct outbox_sink_item *items, size_t count);
    void (*cancel)(outbox_sink *sink, uint64_t handle);
    void (*step)(outbox_sink *sink);
    void (*close)(outbox_sink *sink);
    const struct outbox_sink_setting *settings;
    TODAY(void (*ping)(outbox_sink *sink, uint64_t handle); const char *summary; const char *limit; int descriptors;
          int descriptors_each; const char *connections; int64_t limit_margin_us; int64_t patience_us; const char *also;
          void (*check)(const struct outbox_sink_check *check);)
    TOMORROW(const char *protocol; const char *peer; const char *destination; void (*drain)(outbox_sink *sink);
             const char *colour;)
};

/* ---- functions ---- */

typedef struct outbox_store outbox_store;
typedef struct outbox_batch outbox_batch;

int outbox_open(const char *url, const void *options, outbox_store **store, struct outbox_error *err);
void outbox_close(outbox_store *store);
int outbox_send(outbox_store *store, const struct outbox_message *msg, struct outbox_receipt *receipt,
                struct outbox_error *err);
int outbox_claim(outbox_store *store, const struct outbox_claim *want, outbox_batch **batch, struct outbox_error *err);
size_t outbox_batch_size(const outbox_batch *batch);
const struct outbox_delivery *outbox_batch_at(const outbox_batch *batch, size_t i);
void outbox_batch_free(outbox_batch *batch);
int outbox_settle(outbox_store *store, struct outbox_settle *items, size_t count, struct outbox_error *err);
void outbox_uuid_format(const struct outbox_uuid *id, char text[37]);

#endif

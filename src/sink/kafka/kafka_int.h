/* kafka_int.h - shared by the files of the Kafka sink; see kafka.c.
 *
 * Thread: the loop's, except for ob_kafka_partition, which librdkafka calls from any thread that learns of a topic. */
#ifndef OB_SINK_KAFKA_KAFKA_INT_H
#define OB_SINK_KAFKA_KAFKA_INT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "sink/common/header.h"
#include "sink/common/render.h"

#include <outbox/sink.h>

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <uv.h>

/* ---- settings (config.c) ---- */

typedef int32_t ob_kafka_partitioner(const rd_kafka_topic_t *topic, const void *key, size_t key_len, int32_t count,
                                     void *topic_opaque, void *msg_opaque);

struct ob_kafka_config {
    struct ob_arena arena;
    rd_kafka_conf_t *base; /* duplicated for every producer */
    struct ob_render render;
    const char *topic, *topic_prefix, *tombstone_header; /* NULL: not given */
    bool tombstones;
    ob_kafka_partitioner *partitioner;
    bool by_key; /* it always maps a key to the same partition */
    int64_t timeout_us;
};

extern const struct outbox_sink_setting ob_kafka_settings[];

/* The host's time limit exceeds delivery_timeout by this, so that late deliveries can still be reported. */
enum { OB_KAFKA_MARGIN_US = 2000000 };
void ob_kafka_config_check(const struct outbox_sink_check *check); /* ops->check */
enum outbox_code ob_kafka_config_read(struct ob_kafka_config *config, const struct ob_options *options,
                                      struct outbox_error *err);
void ob_kafka_config_fini(struct ob_kafka_config *config);
ob_kafka_partitioner ob_kafka_partition;

/* ---- what a message becomes (record.c) ---- */

struct ob_kafka_record {
    struct ob_buf topic, body;
    struct ob_headers headers;
    const char *name; /* of the topic */
    const void *value;
    size_t len;
};

void ob_kafka_record_init(struct ob_kafka_record *record);
void ob_kafka_record_fini(struct ob_kafka_record *record);
/* If the message can never be sent, or memory ran out, it fills the verdict and returns false. Borrows from msg. */
bool ob_kafka_record_make(struct ob_kafka_record *record, const struct ob_kafka_config *config,
                          const struct outbox_delivery *msg, struct outbox_verdict *verdict);
/* The topic of the record, also in record->name. NULL: out of memory. */
const char *ob_kafka_record_topic(struct ob_kafka_record *record, const struct ob_kafka_config *config,
                                  const struct outbox_delivery *msg);
/* Whether a topic may have this name: 1 to 249 letters, digits, '.', '_' and '-'; not "." or "..". */
bool ob_kafka_topic_ok(const char *name);

/* ---- what an error means (verdict.c) ---- */

struct ob_kafka_meaning {
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope;
    bool unreachable;
    bool of_batch;    /* one message was wrong, and all messages of its request got the error */
    bool of_replace;  /* says nothing about the message: its producer was replaced */
    const char *hint; /* what an operator can do; NULL: nothing */
};

/* For the error of a message that was certainly not persisted. */
struct ob_kafka_meaning ob_kafka_mean(rd_kafka_resp_err_t err);
/* Such as "kafka_msg_size_too_large"; written to buf. */
const char *ob_kafka_code(rd_kafka_resp_err_t err, char *buf, size_t size);

/* Texts of verdicts: what happened, to which topic, and the next step. Each function fills text and returns it. */
struct ob_kafka_text {
    char text[900];
};
/* topic NULL: the error is not about one topic. */
const char *ob_kafka_text_refused(const outbox_sink *sink, rd_kafka_resp_err_t err, const char *topic,
                                  struct ob_kafka_text *text);
const char *ob_kafka_text_late(const outbox_sink *sink, const char *topic, struct ob_kafka_text *text);
const char *ob_kafka_text_doubt(const outbox_sink *sink, const char *topic, struct ob_kafka_text *text);
const char *ob_kafka_text_full(const outbox_sink *sink, struct ob_kafka_text *text);

/* ---- producers (producer.c) ---- */

enum ob_kafka_batching {
    OB_KAFKA_BATCHED, /* batches */
    OB_KAFKA_SINGLE,  /* one request per message: finds the wrong message of a refused batch */
    OB_KAFKA_PRODUCERS
};

enum { OB_KAFKA_WARM = 1024, OB_KAFKA_TOPICS = 256 };

/* A librdkafka producer on the loop. It is not reused: a replacement creates a new one. */
struct ob_kafka_producer {
    outbox_sink *sink;
    enum ob_kafka_batching batching;
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    int event_fd;
    uv_poll_t poll;
    uv_work_t end;
    int uses;            /* by pings */
    int parts;           /* steps of its shutdown that are still to come */
    atomic_bool retired; /* also read by librdkafka's threads */
    bool ending;
    struct ob_list orphans; /* entries whose reports never came: librdkafka may still access them */
    struct {
        uint64_t place; /* topic and partition, hashed */
        int64_t at_us;
    } warm[OB_KAFKA_WARM]; /* partitions where the broker acknowledged this producer */
    rd_kafka_topic_t *topics[OB_KAFKA_TOPICS];
};

struct ob_kafka_producer *ob_kafka_producer_new(outbox_sink *sink, enum ob_kafka_batching batching,
                                                struct outbox_error *err);
void ob_kafka_producer_serve(struct ob_kafka_producer *producer);
/* Takes no more reports from it; it shuts down off the loop. Accepts NULL. */
void ob_kafka_producer_retire(struct ob_kafka_producer *producer);
void ob_kafka_producer_use(struct ob_kafka_producer *producer);
void ob_kafka_producer_unuse(struct ob_kafka_producer *producer);
/* The topic, of this hash. librdkafka asks for its leaders as soon as it is known here; a topic that it learns of by a record
 * waits up to a second. NULL: rd_kafka_last_error says why. */
rd_kafka_topic_t *ob_kafka_producer_topic(struct ob_kafka_producer *producer, uint64_t hash, const char *name);
void ob_kafka_producer_warm(struct ob_kafka_producer *producer, uint64_t topic, int32_t partition, int64_t now_us);
bool ob_kafka_producer_is_warm(const struct ob_kafka_producer *producer, uint64_t topic, int32_t partition,
                               int64_t now_us);

/* ---- the sink (kafka.c) ---- */

/* One message between deliver and its verdict. */
struct ob_kafka_entry {
    struct ob_list node; /* in waiting, in out, or in a producer's orphans */
    outbox_sink *sink;
    uint64_t handle;
    const struct outbox_delivery *msg; /* NULL: cancelled */
    struct ob_kafka_entry *ahead, *behind;
    uint64_t number; /* in order of arrival */
    int64_t since_us;
    uint64_t topic; /* hashed */
    atomic_int partition;
    enum ob_kafka_batching batching;
    bool out;    /* handed to librdkafka */
    bool tried;  /* was handed to librdkafka before */
    bool broken; /* the message it follows was not accepted */
};

enum ob_kafka_replace { OB_KAFKA_NO_REPLACE, OB_KAFKA_CANCELLED, OB_KAFKA_OVERDUE, OB_KAFKA_FATAL, OB_KAFKA_REFUSED };
enum ob_kafka_phase { OB_KAFKA_RUNNING, OB_KAFKA_DRAINING, OB_KAFKA_PURGING };

struct outbox_sink {
    const struct outbox_sink_host *host;
    struct ob_kafka_config config;
    struct ob_kafka_producer *producers[OB_KAFKA_PRODUCERS];
    struct ob_list waiting, out, pings;
    size_t out_count;
    uint64_t arrived;
    struct ob_kafka_record record;
    uv_timer_t timer;
    enum ob_kafka_phase phase;
    enum ob_kafka_replace replacing;
    int64_t phase_until_us, armed_us;
    bool producing, again;       /* a pass over waiting is in progress; it must be repeated */
    bool starved;                /* the last pass ended because of a shortage: no report will say when to continue */
    int refs;                    /* producers and handles that still point here */
    bool closing;                /* closed; it is freed when refs is 0 */
    rd_kafka_resp_err_t refused; /* why the broker refuses this client */
    char refused_code[64];       /* its name */
    char last_error[256];        /* the last error that librdkafka reported */
};

int64_t ob_kafka_now_us(const outbox_sink *sink);
void ob_kafka_unref(outbox_sink *sink);
void ob_kafka_answer(outbox_sink *sink, uint64_t handle, const struct outbox_verdict *verdict);
/* Called by librdkafka within ob_kafka_producer_serve. */
void ob_kafka_reported(struct ob_kafka_entry *entry, const rd_kafka_message_t *report);
void ob_kafka_troubled(struct ob_kafka_producer *producer, rd_kafka_resp_err_t err, const char *text);
/* Sends the waiting entries that may be sent now. */
void ob_kafka_push(outbox_sink *sink);

/* Replaces the producers. Messages that they have not sent are sent by new ones, or get a verdict. (replace.c) */
void ob_kafka_replace_begin(outbox_sink *sink, enum ob_kafka_replace replacing);
/* Continues it: after reports, and when its time is up. */
void ob_kafka_replace_step(outbox_sink *sink);
/* Sets the timer to the next deadline. */
void ob_kafka_arm(outbox_sink *sink);

/* entry.c. The host may call back from within unsent, end and again. */
struct ob_kafka_entry *ob_kafka_entry_new(outbox_sink *sink, const struct outbox_sink_item *item, int64_t now_us);
void ob_kafka_entry_unsent(struct ob_kafka_entry *entry);
void ob_kafka_entry_end(struct ob_kafka_entry *entry, const struct outbox_verdict *verdict);
/* It was not persisted, and not because of the message itself. */
void ob_kafka_entry_again(struct ob_kafka_entry *entry);

/* ping.c */
void ob_kafka_ping(outbox_sink *sink, uint64_t handle);
bool ob_kafka_ping_cancel(outbox_sink *sink, uint64_t handle);

#endif

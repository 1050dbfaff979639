/* report.h - what is said about messages, attempts, acts, topics, relays and pauses: as JSON documents, the same from the command
 * line and the API. def/json.def describes them.
 *
 * No printing, no HTTP and no SQL: a function reads from a store and writes into a struct ob_json. After an error the document is not
 * complete: throw it away. Texts come from the database and are not trusted. */
#ifndef OB_REPORT_REPORT_H
#define OB_REPORT_REPORT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "core/store.h"

/* ---- whole documents ---- */

/* `status --json` */
enum outbox_code ob_report_status(struct ob_store *store, struct ob_json *json,
                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* `show --json`; OUTBOX_UNKNOWN_MESSAGE if there is no such message. */
enum outbox_code ob_report_show(struct ob_store *store, const struct outbox_uuid *id, struct ob_json *json,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* `explain --json` */
enum outbox_code ob_report_explain(struct ob_store *store, const struct outbox_uuid *id, struct ob_json *json,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- parts ---- */

void ob_json_time(struct ob_json *json, const char *key, int64_t unix_us); /* 0: null */
void ob_json_text(struct ob_json *json, const char *key, const char *text);
void ob_json_count(struct ob_json *json, const char *key, int64_t value);
/* A column that should hold JSON, written as a string if it does not; NULL: null. */
void ob_json_document(struct ob_json *json, const void *text, size_t len);
/* One message as a JSON object. */
void ob_json_message(struct ob_json *json, const struct ob_message_row *row, bool with_payload);
void ob_json_group(struct ob_json *json, const struct ob_group_row *row);
void ob_json_token(struct ob_json *json, const struct ob_token_row *row);
/* Something that happened: a line of `tail --json`. */
void ob_json_transition(struct ob_json *json, const struct ob_transition_row *row);
/* whole: with the message and the detail. */
void ob_json_act(struct ob_json *json, const struct ob_act_row *row, bool whole);

const char *ob_outcome_name(enum outbox_outcome outcome);
/* "3 s", "12 min", "4 h", "9 days" */
void ob_age_text(double seconds, char text[32]);
/* " by ann since 2024-05-01T12:34:56Z (3 h): reason"; NULL and 0: not known. */
void ob_by_text(struct ob_buf *buf, const char *actor, const char *reason, int64_t at_us);

/* ---- what operators changed ---- */

/* The pauses in force. Call fini in any case. */
struct ob_pauses {
    struct ob_pause_row *items;
    size_t count, room;
    struct ob_arena arena;
    bool failed;
};
enum outbox_code ob_pauses_read(struct ob_store *store, struct ob_pauses *pauses,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_pauses_fini(struct ob_pauses *pauses);
bool ob_pauses_have(const struct ob_pauses *pauses, const struct ob_pause_row *pause);
void ob_pause_text(struct ob_buf *buf, const struct ob_pause_row *pause);
/* "everything, default/orders, sink billing", except those in `without`; NULL: all. */
void ob_pauses_text(struct ob_buf *buf, const struct ob_pauses *pauses, const struct ob_pauses *without);
void ob_pauses_json(struct ob_json *json, const struct ob_pauses *pauses);

/* The settings of relays that operators changed. `enabled off` is why nothing is delivered. Call fini in any case. */
enum { OB_TUNINGS_MOST = 200 };
struct ob_tunings {
    struct ob_arena arena;
    struct ob_tuning_row rows[OB_TUNINGS_MOST];
    size_t count;
};
enum outbox_code ob_tunings_read(struct ob_store *store, struct ob_tunings *tunings,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_tunings_fini(struct ob_tunings *tunings);
void ob_tunings_json(struct ob_json *json, const struct ob_tunings *tunings);

/* ---- the relays and their sinks, as they report themselves ---- */

struct ob_relays;
enum outbox_code ob_relays_read(struct ob_store *store, struct ob_relays **out,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_relays_free(struct ob_relays *relays);
void ob_relays_json(struct ob_json *json, const struct ob_relays *relays); /* adds "relays" and "sinks" to an object */
size_t ob_relays_alive(const struct ob_relays *relays);
bool ob_relays_deliver(const struct ob_relays *relays); /* one of them is alive and not switched off */

/* Texts are borrowed, NULL where there is none. */
struct ob_relay_info {
    const char *worker, *host, *version, *state, *digest;
    int64_t pid, started_at_us, seen_at_us;
    bool alive, enabled;
};
typedef void ob_relay_each_fn(void *ctx, const struct ob_relay_info *relay);
void ob_relays_each(const struct ob_relays *relays, ob_relay_each_fn *fn, void *ctx);

/* A sink of a relay that is alive. Texts are borrowed, NULL where there is none; times are those of the relay, as text. */
struct ob_relay_sink {
    const char *relay, *name, *kind, *breaker, *cause, *since, *next_probe, *code, *error, *error_at, *success_at,
        *rate_limit, *limited_until;
    int64_t failed, in_flight, concurrency;
    double rate;
    bool paused;
};
typedef void ob_relay_sink_fn(void *ctx, const struct ob_relay_sink *sink);
void ob_relays_sinks(const struct ob_relays *relays, ob_relay_sink_fn *fn, void *ctx);
/* Whether a relay that is alive and not switched off has a route for the topic; also true where that is not known. */
bool ob_relays_serve(const struct ob_relays *relays, const char *name_space, const char *topic);

#endif

/* message.c - a message, its attempts and acts as JSON. */
#include "report/report.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json_check.h"
#include "core/codec.h"
#include "core/filter.h"

#include <string.h>

void ob_json_text(struct ob_json *json, const char *key, const char *text)
{
    ob_json_key(json, key);
    ob_json_string(json, text);
}

void ob_json_count(struct ob_json *json, const char *key, int64_t value)
{
    ob_json_key(json, key);
    ob_json_int(json, value);
}

void ob_json_time(struct ob_json *json, const char *key, int64_t unix_us)
{
    char text[OB_CLOCK_TEXT];
    if (unix_us)
        ob_clock_format(unix_us, text);
    ob_json_text(json, key, unix_us ? text : NULL);
}

static void put_base64(struct ob_json *json, const unsigned char *data, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct ob_buf buf = OB_BUF_INIT;
    for (size_t i = 0; i < len; i += 3) {
        unsigned group = (unsigned)data[i] << 16 | (i + 1 < len ? (unsigned)data[i + 1] << 8 : 0) |
                         (i + 2 < len ? (unsigned)data[i + 2] : 0);
        ob_buf_putc(&buf, letters[group >> 18]);
        ob_buf_putc(&buf, letters[group >> 12 & 63]);
        ob_buf_putc(&buf, (char)(i + 1 < len ? letters[group >> 6 & 63] : '='));
        ob_buf_putc(&buf, (char)(i + 2 < len ? letters[group & 63] : '='));
    }
    ob_json_string_n(json, ob_buf_text(&buf), buf.len);
    ob_buf_fini(&buf);
}

void ob_json_document(struct ob_json *json, const void *text, size_t len)
{
    if (!text)
        ob_json_null(json);
    else if (!ob_json_valid(text, len))
        ob_json_string_n(json, text, len);
    else {
        struct ob_buf shown = OB_BUF_INIT;
        ob_json_shown(&shown, text, len);
        ob_json_raw_line(json, ob_buf_text(&shown), shown.len);
        json->buf->failed |= !ob_buf_ok(&shown);
        ob_buf_fini(&shown);
    }
}

void ob_json_message(struct ob_json *json, const struct ob_message_row *row, bool with_payload)
{
    char id[37];
    outbox_uuid_format(&row->id, id);
    ob_json_object(json);
    ob_json_text(json, "id", id);
    ob_json_text(json, "status", ob_status_name(row->status));
    ob_json_text(json, "namespace", row->name_space);
    ob_json_text(json, "topic", row->topic);
    ob_json_text(json, "tenant_id", row->tenant_id);
    ob_json_text(json, "key", row->key);
    ob_json_key(json, "seq");
    if (row->seq)
        ob_json_int(json, row->seq);
    else
        ob_json_null(json);
    ob_json_text(json, "dedupe_key", row->dedupe_key);
    ob_json_text(json, "subject", row->subject);
    ob_json_text(json, "recipient", row->recipient);
    ob_json_text(json, "correlation_id", row->correlation_id);
    ob_json_count(json, "priority", row->priority);
    ob_json_count(json, "attempts", row->attempts);
    ob_json_count(json, "spent", row->spent);
    ob_json_count(json, "max_attempts", row->max_attempts);
    ob_json_text(json, "max_attempts_from", row->max_attempts_from);
    ob_json_count(json, "deferred", row->deferred);
    ob_json_key(json, "redriven");
    ob_json_bool(json, row->redriven);
    ob_json_key(json, "parked");
    ob_json_bool(json, row->parked);
    ob_json_text(json, "locked_by", row->locked_by);
    ob_json_time(json, "locked_until", row->locked_until_us);
    ob_json_text(json, "last_code", row->last_code);
    ob_json_text(json, "last_error", row->last_error);
    ob_json_text(json, "dead_reason", row->dead_reason);
    ob_json_time(json, "created_at", row->created_at_us);
    ob_json_time(json, "updated_at", row->updated_at_us);
    ob_json_time(json, "next_attempt_at", row->next_attempt_at_us);
    ob_json_time(json, "delivered_at", row->delivered_at_us);
    ob_json_time(json, "expires_at", row->expires_at_us);
    ob_json_key(json, "headers");
    ob_json_document(json, row->headers, row->headers ? strlen(row->headers) : 0);
    ob_json_text(json, "content_type", row->content_type);
    if (with_payload && row->fault) {
        ob_json_text(json, "payload", NULL);
        ob_json_text(json, "payload_fault", ob_codec_fault_text(row->fault));
        if (row->payload) {
            ob_json_key(json, "payload_base64");
            put_base64(json, row->payload, row->payload_len);
        }
    } else if (with_payload && !row->content_type) {
        ob_json_key(json, "payload");
        ob_json_document(json, row->payload, row->payload_len);
    } else if (with_payload) {
        ob_json_key(json, "payload_base64");
        put_base64(json, row->payload, row->payload_len);
    }
    ob_json_end(json);
}

/* ---- the message with its history ---- */

const char *ob_outcome_name(enum outbox_outcome outcome)
{
    static const char *const names[] = {"processing", "delivered", "retry",   "failed",   "lost",
                                        "limited",    "blocked",   "unknown", "released", "interrupted"};
    return outcome <= OUTBOX_INTERRUPTED ? names[outcome] : "unknown";
}

struct shown {
    struct ob_json *json;
    size_t count;
};

static bool put_message(void *ctx, const struct ob_message_row *row)
{
    struct shown *shown = ctx;
    shown->count++;
    ob_json_key(shown->json, "message");
    ob_json_message(shown->json, row, true);
    return false;
}

static bool put_attempt(void *ctx, const struct ob_attempt_row *row)
{
    struct ob_json *json = ((struct shown *)ctx)->json;
    ob_json_object(json);
    ob_json_count(json, "attempt_no", row->attempt);
    ob_json_text(json, "outcome", ob_outcome_name(row->outcome));
    ob_json_text(json, "worker", row->worker);
    ob_json_time(json, "claimed_at", row->claimed_at_us);
    ob_json_time(json, "completed_at", row->completed_at_us);
    ob_json_key(json, "latency_ms");
    if (row->latency_us < 0)
        ob_json_null(json);
    else
        ob_json_double(json, (double)row->latency_us / 1000);
    ob_json_text(json, "code", row->code);
    ob_json_text(json, "error", row->error);
    ob_json_text(json, "reference", row->reference);
    ob_json_end(json);
    return true;
}

void ob_json_act(struct ob_json *json, const struct ob_act_row *row, bool whole)
{
    ob_json_object(json);
    ob_json_time(json, "at", row->at_us);
    ob_json_text(json, "actor", row->actor);
    ob_json_text(json, "action", row->action);
    ob_json_text(json, "reason", row->reason);
    if (whole) {
        ob_json_text(json, "message_id", row->message_id);
        ob_json_key(json, "detail");
        ob_json_document(json, row->detail, row->detail ? strlen(row->detail) : 0);
    }
    ob_json_end(json);
}

static void put_list(struct ob_json *json, const char *key, const char *list)
{
    ob_json_key(json, key);
    ob_json_raw_line(json, list ? list : "[]", list ? strlen(list) : 2);
}

void ob_json_group(struct ob_json *json, const struct ob_group_row *row)
{
    ob_json_object(json);
    ob_json_text(json, "fingerprint", row->fingerprint);
    ob_json_text(json, "code", row->code);
    ob_json_text(json, "sample", row->sample);
    ob_json_text(json, "message_id", row->message_id);
    ob_json_count(json, "count", row->count);
    ob_json_count(json, "dead", row->dead);
    ob_json_count(json, "retrying", row->retrying);
    ob_json_key(json, "estimated"), ob_json_bool(json, row->estimated);
    ob_json_time(json, "first_seen", row->first_seen_us);
    ob_json_time(json, "last_seen", row->last_seen_us);
    put_list(json, "topics", row->topics);
    put_list(json, "sinks", row->sinks);
    ob_json_end(json);
}

void ob_json_token(struct ob_json *json, const struct ob_token_row *row)
{
    ob_json_object(json);
    ob_json_text(json, "name", row->name);
    ob_json_text(json, "role", row->role);
    ob_json_text(json, "tenant_id", row->tenant_id);
    ob_json_time(json, "created_at", row->created_at_us);
    ob_json_text(json, "created_by", row->created_by);
    ob_json_time(json, "expires_at", row->expires_at_us);
    ob_json_time(json, "used_at", row->used_at_us);
    ob_json_time(json, "revoked_at", row->revoked_at_us);
    ob_json_text(json, "revoked_by", row->revoked_by);
    ob_json_end(json);
}

static bool put_act(void *ctx, const struct ob_act_row *row)
{
    ob_json_act(((struct shown *)ctx)->json, row, false);
    return true;
}

enum outbox_code ob_report_show(struct ob_store *store, const struct outbox_uuid *id, struct ob_json *json,
                                struct outbox_error *err)
{
    const struct ob_store_ops *ops = store->ops;
    struct ob_filter filter = {.ids = id, .id_count = 1, .with_payload = true, .limit = 1};
    struct shown shown = {.json = json};
    char text[37];
    ob_json_object(json);
    enum outbox_code code = ops->list(store, &filter, put_message, &shown, err);
    if (!code && shown.count == 0) {
        outbox_uuid_format(id, text);
        code = ob_error_set(err, OUTBOX_UNKNOWN_MESSAGE, "there is no message %s; %s", text,
                            ob_code_todo(OUTBOX_UNKNOWN_MESSAGE));
    }
    if (code)
        return code;
    ob_json_key(json, "attempts");
    ob_json_array(json);
    code = ops->attempts(store, id, put_attempt, &shown, err);
    if (code)
        return code;
    ob_json_end(json);
    ob_json_key(json, "acts");
    ob_json_array(json);
    code = ops->acts(store, id, put_act, &shown, err);
    if (code)
        return code;
    ob_json_end(json);
    ob_json_end(json);
    return OUTBOX_OK;
}

/* ---- why it is not delivered ---- */

static bool put_answer(void *ctx, const struct ob_explain_row *row)
{
    struct ob_json *json = ((struct shown *)ctx)->json;
    ob_json_object(json);
    ob_json_count(json, "step", row->step);
    ob_json_text(json, "message_id", row->message_id);
    ob_json_text(json, "state", row->state);
    ob_json_text(json, "reason", row->reason);
    ob_json_key(json, "facts");
    ob_json_document(json, row->facts, row->facts ? strlen(row->facts) : 0);
    ob_json_text(json, "command", row->command);
    ob_json_end(json);
    return true;
}

enum outbox_code ob_report_explain(struct ob_store *store, const struct outbox_uuid *id, struct ob_json *json,
                                   struct outbox_error *err)
{
    struct shown shown = {.json = json};
    char text[37];
    outbox_uuid_format(id, text);
    ob_json_object(json);
    ob_json_text(json, "id", text);
    ob_json_key(json, "answers");
    ob_json_array(json);
    enum outbox_code code = store->ops->explain(store, id, put_answer, &shown, err);
    if (code)
        return code;
    ob_json_end(json);
    ob_json_end(json);
    return OUTBOX_OK;
}

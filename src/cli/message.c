/* message.c - a message as JSON, the same in every command that shows one. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/json_check.h"
#include "core/codec.h"

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

/* A column that should hold JSON; written as a string if it does not. */
static void put_document(struct ob_json *json, const void *text, size_t len)
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
    put_document(json, row->headers, row->headers ? strlen(row->headers) : 0);
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
        put_document(json, row->payload, row->payload_len);
    } else if (with_payload) {
        ob_json_key(json, "payload_base64");
        put_base64(json, row->payload, row->payload_len);
    }
    ob_json_end(json);
}

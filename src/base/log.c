/* log.c - builds a line in a buffer and writes it with one call. */
#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

const char *ob_log_level_name(enum ob_log_level level)
{
    return (unsigned)level <= OB_LOG_OFF ? level_names[level] : "unknown";
}

bool ob_log_level_parse(const char *name, enum ob_log_level *level)
{
    for (int i = OB_LOG_DEBUG; i <= OB_LOG_OFF; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum ob_log_level)i;
            return true;
        }
    }
    return false;
}

bool ob_log_wants(const struct ob_log *log, enum ob_log_level level)
{
    return log && level >= log->level && level < OB_LOG_OFF;
}

/* Whether logfmt can write the text without quotes. */
static bool is_bare(const char *text)
{
    if (!*text)
        return false;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == '"' || *c == '=' || *c == '\\' || (unsigned char)*c >= 0x7f)
            return false;
    return true;
}

static void put_logfmt_text(struct ob_buf *buf, const char *key, const char *text)
{
    if (buf->len)
        ob_buf_putc(buf, ' ');
    ob_buf_puts(buf, key);
    ob_buf_putc(buf, '=');
    if (is_bare(text))
        ob_buf_puts(buf, text);
    else
        ob_json_quote(buf, text, strlen(text));
}

static void put_logfmt_field(struct ob_buf *buf, const struct ob_field *field)
{
    char number[40];
    switch (field->type) {
    case OB_FIELD_STR:
        if (field->text)
            put_logfmt_text(buf, field->key, field->text);
        return;
    case OB_FIELD_INT: snprintf(number, sizeof number, "%" PRId64, field->number); break;
    case OB_FIELD_DOUBLE: snprintf(number, sizeof number, "%.6g", field->real); break;
    case OB_FIELD_BOOL: snprintf(number, sizeof number, "%s", field->number ? "true" : "false"); break;
    }
    put_logfmt_text(buf, field->key, number);
}

static void put_json_field(struct ob_json *json, const struct ob_field *field)
{
    if (field->type == OB_FIELD_STR && !field->text)
        return;
    ob_json_key(json, field->key);
    switch (field->type) {
    case OB_FIELD_STR: ob_json_string(json, field->text); break;
    case OB_FIELD_INT: ob_json_int(json, field->number); break;
    case OB_FIELD_DOUBLE: ob_json_double(json, field->real); break;
    case OB_FIELD_BOOL: ob_json_bool(json, field->number != 0); break;
    }
}

static void build_json(struct ob_buf *buf, const struct ob_field *head, size_t head_count,
                       const struct ob_field *fields, size_t count)
{
    struct ob_json json;
    ob_json_init(&json, buf);
    ob_json_object(&json);
    for (size_t i = 0; i < head_count; i++)
        put_json_field(&json, &head[i]);
    for (size_t i = 0; i < count; i++)
        put_json_field(&json, &fields[i]);
    ob_json_end(&json);
}

static void build_logfmt(struct ob_buf *buf, const struct ob_field *head, size_t head_count,
                         const struct ob_field *fields, size_t count)
{
    for (size_t i = 0; i < head_count; i++)
        put_logfmt_field(buf, &head[i]);
    for (size_t i = 0; i < count; i++)
        put_logfmt_field(buf, &fields[i]);
}

static void write_line(const struct ob_log *log, enum ob_log_level level, struct ob_buf *buf)
{
    if (log->write) {
        log->write(log->ctx, level, ob_buf_text(buf), buf->len);
    } else if (log->file) {
        ob_buf_putc(buf, '\n');
        if (ob_buf_ok(buf)) {
            fwrite(buf->data, 1, buf->len, log->file);
            fflush(log->file);
        }
    }
}

void ob_log_write(const struct ob_log *log, enum ob_log_level level, const char *message, const struct ob_field *fields,
                  size_t count)
{
    if (!ob_log_wants(log, level))
        return;
    char when[OB_CLOCK_TEXT];
    ob_clock_format(log->clock_us ? log->clock_us() : ob_clock_wall_us(), when);
    const struct ob_field head[] = {OB_STR("time", when), OB_STR("level", ob_log_level_name(level)),
                                    OB_STR("msg", message)};
    const size_t head_count = sizeof head / sizeof head[0];

    struct ob_buf buf = OB_BUF_INIT;
    if (log->format == OB_LOG_JSON)
        build_json(&buf, head, head_count, fields, count);
    else
        build_logfmt(&buf, head, head_count, fields, count);
    if (ob_buf_ok(&buf))
        write_line(log, level, &buf);
    ob_buf_fini(&buf);
}

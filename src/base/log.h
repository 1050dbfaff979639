/* log.h - one line per event: logfmt for people, JSON for programs.
 *
 *     ob_log(log, OB_LOG_WARN, "delivery failed", OB_STR("topic", msg->topic), OB_INT("attempt", msg->attempt));
 *     time=2024-05-01T12:34:56.789012Z level=warn msg="delivery failed" topic=orders.paid attempt=3
 *
 * A line is written with one call, so threads that share a log do not mix their lines. If there is no memory for a line it is
 * dropped: logging never fails for its caller. */
#ifndef OB_BASE_LOG_H
#define OB_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum ob_log_level { OB_LOG_DEBUG, OB_LOG_INFO, OB_LOG_WARN, OB_LOG_ERROR, OB_LOG_OFF };
enum ob_log_format { OB_LOG_LOGFMT, OB_LOG_JSON };

enum ob_field_type { OB_FIELD_STR, OB_FIELD_INT, OB_FIELD_DOUBLE, OB_FIELD_BOOL };

struct ob_field {
    const char *key;
    enum ob_field_type type;
    const char *text; /* NULL: the field is omitted */
    int64_t number;
    double real;
};

#define OB_STR(key_, text_) ((struct ob_field){.key = (key_), .type = OB_FIELD_STR, .text = (text_)})
#define OB_INT(key_, number_) ((struct ob_field){.key = (key_), .type = OB_FIELD_INT, .number = (number_)})
#define OB_DOUBLE(key_, real_) ((struct ob_field){.key = (key_), .type = OB_FIELD_DOUBLE, .real = (real_)})
#define OB_BOOL(key_, value_) ((struct ob_field){.key = (key_), .type = OB_FIELD_BOOL, .number = (value_)})

/* Receives each line without its newline. */
typedef void ob_log_fn(void *ctx, enum ob_log_level level, const char *line, size_t len);

/* Settings only: fill it in, and keep it while it is used. Lines go to write if that is set, otherwise to file. */
struct ob_log {
    enum ob_log_level level; /* lower ones are dropped */
    enum ob_log_format format;
    FILE *file;
    ob_log_fn *write;
    void *ctx;
    int64_t (*clock_us)(void); /* NULL: the wall clock */
};

/* log may be NULL: nothing is written. The first element is a dummy, so that a call may have no fields. */
#define ob_log(log, level, message, ...) \
    ob_log_write((log), (level), (message), (const struct ob_field[]){{.key = NULL}, ##__VA_ARGS__} + 1, \
                 sizeof((const struct ob_field[]){{.key = NULL}, ##__VA_ARGS__}) / sizeof(struct ob_field) - 1)

void ob_log_write(const struct ob_log *log, enum ob_log_level level, const char *message, const struct ob_field *fields,
                  size_t count);
bool ob_log_wants(const struct ob_log *log, enum ob_log_level level);

const char *ob_log_level_name(enum ob_log_level level);
/* "debug", "info", "warn", "error", "off"; false for anything else. */
bool ob_log_level_parse(const char *name, enum ob_log_level *level);

#endif

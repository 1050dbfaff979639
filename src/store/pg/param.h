/* param.h - the parameters of one statement, in binary where that is faster: numbers, times, bytes, arrays.
 *
 *     ob_pg_params_init(&params, &store->scratch);
 *     ob_pg_put_text(&params, worker);
 *     ob_pg_put_int4(&params, limit);
 *     if (!ob_pg_params_seal(&params)) return ob_error_nomem(err);
 *
 * Text and bytes are borrowed until the statement is sent; everything else is written to the scratch buffer, which must not be
 * used for anything else until then. */
#ifndef OB_STORE_PG_PARAM_H
#define OB_STORE_PG_PARAM_H

#include "base/buf.h"

#include <outbox/outbox.h>

enum { OB_PG_PARAMS_MAX = 24 };

/* Element types of arrays: the server's oids, which never change. */
enum {
    OB_PG_BOOL = 16,
    OB_PG_BYTEA = 17,
    OB_PG_INT8 = 20,
    OB_PG_INT4 = 23,
    OB_PG_TEXT = 25,
    OB_PG_TID = 27,
    OB_PG_TIMESTAMPTZ = 1184,
    OB_PG_UUID = 2950,
    OB_PG_JSONB = 3802
};

struct ob_pg_params {
    struct ob_buf *scratch;
    int count;
    const char *values[OB_PG_PARAMS_MAX];
    int lengths[OB_PG_PARAMS_MAX];
    int formats[OB_PG_PARAMS_MAX];
    size_t offsets[OB_PG_PARAMS_MAX]; /* + 1; 0: borrowed or null */
    size_t array;                     /* where the open array begins */
    bool copies;                      /* text is copied too: the statement is sent later */
};

void ob_pg_params_init(struct ob_pg_params *params, struct ob_buf *scratch);
/* Makes the pointers; false if memory ran out or a value is too large for the protocol. */
bool ob_pg_params_seal(struct ob_pg_params *params) OUTBOX_MUST_CHECK;

void ob_pg_put_null(struct ob_pg_params *params);
void ob_pg_put_text(struct ob_pg_params *params,
                    const char *text); /* NULL: null. The server parses other types from text too. */
void ob_pg_put_bytes(struct ob_pg_params *params, const void *data, size_t len);
void ob_pg_put_jsonb(struct ob_pg_params *params, const char *text, size_t len); /* NULL: null */
void ob_pg_put_bool(struct ob_pg_params *params, bool value);
void ob_pg_put_int4(struct ob_pg_params *params, int32_t value);
void ob_pg_put_int8(struct ob_pg_params *params, int64_t value);
void ob_pg_put_time(struct ob_pg_params *params, int64_t unix_us); /* 0: null */
void ob_pg_put_interval(struct ob_pg_params *params, int64_t us);

/* An array: begin, exactly count elements of its type, end. */
void ob_pg_array_begin(struct ob_pg_params *params, int type, size_t count);
void ob_pg_array_null(struct ob_pg_params *params);
void ob_pg_array_text(struct ob_pg_params *params, const char *text);       /* NULL: null */
void ob_pg_array_text_lossy(struct ob_pg_params *params, const char *text); /* invalid UTF-8 becomes U+FFFD */
void ob_pg_array_jsonb(struct ob_pg_params *params, const char *text, size_t len);
void ob_pg_array_uuid(struct ob_pg_params *params, const struct outbox_uuid *id);
void ob_pg_array_bool(struct ob_pg_params *params, bool value);
void ob_pg_array_int4(struct ob_pg_params *params, int32_t value);
void ob_pg_array_tid(struct ob_pg_params *params, uint64_t place); /* block << 16 | offset */
void ob_pg_array_int8(struct ob_pg_params *params, int64_t value);
void ob_pg_array_time(struct ob_pg_params *params, int64_t unix_us); /* 0: null */
void ob_pg_array_bytes(struct ob_pg_params *params, const void *data, size_t len);
void ob_pg_array_end(struct ob_pg_params *params);

#endif

/* param.c - writes PostgreSQL's binary formats: big-endian, times in microseconds since 2000, jsonb after a version byte. */
#include "store/pg/param.h"

#include "base/utf8.h"
#include "store/pg/wire.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

static void put_be32(struct ob_buf *buf, uint32_t value)
{
    char bytes[4] = {(char)(value >> 24), (char)(value >> 16), (char)(value >> 8), (char)value};
    ob_buf_put(buf, bytes, sizeof bytes);
}

static void put_be64(struct ob_buf *buf, uint64_t value)
{
    put_be32(buf, (uint32_t)(value >> 32));
    put_be32(buf, (uint32_t)value);
}

void ob_pg_params_init(struct ob_pg_params *params, struct ob_buf *scratch)
{
    memset(params, 0, sizeof *params);
    params->scratch = scratch;
    ob_buf_reset(scratch);
}

static int next(struct ob_pg_params *params)
{
    assert(params->count < OB_PG_PARAMS_MAX);
    return params->count++;
}

/* Begins a binary value that the caller then writes to the scratch buffer; sealing determines its length. */
static struct ob_buf *begin_value(struct ob_pg_params *params)
{
    int i = next(params);
    params->offsets[i] = params->scratch->len + 1;
    params->formats[i] = 1;
    return params->scratch;
}

bool ob_pg_params_seal(struct ob_pg_params *params)
{
    if (!ob_buf_ok(params->scratch) || params->scratch->len > INT_MAX)
        return false;
    size_t end = params->scratch->len;
    for (int i = params->count - 1; i >= 0; i--) {
        if (params->offsets[i] == 0)
            continue;
        size_t start = params->offsets[i] - 1;
        params->values[i] = params->scratch->data + start;
        params->lengths[i] = (int)(end - start);
        end = start;
    }
    return true;
}

void ob_pg_put_null(struct ob_pg_params *params)
{
    params->values[next(params)] = NULL;
}

void ob_pg_put_text(struct ob_pg_params *params, const char *text)
{
    if (!text || !params->copies) {
        params->values[next(params)] = text;
        return;
    }
    struct ob_buf *buf = begin_value(params);
    params->formats[params->count - 1] = 0;
    ob_buf_put(buf, text, strlen(text) + 1);
}

void ob_pg_put_bytes(struct ob_pg_params *params, const void *data, size_t len)
{
    assert(len <= INT_MAX);
    int i = next(params);
    params->values[i] = len ? data : "";
    params->lengths[i] = (int)len;
    params->formats[i] = 1;
}

void ob_pg_put_jsonb(struct ob_pg_params *params, const char *text, size_t len)
{
    if (!text) {
        ob_pg_put_null(params);
        return;
    }
    struct ob_buf *buf = begin_value(params);
    ob_buf_putc(buf, OB_PG_JSONB_VERSION);
    ob_buf_put(buf, text, len);
}

void ob_pg_put_bool(struct ob_pg_params *params, bool value)
{
    ob_buf_putc(begin_value(params), value ? 1 : 0);
}

void ob_pg_put_int4(struct ob_pg_params *params, int32_t value)
{
    put_be32(begin_value(params), (uint32_t)value);
}

void ob_pg_put_int8(struct ob_pg_params *params, int64_t value)
{
    put_be64(begin_value(params), (uint64_t)value);
}

void ob_pg_put_time(struct ob_pg_params *params, int64_t unix_us)
{
    if (unix_us == 0)
        ob_pg_put_null(params);
    else
        put_be64(begin_value(params), (uint64_t)unix_us - OB_PG_EPOCH_US);
}

void ob_pg_put_interval(struct ob_pg_params *params, int64_t us)
{
    struct ob_buf *buf = begin_value(params);
    put_be64(buf, (uint64_t)us);
    put_be64(buf, 0); /* days, months */
}

void ob_pg_array_begin(struct ob_pg_params *params, int type, size_t count)
{
    struct ob_buf *buf = begin_value(params);
    params->array = buf->len;
    put_be32(buf, count ? 1 : 0); /* dimensions */
    put_be32(buf, 0);             /* has nulls: set at the end */
    put_be32(buf, (uint32_t)type);
    if (count) {
        put_be32(buf, (uint32_t)count);
        put_be32(buf, 1); /* lower bound */
    }
}

void ob_pg_array_null(struct ob_pg_params *params)
{
    put_be32(params->scratch, UINT32_MAX);
    if (ob_buf_ok(params->scratch))
        params->scratch->data[params->array + 7] = 1;
}

void ob_pg_array_bytes(struct ob_pg_params *params, const void *data, size_t len)
{
    put_be32(params->scratch, (uint32_t)len);
    ob_buf_put(params->scratch, data, len);
}

void ob_pg_array_text(struct ob_pg_params *params, const char *text)
{
    if (text)
        ob_pg_array_bytes(params, text, strlen(text));
    else
        ob_pg_array_null(params);
}

void ob_pg_array_text_lossy(struct ob_pg_params *params, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    if (ob_utf8_valid(text ? text : "", len)) {
        ob_pg_array_text(params, text);
        return;
    }
    size_t start = params->scratch->len;
    put_be32(params->scratch, 0);
    while (len > 0) {
        size_t width = ob_utf8_width(text, len);
        ob_buf_put(params->scratch, width ? text : "\xef\xbf\xbd", width ? width : 3);
        text += width ? width : 1;
        len -= width ? width : 1;
    }
    if (!ob_buf_ok(params->scratch))
        return;
    uint32_t written = (uint32_t)(params->scratch->len - start - 4);
    for (int i = 0; i < 4; i++)
        params->scratch->data[start + (size_t)i] = (char)(written >> (24 - 8 * i));
}

void ob_pg_array_jsonb(struct ob_pg_params *params, const char *text, size_t len)
{
    if (!text) {
        ob_pg_array_null(params);
        return;
    }
    put_be32(params->scratch, (uint32_t)len + 1);
    ob_buf_putc(params->scratch, OB_PG_JSONB_VERSION);
    ob_buf_put(params->scratch, text, len);
}

void ob_pg_array_uuid(struct ob_pg_params *params, const struct outbox_uuid *id)
{
    ob_pg_array_bytes(params, id->bytes, sizeof id->bytes);
}

void ob_pg_array_bool(struct ob_pg_params *params, bool value)
{
    put_be32(params->scratch, 1);
    ob_buf_putc(params->scratch, value ? 1 : 0);
}

void ob_pg_array_int4(struct ob_pg_params *params, int32_t value)
{
    put_be32(params->scratch, 4);
    put_be32(params->scratch, (uint32_t)value);
}

void ob_pg_array_int8(struct ob_pg_params *params, int64_t value)
{
    put_be32(params->scratch, 8);
    put_be64(params->scratch, (uint64_t)value);
}

void ob_pg_array_tid(struct ob_pg_params *params, uint64_t place)
{
    char bytes[6];
    for (int i = 0; i < 6; i++)
        bytes[i] = (char)(place >> (40 - 8 * i));
    ob_pg_array_bytes(params, bytes, sizeof bytes);
}

void ob_pg_array_time(struct ob_pg_params *params, int64_t unix_us)
{
    if (unix_us == 0)
        ob_pg_array_null(params);
    else
        ob_pg_array_int8(params, (int64_t)((uint64_t)unix_us - OB_PG_EPOCH_US));
}

void ob_pg_array_end(struct ob_pg_params *params)
{
    params->array = 0;
}

/* wire.h - reads columns of a result in binary format. The types are those that the statement's file declares; a column of
 * another width means that the schema does not match, and reads as zero. */
#ifndef OB_STORE_PG_WIRE_H
#define OB_STORE_PG_WIRE_H

#include <libpq-fe.h>
#include <outbox/outbox.h>
#include <string.h>

#define OB_PG_EPOCH_US ((uint64_t)946684800000000) /* 2000-01-01 in microseconds since 1970 */
enum { OB_PG_JSONB_VERSION = 1 };

static inline uint64_t ob_pg_be(const PGresult *res, int row, int column, int width)
{
    if (PQgetisnull(res, row, column) || PQgetlength(res, row, column) != width)
        return 0;
    const unsigned char *bytes = (const unsigned char *)PQgetvalue(res, row, column);
    uint64_t value = 0;
    for (int i = 0; i < width; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* A C token, for messages of the queue: the attempt's number and, in the bits above it, the place of the row (block << 16 |
 * offset), which makes settling cheaper. If the two do not fit into 62 bits, the token is the negated number alone.
 *
 * For messages of a window (log.h): bit 62, the number that this store gave the window in 30 bits, the message's index in it in
 * 16, and the attempt's number, which is 1. */
#define OB_PG_TOKEN_WINDOW (INT64_C(1) << 62)
enum { OB_PG_SERIAL_MASK = 0x3fffffff };

static inline int64_t ob_pg_token(int64_t attempt, uint64_t place)
{
    if (place == 0 || place >> 46 || attempt < 0 || attempt > 0xffff)
        return attempt > 0xffff ? -attempt : attempt;
    return (int64_t)(place << 16) | attempt;
}

static inline bool ob_pg_token_in_window(int64_t token)
{
    return token >= OB_PG_TOKEN_WINDOW;
}

static inline int64_t ob_pg_token_attempt(int64_t token)
{
    return token < 0 ? -token : token & 0xffff;
}

static inline uint64_t ob_pg_token_place(int64_t token)
{
    return token < 0 || ob_pg_token_in_window(token) ? 0 : (uint64_t)token >> 16;
}

/* null reads as 0. */
static inline int64_t ob_pg_int8(const PGresult *res, int row, int column)
{
    return (int64_t)ob_pg_be(res, row, column, 8);
}

static inline int ob_pg_int4(const PGresult *res, int row, int column)
{
    return (int)(int32_t)ob_pg_be(res, row, column, 4);
}

static inline bool ob_pg_bool(const PGresult *res, int row, int column)
{
    return ob_pg_be(res, row, column, 1) != 0;
}

static inline double ob_pg_float8(const PGresult *res, int row, int column)
{
    uint64_t bits = ob_pg_be(res, row, column, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Microseconds since 1970; null reads as 0. */
static inline int64_t ob_pg_time(const PGresult *res, int row, int column)
{
    if (PQgetisnull(res, row, column))
        return 0;
    int64_t since_2000 = (int64_t)ob_pg_be(res, row, column, 8);
    /* PostgreSQL's last days, in the year 294277, are beyond 2^63 microseconds after 1970. */
    return since_2000 > INT64_MAX - (int64_t)OB_PG_EPOCH_US ? INT64_MAX : since_2000 + (int64_t)OB_PG_EPOCH_US;
}

static inline void ob_pg_uuid(const PGresult *res, int row, int column, struct outbox_uuid *id)
{
    if (PQgetlength(res, row, column) == (int)sizeof id->bytes)
        memcpy(id->bytes, PQgetvalue(res, row, column), sizeof id->bytes);
    else
        memset(id->bytes, 0, sizeof id->bytes);
}

/* Borrowed; NULL for null. libpq appends a NUL to every value, including binary ones. */
static inline const char *ob_pg_text(const PGresult *res, int row, int column)
{
    return PQgetisnull(res, row, column) ? NULL : PQgetvalue(res, row, column);
}

/* jsonb as text, without its version byte. */
static inline const char *ob_pg_jsonb(const PGresult *res, int row, int column)
{
    const char *text = ob_pg_text(res, row, column);
    return text && PQgetlength(res, row, column) > 0 ? text + 1 : NULL;
}

#endif

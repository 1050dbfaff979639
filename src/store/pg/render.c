/* render.c - placeholders, quoting, and which schema names are refused.
 *
 * We quote ourselves instead of calling PQescapeIdentifier, because `migrate --print` has no connection. This is safe in every
 * client encoding: in none of PostgreSQL's is a quote the second byte of a character. */
#include "store/pg/render.h"

#include "base/error.h"
#include "base/utf8.h"

#include <string.h>

static const char *const roles[] = {"owner", "api",      "hooks",   "nobody", "producer",
                                    "relay", "operator", "auditor", "tenant"};

const char *ob_pg_role(size_t i)
{
    return i < sizeof roles / sizeof roles[0] ? roles[i] : NULL;
}

enum outbox_code ob_pg_schema_check(const char *schema, struct outbox_error *err)
{
    size_t len = strlen(schema);
    if (len == 0)
        return ob_error_set(err, OUTBOX_INVALID, "the schema name is empty; give one of 1 to %d bytes",
                            OB_PG_SCHEMA_MAX);
    if (len > OB_PG_SCHEMA_MAX)
        return ob_error_set(err, OUTBOX_INVALID,
                            "the schema name has %zu bytes; at most %d are allowed, so that its roles' names fit", len,
                            OB_PG_SCHEMA_MAX);
    if (!ob_utf8_valid(schema, len))
        return ob_error_set(err, OUTBOX_INVALID, "the schema name is not valid UTF-8");
    if (strncmp(schema, "pg_", 3) == 0 || strcmp(schema, "information_schema") == 0)
        return ob_error_set(err, OUTBOX_INVALID, "the schema name %s is reserved by PostgreSQL; choose another",
                            schema);
    /* Names are used in function bodies, which dollar signs would end, and in comments, which a newline or a star and a
     * slash would end. */
    for (const char *c = schema; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '$' || (c[0] == '*' && c[1] == '/'))
            return ob_error_set(err, OUTBOX_INVALID,
                                "the schema name contains a control character, a dollar sign or */; choose another");
    return OUTBOX_OK;
}

static void put_doubled(struct ob_buf *buf, const char *text, char quote)
{
    for (; *text; text++) {
        if (*text == quote)
            ob_buf_putc(buf, quote);
        ob_buf_putc(buf, *text);
    }
}

void ob_pg_quote(struct ob_buf *buf, const char *name, const char *suffix)
{
    ob_buf_putc(buf, '"');
    put_doubled(buf, name, '"');
    put_doubled(buf, suffix, '"');
    ob_buf_putc(buf, '"');
}

/* Correct with any standard_conforming_strings: a backslash makes it an escape string. */
static void put_literal(struct ob_buf *buf, const char *name, const char *suffix)
{
    bool escapes = strchr(name, '\\') != NULL;
    ob_buf_puts(buf, escapes ? " E'" : "'");
    for (const char *c = name; *c; c++) {
        if (*c == '\'' || *c == '\\')
            ob_buf_putc(buf, *c);
        ob_buf_putc(buf, *c);
    }
    ob_buf_puts(buf, suffix);
    ob_buf_putc(buf, '\'');
}

/* Writes the value of a placeholder; false if the word is none. */
static bool put_word(struct ob_buf *buf, const char *word, size_t len, const char *schema)
{
    static const char text_suffix[] = "_text";
    enum { SUFFIX = sizeof text_suffix - 1 };
    bool literal = len > SUFFIX && memcmp(word + len - SUFFIX, text_suffix, SUFFIX) == 0;
    if (literal)
        len -= SUFFIX;
    char suffix[16] = "";
    if (len != strlen("schema") || memcmp(word, "schema", len) != 0) {
        size_t i = 0, count = sizeof roles / sizeof roles[0];
        while (i < count && (strlen(roles[i]) != len || memcmp(roles[i], word, len) != 0))
            i++;
        if (i == count)
            return false;
        suffix[0] = '_';
        memcpy(suffix + 1, roles[i], len + 1);
    }
    if (literal)
        put_literal(buf, schema, suffix);
    else
        ob_pg_quote(buf, schema, suffix);
    return true;
}

/* An identifier within a literal, as in '@schema@.queue'::regclass: its apostrophes are escaped for the literal too. */
static bool put_word_in_literal(struct ob_buf *buf, const char *word, size_t len, const char *schema)
{
    struct ob_buf plain = OB_BUF_INIT;
    bool known = put_word(&plain, word, len, schema);
    if (!ob_buf_ok(&plain))
        buf->failed = true;
    put_doubled(buf, ob_buf_text(&plain), '\'');
    ob_buf_fini(&plain);
    return known;
}

void ob_pg_render(struct ob_buf *buf, const char *sql, const char *schema)
{
    bool comment = false, literal = false; /* function bodies count as plain text, so literals in them are seen */
    for (; *sql; sql++) {
        if (comment)
            comment = *sql != '\n';
        else if (*sql == '\'')
            literal = !literal;
        else if (!literal && sql[0] == '-' && sql[1] == '-')
            comment = true;
        if (*sql == '@') {
            size_t len = strspn(sql + 1, "abcdefghijklmnopqrstuvwxyz_");
            if (sql[1 + len] == '@' && (literal ? put_word_in_literal : put_word)(buf, sql + 1, len, schema)) {
                sql += 1 + len;
                continue;
            }
        }
        ob_buf_putc(buf, *sql);
    }
}

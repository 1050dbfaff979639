/* error.c - the error tables, and the functions that fill in an error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct row {
    enum outbox_code code;
    enum outbox_error_class class_;
    int exit_code;
    const char *name, *sqlstate, *what, *todo;
};

static const struct row rows[] = {
#define OUTBOX_CODE(name, number, sqlstate, class_, exit_, what, todo) \
    {OUTBOX_##name, OUTBOX_CLASS_##class_, exit_, #name, sqlstate, what, todo},
#include <outbox/errors.def>
#undef OUTBOX_CODE
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const struct row *row_of(enum outbox_code code)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

static const struct row *row_or_database(enum outbox_code code)
{
    const struct row *row = row_of(code);
    return row ? row : row_of(OUTBOX_DATABASE);
}

const char *outbox_code_name(enum outbox_code code)
{
    const struct row *row = row_of(code);
    return row ? row->name : "UNKNOWN";
}

const char *outbox_code_text(enum outbox_code code)
{
    const struct row *row = row_of(code);
    return row ? row->what : "an unknown error";
}

enum outbox_error_class ob_code_class(enum outbox_code code)
{
    return row_or_database(code)->class_;
}

int ob_code_exit(enum outbox_code code)
{
    return row_or_database(code)->exit_code;
}

const char *ob_code_todo(enum outbox_code code)
{
    return row_or_database(code)->todo;
}

const char *ob_code_sqlstate(enum outbox_code code)
{
    return row_or_database(code)->sqlstate;
}

enum outbox_code ob_code_by_sqlstate(const char *sqlstate)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strlen(rows[i].sqlstate) == 5 && strcmp(rows[i].sqlstate, sqlstate) == 0)
            return rows[i].code;
    return OUTBOX_DATABASE;
}

/* vsnprintf truncates at a byte: remove what is left of a character that was cut. */
static void trim_cut_character(char *text, size_t len)
{
    size_t start = len;
    while (start > 0 && len - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (want > len - (start - 1))
        text[start - 1] = '\0';
}

static void __attribute__((format(printf, 4, 0)))
fill(struct outbox_error *err, enum outbox_code code, const char *sqlstate, const char *format, va_list args)
{
    err->code = code;
    err->class_ = ob_code_class(code);
    snprintf(err->sqlstate, sizeof err->sqlstate, "%s", sqlstate ? sqlstate : "");
    int len = vsnprintf(err->text, sizeof err->text, format, args);
    if (len < 0)
        snprintf(err->text, sizeof err->text, "%s", outbox_code_text(code));
    else if ((size_t)len >= sizeof err->text)
        trim_cut_character(err->text, sizeof err->text - 1);
}

enum outbox_code ob_error_set(struct outbox_error *err, enum outbox_code code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, code, NULL, format, args);
        va_end(args);
    }
    return code;
}

enum outbox_code ob_error_set_sqlstate(struct outbox_error *err, enum outbox_code code, const char *sqlstate,
                                       const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, code, sqlstate, format, args);
        va_end(args);
    }
    return code;
}

enum outbox_code ob_error_nomem(struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_NOMEM, "out of memory");
}

void ob_error_clear(struct outbox_error *err)
{
    if (err)
        *err = (struct outbox_error){.code = OUTBOX_OK};
}

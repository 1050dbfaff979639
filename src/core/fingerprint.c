/* fingerprint.c - see fingerprint.h. Each step reads one text and writes the next; no step makes it longer. */
#include "core/fingerprint.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHARACTERS = 500, ROOM = CHARACTERS * 4 + 1 };

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Of a word, a number, a time, an address, a path. */
static bool is_word(char c)
{
    return is_alnum(c) || (c && strchr("[]_.:@/+%-", c));
}

/* At most so many characters. A byte that is not UTF-8 counts as one. */
static size_t first_characters(const char *text, size_t most)
{
    size_t len = strlen(text), used = 0;
    for (size_t n = 0; used < len && n < most; n++) {
        size_t width = ob_utf8_width(text + used, len - used);
        used += width ? width : 1;
    }
    return used;
}

static void lower(const char *from, char *to)
{
    size_t len = first_characters(from, CHARACTERS);
    for (size_t i = 0; i < len; i++)
        if (from[i] >= 'A' && from[i] <= 'Z')
            to[i] = (char)(from[i] + 32);
        else
            to[i] = from[i];
    to[len] = '\0';
}

/* A quote after a letter is an apostrophe. */
static void drop_quoted(const char *from, char *to)
{
    for (size_t i = 0; from[i]; i++) {
        bool opens = from[i] == '"' || from[i] == '`' || (from[i] == '\'' && (i == 0 || !is_alnum(from[i - 1])));
        const char *end = opens ? strchr(from + i + 1, from[i]) : NULL;
        *to++ = from[i];
        if (!end)
            continue;
        to[-1] = '#';
        i = (size_t)(end - from);
    }
    *to = '\0';
}

static void drop_numbers(const char *from, char *to)
{
    while (*from) {
        size_t len = 0;
        bool number = false;
        for (; is_word(from[len]); len++)
            number = number || from[len] == '@' || (from[len] >= '0' && from[len] <= '9');
        if (number) {
            *to++ = '#';
        } else {
            len = len ? len : 1;
            memcpy(to, from, len);
            to += len;
        }
        from += len;
    }
    *to = '\0';
}

/* A list of any length is like a list of one. */
static void squeeze(const char *from, char *to)
{
    char *begin = to;
    while (*from) {
        size_t spaces = strspn(from, " \t\r\n\f\v,;");
        if (spaces) {
            *to++ = ' ';
            from += spaces;
        } else if (*from == '#' && to - begin >= 2 && to[-1] == ' ' && to[-2] == '#') {
            to--;
            from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

size_t ob_failure_shape(const char *error, char shape[OB_SHAPE_ROOM])
{
    char one[ROOM], two[ROOM];
    lower(error, one);
    drop_quoted(one, two);
    drop_numbers(two, one);
    squeeze(one, two);
    size_t len = first_characters(two, OB_SHAPE_CHARACTERS);
    memcpy(shape, two, len);
    shape[len] = '\0';
    return len;
}

static uint64_t fnv(uint64_t hash, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return hash;
}

int64_t ob_fingerprint(const char *code, const char *error)
{
    char shape[OB_SHAPE_ROOM];
    size_t len = ob_failure_shape(error ? error : "", shape);
    uint64_t hash = fnv(UINT64_C(14695981039346656037), code ? code : "", code ? strlen(code) : 0);
    return (int64_t)fnv(fnv(hash, "\n", 1), shape, len);
}

void ob_fingerprint_text(int64_t fingerprint, char text[OB_FINGERPRINT_DIGITS + 1])
{
    for (int i = 0; i < OB_FINGERPRINT_DIGITS; i++)
        text[i] = "0123456789abcdef"[(uint64_t)fingerprint >> (60 - 4 * i) & 15];
    text[OB_FINGERPRINT_DIGITS] = '\0';
}

int64_t ob_fingerprint_of(const char *digits)
{
    return (int64_t)strtoull(digits, NULL, 16);
}

/* json_check.c - see json_check.h. No recursion: the open brackets are kept in an array. */
#include "base/json_check.h"

#include "base/json_scan.h"
#include "base/utf8.h"

#include <string.h>

enum { DEPTH = 256, DEPTH_MOST = 10000, DIGITS = 1000, EXPONENT = 3 };

struct text {
    const char *at, *end;
    bool strict; /* only what every store accepts */
};

static int peek(const struct text *text)
{
    return text->at < text->end ? (unsigned char)*text->at : -1;
}

static void skip_space(struct text *text)
{
    text->at = ob_json_skip_space(text->at, text->end);
}

static bool take(struct text *text, char c)
{
    if (peek(text) != c)
        return false;
    text->at++;
    return true;
}

static bool take_word(struct text *text, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(text->end - text->at) < len || memcmp(text->at, word, len) != 0)
        return false;
    text->at += len;
    return true;
}

/* ---- strings ---- */

static bool take_escape(struct text *text)
{
    int c = peek(text);
    text->at++;
    if (c != 'u')
        return c > 0 && strchr("\"\\/bfnrt", c) != NULL;
    long unit = ob_json_scan_hex(&text->at, text->end);
    if (!text->strict)
        return unit >= 0;
    if (unit <= 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return false;
    if (unit < 0xd800 || unit > 0xdbff)
        return true;
    if (!take_word(text, "\\u"))
        return false;
    unit = ob_json_scan_hex(&text->at, text->end);
    return unit >= 0xdc00 && unit <= 0xdfff;
}

static bool take_string(struct text *text)
{
    if (!take(text, '"'))
        return false;
    while (text->at < text->end) {
        unsigned char c = (unsigned char)*text->at++;
        if (c == '"')
            return true;
        if (c < 32 || (c == '\\' && (text->at == text->end || !take_escape(text))))
            return false;
    }
    return false;
}

/* ---- numbers ---- */

static bool take_number(struct text *text)
{
    struct ob_json_digits digits;
    if (ob_json_scan_number(&text->at, text->end, &digits) != OB_JSON_NUMBER_OK)
        return false;
    return !text->strict || (digits.whole <= DIGITS && digits.fraction <= DIGITS && digits.exponent <= EXPONENT);
}

/* ---- values ---- */

static bool take_scalar(struct text *text)
{
    switch (peek(text)) {
    case '"': return take_string(text);
    case 't': return take_word(text, "true");
    case 'f': return take_word(text, "false");
    case 'n': return take_word(text, "null");
    default: return take_number(text);
    }
}

static bool take_name(struct text *text)
{
    skip_space(text);
    if (!take_string(text))
        return false;
    skip_space(text);
    return take(text, ':');
}

static bool is_value(struct text text)
{
    char closers[DEPTH_MOST];
    int depth = 0, most = text.strict ? DEPTH : DEPTH_MOST;
    for (;;) {
        /* A value begins here. */
        skip_space(&text);
        int c = peek(&text);
        if (c == '{' || c == '[') {
            if (depth == most)
                return false;
            text.at++;
            closers[depth] = c == '{' ? '}' : ']';
            skip_space(&text);
            if (!take(&text, closers[depth])) {
                if (closers[depth++] == '}' && !take_name(&text))
                    return false;
                continue;
            }
        } else if (!take_scalar(&text)) {
            return false;
        }
        /* A value ended here, and perhaps the array or object that contains it. */
        for (skip_space(&text); depth > 0 && take(&text, closers[depth - 1]); skip_space(&text))
            depth--;
        if (depth == 0)
            return text.at == text.end;
        if (!take(&text, ',') || (closers[depth - 1] == '}' && !take_name(&text)))
            return false;
    }
}

bool ob_json_check(const char *data, size_t len)
{
    return is_value((struct text){data, data + len, true});
}

bool ob_json_valid(const char *data, size_t len)
{
    return ob_utf8_valid(data, len) && is_value((struct text){data, data + len, false});
}

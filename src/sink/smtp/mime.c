/* mime.c - see mime.h. */
#include "sink/smtp/mime.h"

#include "base/utf8.h"
#include "sink/common/header.h"
#include "sink/common/render.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    LINE = 76,
    WORD_AROUND = 12, /* =?UTF-8?B? and ?= */
    WORD = 45,        /* bytes in one encoded word: 60 characters */
    UNFOLDED = 900,   /* a line may have 998 */
    ADDRESS_MOST = 254,
    LOCAL_MOST = 64,
};

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

bool ob_mime_domain_ok(const char *domain)
{
    size_t len = strlen(domain), label = 0;
    if (len == 0 || len > 253)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = domain[i];
        if (c == '.' ? label == 0 || domain[i - 1] == '-' : !(is_alnum(c) || (c == '-' && label > 0)) || label >= 63)
            return false;
        label = c == '.' ? 0 : label + 1;
    }
    return label > 0 && domain[len - 1] != '-';
}

/* [192.0.2.1] or [IPv6:...]: what is within the brackets is the server's to understand. */
static bool literal_ok(const char *domain)
{
    size_t len = strlen(domain);
    return len > 2 && len < 64 && domain[0] == '[' && domain[len - 1] == ']' &&
           strspn(domain + 1, "0123456789abcdefABCDEFIPv.:") == len - 2;
}

bool ob_mime_address_ok(const char *address)
{
    const char *at = strchr(address, '@');
    if (!at || at == address || at - address > LOCAL_MOST || strlen(address) > ADDRESS_MOST)
        return false;
    for (const char *c = address; c < at; c++) {
        bool dot_ok = c > address && c[-1] != '.' && c + 1 < at;
        if (*c == '.' ? !dot_ok : !is_alnum(*c) && !strchr("!#$%&'*+-/=?^_`{|}~", *c))
            return false;
    }
    return ob_mime_domain_ok(at + 1) || literal_ok(at + 1);
}

/* ---- header fields ----------------------------------------------------------------------------------------------- */

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x7f)
            return false;
    return true;
}

/* Encoded words of RFC 2047, each on a line of its own but for the first, never cut within a character. */
static void put_words(struct ob_buf *buf, size_t column, const char *text)
{
    size_t len = strlen(text), room = column + WORD_AROUND + 8 < LINE ? (LINE - column - WORD_AROUND) / 4 * 3 : WORD;
    while (len) {
        size_t take = 0, width;
        while (take < len && (width = ob_utf8_width(text + take, len - take)) > 0 && take + width <= room)
            take += width;
        if (!take)
            return;
        ob_buf_puts(buf, "=?UTF-8?B?");
        ob_render_base64(buf, text, take);
        ob_buf_puts(buf, "?=");
        text += take;
        len -= take;
        room = WORD;
        if (len)
            ob_buf_puts(buf, "\r\n ");
    }
}

/* Whether the value may stand as it is, folded at its spaces: nothing that reads as an encoded word, no space that
 * would be lost, no word that is too long for a line, with the spaces before it. */
static bool is_plain(const char *value)
{
    size_t len = strlen(value);
    if (!is_ascii(value) || strstr(value, "=?") || value[0] == ' ' || (len && value[len - 1] == ' '))
        return false;
    for (const char *word = value; *word;) {
        size_t spaces = strspn(word, " "), width = spaces + strcspn(word + spaces, " ");
        if (width > UNFOLDED)
            return false;
        word += width;
    }
    return true;
}

/* A line may begin with the space that stood between two words. */
static void put_folded(struct ob_buf *buf, size_t column, const char *value)
{
    while (*value) {
        size_t spaces = strspn(value, " "), len = spaces + strcspn(value + spaces, " ");
        if (spaces && column + len > LINE) {
            ob_buf_puts(buf, "\r\n");
            column = 0;
        }
        ob_buf_put(buf, value, len);
        column += len;
        value += len;
    }
}

bool ob_mime_field(struct ob_buf *buf, const char *name, const char *value)
{
    if (!ob_header_value_ok(value, strlen(value)))
        return false;
    ob_buf_printf(buf, "%s: ", name);
    if (is_plain(value))
        put_folded(buf, strlen(name) + 2, value);
    else
        put_words(buf, strlen(name) + 2, value);
    ob_buf_puts(buf, "\r\n");
    return true;
}

bool ob_mime_mailbox(struct ob_buf *buf, const char *name, const char *display, const char *address)
{
    if (!display || !*display) {
        ob_buf_printf(buf, "%s: %s\r\n", name, address);
        return true;
    }
    if (!ob_header_value_ok(display, strlen(display)))
        return false;
    ob_buf_printf(buf, "%s: ", name);
    if (is_plain(display) && strlen(display) < LINE - 12 && !strpbrk(display, "\"\\"))
        ob_buf_printf(buf, "\"%s\"", display);
    else
        put_words(buf, strlen(name) + 2, display);
    ob_buf_printf(buf, "\r\n <%s>\r\n", address);
    return true;
}

/* Not strftime: names of days and months must not follow the locale. */
void ob_mime_date(struct ob_buf *buf, int64_t unix_s)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t at = (time_t)unix_s;
    struct tm tm;
    if (gmtime_r(&at, &tm))
        ob_buf_printf(buf, "Date: %s, %02d %s %d %02d:%02d:%02d +0000\r\n", days[tm.tm_wday], tm.tm_mday,
                      months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

bool ob_mime_parameter(struct ob_buf *buf, const char *name, const char *value)
{
    size_t len = strlen(value);
    if (!ob_header_value_ok(value, len))
        return false;
    if (is_ascii(value) && !strpbrk(value, "\"\\") && len <= LINE - 20) {
        ob_buf_printf(buf, ";\r\n %s=\"%s\"", name, value);
        return true;
    }
    /* In pieces, because lines are limited: name*0*=UTF-8''..., name*1*=... */
    for (size_t i = 0, piece = 0; i < len; piece++) {
        ob_buf_printf(buf, ";\r\n %s*%zu*=%s", name, piece, piece ? "" : "UTF-8''");
        for (size_t room = 16; i < len && room; i++, room--)
            if (is_alnum(value[i]) || strchr("-._", value[i]))
                ob_buf_putc(buf, value[i]);
            else
                ob_buf_printf(buf, "%%%02X", (unsigned)(unsigned char)value[i]);
    }
    return true;
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

void ob_mime_quoted_printable(struct ob_buf *buf, const char *text, size_t len)
{
    size_t column = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool line_end = c == '\n' || (c == '\r' && i + 1 < len && text[i + 1] == '\n');
        if (line_end) {
            i += c == '\r';
            ob_buf_puts(buf, "\r\n");
            column = 0;
            continue;
        }
        /* A space at the end of a line would be lost on the way. */
        bool last = i + 1 == len || text[i + 1] == '\n' || text[i + 1] == '\r';
        bool plain = c == ' ' || c == '\t' ? !last : c > ' ' && c < 0x7f && c != '=';
        if (column + (plain ? 1 : 3) > LINE - 1) {
            ob_buf_puts(buf, "=\r\n");
            column = 0;
        }
        if (plain)
            ob_buf_putc(buf, (char)c);
        else
            ob_buf_printf(buf, "=%02X", (unsigned)c);
        column += plain ? 1 : 3;
    }
    if (column)
        ob_buf_puts(buf, "\r\n");
}

void ob_mime_base64(struct ob_buf *buf, const void *data, size_t len)
{
    const char *from = data;
    const size_t step = (size_t)LINE / 4 * 3;
    for (size_t i = 0; i < len; i += step) {
        ob_render_base64(buf, from + i, len - i < step ? len - i : step);
        ob_buf_puts(buf, "\r\n");
    }
}

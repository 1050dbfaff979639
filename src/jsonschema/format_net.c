/* format_net.c - addresses: hosts, IP, email, URIs (RFC 1123, 5321, 3986, 3987, 6570). */
#include "jsonschema/format.h"
#include "jsonschema/uri.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

enum { LABEL_MAX = 63, HOST_MAX = 253, LOCAL_MAX = 64 };

static bool is_ascii_alnum(char c)
{
    return (unsigned char)c < 0x80 && isalnum((unsigned char)c);
}

/* Labels of letters, digits and inner hyphens; wide: also non-ASCII letters. */
static bool is_host(struct ob_text text, bool wide)
{
    size_t label = 0;
    if (text.len == 0 || text.len > HOST_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '.') {
            if (label == 0 || text.data[i - 1] == '-' || i + 1 == text.len)
                return false;
            label = 0;
            continue;
        }
        bool plain = is_ascii_alnum(c) || (wide && (unsigned char)c >= 0x80);
        if ((!plain && (c != '-' || label == 0)) || ++label > LABEL_MAX)
            return false;
    }
    return text.data[text.len - 1] != '-';
}

bool ob_format_hostname(struct ob_text text)
{
    return is_host(text, false);
}

static bool is_ip(int family, struct ob_text text)
{
    char copy[64];
    unsigned char address[16];
    if (text.len >= sizeof copy || memchr(text.data, '\0', text.len))
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return inet_pton(family, copy, address) == 1;
}

bool ob_format_ipv4(struct ob_text text)
{
    return is_ip(AF_INET, text);
}

bool ob_format_ipv6(struct ob_text text)
{
    return is_ip(AF_INET6, text);
}

/* A quoted local part: printable characters, escaped with \ where needed. */
static bool is_quoted(struct ob_text text, bool wide)
{
    if (text.len < 2 || text.data[0] != '"' || text.data[text.len - 1] != '"')
        return false;
    for (size_t i = 1; i + 1 < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '\\' && i + 2 < text.len)
            c = (unsigned char)text.data[++i];
        else if (c == '"' || c == '\\')
            return false;
        if (c < 0x20 || c == 0x7f || (c >= 0x80 && !wide))
            return false;
    }
    return true;
}

static bool is_local_part(struct ob_text text, bool wide)
{
    if (text.len == 0 || text.len > LOCAL_MAX)
        return false;
    if (text.data[0] == '"')
        return is_quoted(text, wide);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool inner_dot = c == '.' && i > 0 && i + 1 < text.len && text.data[i - 1] != '.';
        bool atom = is_ascii_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~", c)) || (wide && (unsigned char)c >= 0x80);
        if (!atom && !inner_dot)
            return false;
    }
    return true;
}

static bool is_domain(struct ob_text text, bool wide)
{
    if (text.len < 2 || text.data[0] != '[')
        return is_host(text, wide);
    struct ob_text literal = {text.data + 1, text.len - 2};
    if (text.data[text.len - 1] != ']')
        return false;
    if (literal.len > 5 && strncasecmp(literal.data, "IPv6:", 5) == 0)
        return is_ip(AF_INET6, (struct ob_text){literal.data + 5, literal.len - 5});
    return is_ip(AF_INET, literal);
}

static bool is_email(struct ob_text text, bool wide)
{
    const char *at = text.len ? memrchr(text.data, '@', text.len) : NULL;
    if (!at)
        return false;
    struct ob_text local = {text.data, (size_t)(at - text.data)};
    struct ob_text domain = {at + 1, text.len - local.len - 1};
    return is_local_part(local, wide) && is_domain(domain, wide);
}

bool ob_format_email(struct ob_text text)
{
    return is_email(text, false);
}

bool ob_format_idn_email(struct ob_text text)
{
    return is_email(text, true);
}

/* Whether all characters are valid in a part of a URI: unreserved, %XX, and `more`. */
static bool is_part(struct ob_text part, const char *more, bool wide)
{
    for (size_t i = 0; i < part.len; i++) {
        char c = part.data[i];
        if (c == '%') {
            if (part.len - i < 3 || !isxdigit((unsigned char)part.data[i + 1]) ||
                !isxdigit((unsigned char)part.data[i + 2]))
                return false;
            i += 2;
        } else if (!is_ascii_alnum(c) && !(c && strchr("-._~", c)) && !(c && strchr(more, c)) &&
                   !(wide && (unsigned char)c >= 0x80)) {
            return false;
        }
    }
    return true;
}

#define SUB_DELIMS "!$&'()*+,;="

static bool is_authority(struct ob_text text, bool wide)
{
    const char *at = text.len ? memchr(text.data, '@', text.len) : NULL;
    if (at) {
        struct ob_text user = {text.data, (size_t)(at - text.data)};
        if (!is_part(user, SUB_DELIMS ":", wide))
            return false;
        text = (struct ob_text){at + 1, text.len - user.len - 1};
    }
    const char *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
    const char *bracket = text.len ? memrchr(text.data, ']', text.len) : NULL;
    struct ob_text host = text;
    if (colon && (!bracket || colon > bracket)) {
        host.len = (size_t)(colon - text.data);
        for (const char *c = colon + 1; c < text.data + text.len; c++)
            if (!isdigit((unsigned char)*c))
                return false;
    }
    if (host.len && host.data[0] == '[') {
        struct ob_text inner = {host.data + 1, host.len - 1};
        if (inner.len < 2 || inner.data[--inner.len] != ']')
            return false;
        return is_ip(AF_INET6, inner) || (inner.data[0] == 'v' && is_part(inner, SUB_DELIMS ":", false));
    }
    return is_part(host, SUB_DELIMS, wide);
}

static bool is_reference(struct ob_text text, bool absolute, bool wide)
{
    struct ob_uri uri;
    ob_uri_split(text, &uri);
    if (!uri.has_scheme && (absolute || (text.len && text.data[0] == ':')))
        return false;
    for (size_t i = 0; i < uri.scheme.len; i++) {
        char c = uri.scheme.data[i];
        bool letter = is_ascii_alnum(c) && !isdigit((unsigned char)c);
        if (!letter && (i == 0 || (!is_ascii_alnum(c) && !strchr("+-.", c ? c : ' '))))
            return false;
    }
    return (!uri.has_authority || is_authority(uri.authority, wide)) && is_part(uri.path, SUB_DELIMS ":@/", wide) &&
           is_part(uri.query, SUB_DELIMS ":@/?", wide) && is_part(uri.fragment, SUB_DELIMS ":@/?", wide);
}

bool ob_format_uri(struct ob_text text)
{
    return is_reference(text, true, false);
}

bool ob_format_uri_reference(struct ob_text text)
{
    return is_reference(text, false, false);
}

bool ob_format_iri(struct ob_text text)
{
    return is_reference(text, true, true);
}

bool ob_format_iri_reference(struct ob_text text)
{
    return is_reference(text, false, true);
}

/* {operator name,name:3,name*} among characters that are valid in a URI. */
bool ob_format_uri_template(struct ob_text text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c <= 0x20 || c == 0x7f || strchr("\"<>\\^`|}", c))
            return false;
        if (c != '{')
            continue;
        const char *close = memchr(text.data + i, '}', text.len - i);
        if (!close)
            return false;
        struct ob_text inner = {text.data + i + 1, (size_t)(close - text.data) - i - 1};
        if (inner.len && inner.data[0] && strchr("+#./;?&=,!@|", inner.data[0]))
            inner = (struct ob_text){inner.data + 1, inner.len - 1};
        if (inner.len == 0 || !is_part(inner, ",:*", false))
            return false;
        i = (size_t)(close - text.data);
    }
    return true;
}

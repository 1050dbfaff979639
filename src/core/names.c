/* names.c - see names.h. */
#include "core/names.h"

#include "base/error.h"
#include "base/glob.h"
#include "base/utf8.h"

#include <string.h>

bool ob_name_is_sink(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.");
    return len > 0 && len <= OB_NAME_SINK && !name[len];
}

/* Spaces and control characters, as enqueue refuses them. */
static bool is_blank(unsigned c)
{
    return c <= 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool has_blank(const char *text)
{
    for (size_t width; *text; text += width) {
        width = ob_utf8_width(text, strlen(text));
        if (!width || is_blank(ob_utf8_decode(text, width)))
            return true;
    }
    return false;
}

static enum outbox_code check(const char *what, const char *text, size_t most, struct outbox_error *err)
{
    size_t len = text ? strlen(text) : 1;
    if (len < 1 || len > most)
        return ob_error_set(err, OUTBOX_INVALID, "\"%s\" has %zu bytes; it takes 1 to %zu", what, len, most);
    if (text && has_blank(text))
        return ob_error_set(err, OUTBOX_INVALID,
                            "\"%s\" is \"%.64s\"; topics and namespaces have no spaces and no control characters", what,
                            text);
    if (text && ob_glob_is(text) && strchr(text, '\\'))
        return ob_error_set(
            err, OUTBOX_INVALID,
            "\"%s\" is \"%.64s\"; a pattern has * and ?, and no backslash: no name has a * or a ? of its "
            "own",
            what, text);
    return OUTBOX_OK;
}

enum outbox_code ob_names_check(const char *name_space, const char *topic, const char *sink, struct outbox_error *err)
{
    enum outbox_code code = check("namespace", name_space, OB_NAME_NAMESPACE, err);
    if (!code)
        code = check("topic", topic, OB_NAME_TOPIC, err);
    if (!code && sink && !ob_name_is_sink(sink))
        code = ob_error_set(err, OUTBOX_INVALID,
                            "no sink is named \"%.64s\"; a name has 1 to 64 letters, digits, \"-\", \"_\" and \".\"",
                            sink);
    return code;
}

/* names.c - see names.h. */
#include "core/names.h"

#include "base/error.h"
#include "base/glob.h"
#include "base/utf8.h"

#include <string.h>

bool ob_name_is_sink(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.");
    return len > 0 && len <= (size_t)OB_MOST(sink_name) && !name[len];
}

/* Unicode's white space is listed explicitly: the character classes of locales and collations differ. */
bool ob_name_is_blank(unsigned c)
{
    return c <= 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool has_blank(const char *text)
{
    for (size_t width; *text; text += width) {
        width = ob_utf8_width(text, strlen(text));
        if (!width || ob_name_is_blank(ob_utf8_decode(text, width)))
            return true;
    }
    return false;
}

static enum outbox_code check(enum ob_limit limit, const char *what, const char *text, struct outbox_error *err)
{
    enum outbox_code code = text ? ob_limit_check(limit, what, (int64_t)strlen(text), err) : OUTBOX_OK;
    if (code)
        return code;
    if (text && has_blank(text))
        return ob_error_set(err, OUTBOX_INVALID,
                            "\"%s\" is \"%.64s\"; topics and namespaces have no spaces and no control characters", what,
                            text);
    if (text && ob_glob_is(text) && strchr(text, '\\'))
        return ob_error_set(err, OUTBOX_INVALID, "\"%s\" is \"%.64s\"; a pattern may contain * and ?, but no backslash",
                            what, text);
    return OUTBOX_OK;
}

enum outbox_code ob_names_check(const char *name_space, const char *topic, const char *sink, struct outbox_error *err)
{
    enum outbox_code code = check(OB_LIMIT_namespace, "namespace", name_space, err);
    if (!code)
        code = check(OB_LIMIT_topic, "topic", topic, err);
    if (!code && sink && !ob_name_is_sink(sink))
        code = ob_error_set(err, OUTBOX_INVALID,
                            "no sink is named \"%.64s\"; a name has 1 to 64 letters, digits, \"-\", \"_\" and \".\"",
                            sink);
    return code;
}

static const char *const role_names[] = {"none", "viewer", "operator", "admin"};

const char *ob_role_name(enum ob_role role)
{
    return role_names[role];
}

enum ob_role ob_role_find(const char *name)
{
    for (int role = OB_ROLE_VIEWER; name && role <= OB_ROLE_ADMIN; role++)
        if (strcmp(role_names[role], name) == 0)
            return (enum ob_role)role;
    return OB_ROLE_NONE;
}

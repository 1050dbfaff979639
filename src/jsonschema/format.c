/* format.c - the table of formats, and the short checks. */
#include "jsonschema/format.h"

#include <ctype.h>
#include <string.h>

static bool format_uuid(struct ob_text text)
{
    if (text.len != 36)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text.data[i] != '-' : !isxdigit((unsigned char)text.data[i]))
            return false;
    }
    return true;
}

static bool format_json_pointer(struct ob_text text)
{
    if (text.len && text.data[0] != '/')
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '~' && (i + 1 == text.len || (text.data[i + 1] != '0' && text.data[i + 1] != '1')))
            return false;
    return true;
}

static bool format_relative_pointer(struct ob_text text)
{
    size_t digits = 0;
    while (digits < text.len && isdigit((unsigned char)text.data[digits]))
        digits++;
    if (digits == 0 || (digits > 1 && text.data[0] == '0'))
        return false;
    struct ob_text rest = {text.data + digits, text.len - digits};
    return ob_text_is(rest, "#") || format_json_pointer(rest);
}

static const struct ob_format formats[] = {
    {"date-time", "a date and time such as 2024-05-01T12:00:00Z", ob_format_date_time},
    {"date", "a date such as 2024-05-01", ob_format_date},
    {"time", "a time such as 12:00:00Z", ob_format_time},
    {"duration", "a duration such as PT15M", ob_format_duration},
    {"email", "an email address", ob_format_email},
    {"idn-email", "an email address", ob_format_idn_email},
    {"hostname", "a host name", ob_format_hostname},
    {"ipv4", "an IPv4 address", ob_format_ipv4},
    {"ipv6", "an IPv6 address", ob_format_ipv6},
    {"uri", "a URI with a scheme", ob_format_uri},
    {"uri-reference", "a URI or a relative reference", ob_format_uri_reference},
    {"iri", "an IRI with a scheme", ob_format_iri},
    {"iri-reference", "an IRI or a relative reference", ob_format_iri_reference},
    {"uri-template", "a URI template", ob_format_uri_template},
    {"uuid", "a UUID", format_uuid},
    {"json-pointer", "a JSON pointer", format_json_pointer},
    {"relative-json-pointer", "a relative JSON pointer", format_relative_pointer},
};

const struct ob_format *ob_format_find(struct ob_text name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (ob_text_is(name, formats[i].name))
            return &formats[i];
    return NULL;
}

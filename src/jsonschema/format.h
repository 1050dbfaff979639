/* format.h - the values of "format" that are checked. As the standard says, an unknown name is not an error. */
#ifndef OB_JSONSCHEMA_FORMAT_H
#define OB_JSONSCHEMA_FORMAT_H

#include "jsonschema/tree.h"

struct ob_format {
    const char *name;
    const char *what; /* "must be ..." */
    bool (*check)(struct ob_text text);
};

/* NULL when the name is not known. */
const struct ob_format *ob_format_find(struct ob_text name);

bool ob_format_date(struct ob_text text);
bool ob_format_time(struct ob_text text);
bool ob_format_date_time(struct ob_text text);
bool ob_format_duration(struct ob_text text);
bool ob_format_email(struct ob_text text);
bool ob_format_idn_email(struct ob_text text);
bool ob_format_hostname(struct ob_text text);
bool ob_format_ipv4(struct ob_text text);
bool ob_format_ipv6(struct ob_text text);
bool ob_format_uri(struct ob_text text);
bool ob_format_uri_reference(struct ob_text text);
bool ob_format_iri(struct ob_text text);
bool ob_format_iri_reference(struct ob_text text);
bool ob_format_uri_template(struct ob_text text);

#endif

/* uri.h - URI references of RFC 3986: split and resolve them, for $id and $ref. Nothing is ever fetched. */
#ifndef OB_JSONSCHEMA_URI_H
#define OB_JSONSCHEMA_URI_H

#include "base/buf.h"
#include "jsonschema/tree.h"

/* Views into the reference. has_*: distinguishes an empty part from a missing one. */
struct ob_uri {
    struct ob_text scheme, authority, path, query, fragment;
    bool has_scheme, has_authority, has_query, has_fragment;
};

void ob_uri_split(struct ob_text text, struct ob_uri *uri);
/* Appends `reference`, resolved against `base`, without its fragment. With an empty base it is unchanged. */
void ob_uri_resolve(struct ob_buf *out, struct ob_text base, struct ob_text reference);
/* Decodes %XX; false when it is malformed. */
bool ob_uri_decode(struct ob_buf *out, struct ob_text text);

#endif

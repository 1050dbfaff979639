/* uri.h - references of RFC 3986: taking them apart and resolving them, for $id and $ref. Nothing is ever fetched. */
#ifndef OB_JSONSCHEMA_URI_H
#define OB_JSONSCHEMA_URI_H

#include "base/buf.h"
#include "jsonschema/tree.h"

/* Views into the reference. has_*: an empty part is not a missing one. */
struct ob_uri {
    struct ob_text scheme, authority, path, query, fragment;
    bool has_scheme, has_authority, has_query, has_fragment;
};

void ob_uri_split(struct ob_text text, struct ob_uri *uri);
/* Appends `reference`, seen from `base`, without its fragment. An empty base leaves it as it is. */
void ob_uri_resolve(struct ob_buf *out, struct ob_text base, struct ob_text reference);
/* Undoes %XX; false when that is malformed. */
bool ob_uri_decode(struct ob_buf *out, struct ob_text text);

#endif

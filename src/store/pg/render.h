/* render.h - puts the schema's name, and the names of its roles, into SQL that was embedded with placeholders.
 *
 *   @schema@            the schema, as a quoted identifier
 *   @relay@ ...         the role "<schema>_relay", likewise: owner api hooks nobody producer relay operator auditor
 *                       tenant
 *   @schema_text@ ...   the same names as SQL literals
 *
 * These are the only texts ever put into SQL; values go as parameters. */
#ifndef OB_STORE_PG_RENDER_H
#define OB_STORE_PG_RENDER_H

#include "base/buf.h"

#include <outbox/outbox.h>

enum { OB_PG_SCHEMA_MAX = 50 }; /* bytes: "<schema>_producer" must fit the 63 of an identifier */

/* INVALID for a name that no schema of ours may have. */
enum outbox_code ob_pg_schema_check(const char *schema, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Appends; the schema has passed the check. A word between @ signs that is no placeholder stays as it is. */
void ob_pg_render(struct ob_buf *buf, const char *sql, const char *schema);
/* The roles of an outbox by their suffixes, "owner", "api", "hooks" and "nobody" first; NULL after the last. */
const char *ob_pg_role(size_t i);
/* Appends "<name><suffix>" as a quoted identifier. */
void ob_pg_quote(struct ob_buf *buf, const char *name, const char *suffix);

#endif

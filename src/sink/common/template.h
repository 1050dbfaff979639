/* template.h - texts with {{placeholders}} that are filled from a message, for adapters whose receivers expect readable
 * text or JSON of their own format.
 *
 *     Dear {{customer.name|customer}}, order {{order.id}} of {{order.lines.0.article}} has left us.
 *
 * A placeholder is a path into the payload (names and positions, joined by dots), or '@' and a field of the message itself:
 * @id, @namespace, @topic, @key, @recipient, @subject, @tenant, @correlation_id. The text after a '|' is the default: it is
 * written unescaped if the field is missing or null. Without a default such a message fails, and the error names the field.
 *
 * A value cannot change the markup around it: OB_ESCAPE_HTML escapes it as HTML text; OB_ESCAPE_JSON writes the content of
 * a string if the placeholder is between quotes, and a whole JSON value if it is not. Objects and arrays are written as
 * JSON. OB_ESCAPE_SLACK and OB_ESCAPE_MARKDOWN escape it as text of Slack's markup and of Telegram's MarkdownV2.
 *
 * A template is immutable. */
#ifndef OB_SINK_COMMON_TEMPLATE_H
#define OB_SINK_COMMON_TEMPLATE_H

#include "base/buf.h"

#include <jansson.h>
#include <outbox/outbox.h>

enum ob_escape { OB_ESCAPE_NONE, OB_ESCAPE_HTML, OB_ESCAPE_JSON, OB_ESCAPE_SLACK, OB_ESCAPE_MARKDOWN };

typedef struct ob_template ob_template;

/* OUTBOX_INVALID if the text is not a valid template: a placeholder is not closed, is empty, or names an unknown @field. */
enum outbox_code ob_template_new(const char *text, enum ob_escape escape, ob_template **out,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_template_free(ob_template *tpl);

/* Appends to buf. payload is borrowed and may be NULL (a payload that is not JSON); then every path is missing.
 * OUTBOX_INVALID if a field is missing, OUTBOX_NOMEM if memory ran out. */
enum outbox_code ob_template_render(const ob_template *tpl, const struct outbox_delivery *msg, const json_t *payload,
                                    struct ob_buf *buf, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Appends text, escaped so that Slack shows it unchanged. */
void ob_escape_slack(struct ob_buf *buf, const char *text, size_t len);

#endif

/* template.h - texts with {{placeholders}} that are filled from a message, for adapters whose receivers read prose or
 * want JSON of their own.
 *
 *     Dear {{customer.name|customer}}, order {{order.id}} of {{order.lines.0.article}} has left us.
 *
 * A placeholder is a path into the payload (names and positions, joined by dots), or a field of the message itself behind
 * an '@': @id, @namespace, @topic, @key, @recipient, @subject, @tenant, @correlation_id. Behind a '|' stands what is
 * written, as it stands, when the field is missing or null; without it such a message fails, and the error names it.
 *
 * A value never breaks out of its place: OB_ESCAPE_HTML writes it as text of HTML; OB_ESCAPE_JSON writes the content of
 * a string where the placeholder stands between quotes, and a whole JSON value where it stands outside. Objects and
 * arrays are written as JSON. OB_ESCAPE_SLACK and OB_ESCAPE_MARKDOWN write it as text of Slack's markup and of Telegram's
 * MarkdownV2.
 *
 * A template never changes once made. */
#ifndef OB_SINK_COMMON_TEMPLATE_H
#define OB_SINK_COMMON_TEMPLATE_H

#include "base/buf.h"

#include <jansson.h>
#include <outbox/outbox.h>

enum ob_escape { OB_ESCAPE_NONE, OB_ESCAPE_HTML, OB_ESCAPE_JSON, OB_ESCAPE_SLACK, OB_ESCAPE_MARKDOWN };

typedef struct ob_template ob_template;

/* OUTBOX_INVALID when the text is no template: a placeholder that is not closed, empty, or of an unknown @field. */
enum outbox_code ob_template_new(const char *text, enum ob_escape escape, ob_template **out,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_template_free(ob_template *tpl);

/* Appends to buf. payload is borrowed and may be NULL (a payload that is not JSON); then every path is missing.
 * OUTBOX_INVALID when a field is missing, OUTBOX_NOMEM when memory ran out. */
enum outbox_code ob_template_render(const ob_template *tpl, const struct outbox_delivery *msg, const json_t *payload,
                                    struct ob_buf *buf, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Appends text so that Slack shows it as it stands. */
void ob_escape_slack(struct ob_buf *buf, const char *text, size_t len);

#endif

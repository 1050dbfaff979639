/* webhook_sign.h - signatures of Standard Webhooks 1.0: HMAC-SHA256 over "id.timestamp.body", one for each secret. So a
 * secret can be rotated without a gap: sign with both the old and the new one until every receiver has the new one.
 *
 * A secret is "whsec_" and base64 of 24 to 64 bytes. Neither it nor a part of it appears in an error. */
#ifndef OB_SINK_HTTP_WEBHOOK_SIGN_H
#define OB_SINK_HTTP_WEBHOOK_SIGN_H

#include "base/buf.h"

#include <outbox/outbox.h>

typedef struct ob_webhook_key ob_webhook_key;

enum outbox_code ob_webhook_key_new(const char *secret, ob_webhook_key **out,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_webhook_key_free(ob_webhook_key *key);

/* Writes "v1,<base64>". False: the library failed, which happens if memory runs out. */
bool ob_webhook_sign(ob_webhook_key *key, const char *id, const char *timestamp, const void *body, size_t len,
                     struct ob_buf *out) OUTBOX_MUST_CHECK;

#endif

/* mask.h - what a request holds in secret, as texts that must not be shown: some receivers repeat in their errors
 * what they were sent, whole or taken apart.
 *
 * Of a URL that is all of it, its path, its query, and of these two the parts that are long enough to be a key; of a
 * header its value, and the last word of it, which stands behind a scheme. */
#ifndef OB_SINK_HTTP_MASK_H
#define OB_SINK_HTTP_MASK_H

#include "base/buf.h"

#include <curl/curl.h>
#include <outbox/outbox.h>

/* Add to a list, which is freed with curl_slist_free_all. False when memory ran out. */
bool ob_http_mask_url(struct curl_slist **masks, const char *url) OUTBOX_MUST_CHECK;
/* secret: it is one however short it is. */
bool ob_http_mask_value(struct curl_slist **masks, const char *value, bool secret) OUTBOX_MUST_CHECK;

void ob_http_mask(const struct curl_slist *masks, struct ob_buf *text);

#endif

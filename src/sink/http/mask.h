/* mask.h - the secrets of a request, as texts that must not be shown: some receivers repeat in their errors what was sent
 * to them, as a whole or in parts.
 *
 * For a URL these are the whole URL, its path, its query, and the parts of these two that are long enough to be a key; for
 * a header they are its value, and the last word of the value, which may follow a scheme. */
#ifndef OB_SINK_HTTP_MASK_H
#define OB_SINK_HTTP_MASK_H

#include "base/buf.h"

#include <curl/curl.h>
#include <outbox/outbox.h>

/* Both add to a list, which is freed with curl_slist_free_all. False: out of memory. */
bool ob_http_mask_url(struct curl_slist **masks, const char *url) OUTBOX_MUST_CHECK;
/* secret: the value is masked even if it is short. */
bool ob_http_mask_value(struct curl_slist **masks, const char *value, bool secret) OUTBOX_MUST_CHECK;

void ob_http_mask(const struct curl_slist *masks, struct ob_buf *text);

#endif

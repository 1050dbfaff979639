/* config.h - the settings of the http sink: their table, and the configuration made from them. Immutable after open.
 * Thread: the loop's. */
#ifndef OB_SINK_HTTP_CONFIG_H
#define OB_SINK_HTTP_CONFIG_H

#include "base/arena.h"
#include "sink/common/render.h"
#include "sink/common/tls.h"
#include "sink/curl/http_outcome.h"
#include "sink/curl/http_url.h"
#include "sink/curl/option.h"
#include "sink/http/mask.h"
#include "sink/http/webhook_sign.h"

#include <outbox/sink.h>

enum ob_http_idempotency { OB_HTTP_KEY_ID, OB_HTTP_KEY_DEDUPE, OB_HTTP_KEY_NONE };
enum ob_http_ping { OB_HTTP_PING_CONNECT, OB_HTTP_PING_HEAD, OB_HTTP_PING_OPTIONS };

struct ob_http_config {
    struct ob_arena arena; /* of all texts below */
    const char *url;       /* NULL: only messages name one */
    const char *url_header;
    struct ob_http_urls places;
    const char *method;
    struct ob_render render;
    enum ob_http_idempotency idempotency;
    enum ob_http_ping ping;
    ob_webhook_key **keys;
    size_t key_count;
    struct curl_slist *fixed; /* the headers of every request; owned */
    struct curl_slist *masks; /* the parts of a request that must not be shown; owned */
    const char *user_agent;
    long version; /* of CURLOPT_HTTP_VERSION */
    struct ob_curl_options curl;
    struct ob_tls tls;
    bool follow; /* redirects to the same origin */
    size_t response_most, keep_most;
    bool capture;
    const char *reference_header, *reference_pointer;
    struct ob_http_rules rules;
};

extern const struct outbox_sink_setting ob_http_settings[];

/* ops->check: warns about an address in `url` that the guard refuses. */
void ob_http_config_check(const struct outbox_sink_check *check);

/* The caller must call fini, also after a failure. */
enum outbox_code ob_http_config_init(struct ob_http_config *config, const struct outbox_sink_option *given,
                                     size_t count, struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_http_config_fini(struct ob_http_config *config);

/* Whether the sink writes this header itself, or it could break the framing of a request: nothing else may set it. */
bool ob_http_name_reserved(const char *name);

#endif

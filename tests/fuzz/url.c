/* url.c - fuzzes URLs and the guard of addresses. What is admitted lies where it is allowed: parsing it again says the same. */
#include "fuzz.h"

#include "base/alloc.h"
#include "sink/broker/url.h"
#include "sink/curl/http_url.h"
#include "sink/curl/net_guard.h"

static void http_urls(const char *allowed, const char *text)
{
    struct ob_http_urls urls = {0};
    struct outbox_error err;
    char *normal = NULL, *again = NULL;
    if (ob_http_urls_allow(&urls, allowed, &err) == OUTBOX_OK &&
        ob_http_url_admit(&urls, text, &normal, &err) == OUTBOX_OK) {
        if (ob_http_url_admit(&urls, normal, &again, &err) != OUTBOX_OK || strcmp(normal, again) != 0)
            abort(); /* what was checked must be what is used */
        (void)ob_http_url_same_origin(normal, allowed);
    }
    ob_free(normal);
    ob_free(again);
    normal = NULL;
    if (ob_http_url_parse(text, &normal, &err) == OUTBOX_OK)
        ob_free(normal);
    ob_http_urls_fini(&urls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *allowed = fuzz_part(&input, NULL), *text = fuzz_part(&input, NULL);
    struct ob_broker_url url;
    struct ob_net_guard guard;
    struct outbox_error err;
    http_urls(allowed, text);
    if (ob_broker_url_parse(&url, text, "amqp amqps redis nats mqtt", 5672, &err) == OUTBOX_OK) {
        char place[OB_PLACE];
        ob_broker_url_place(&url, place);
    }
    ob_net_guard_init(&guard);
    if (ob_net_guard_allow(&guard, allowed, &err) == OUTBOX_OK)
        ob_net_guard_passes_text(&guard, text);
    ob_net_guard_fini(&guard);
    free(allowed);
    free(text);
    return 0;
}

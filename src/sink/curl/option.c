/* option.c - see option.h. */
#include "sink/curl/option.h"

enum outbox_code ob_curl_options_read(struct ob_curl_options *read, const struct ob_options *options,
                                      struct ob_arena *arena, struct outbox_error *err)
{
    const char *place;
    enum outbox_code code = OUTBOX_OK;
    ob_net_guard_init(&read->guard);
    read->limits.connections = (int)ob_option_int(options, "connections");
    read->limits.idle_us = ob_option_int(options, "idle");
    read->limits.connect_us = ob_option_int(options, "connect_timeout");
    read->limits.total_us = ob_option_int(options, "response_timeout");
    read->patience_us = ob_option_int(options, "retry_after_max");
    for (size_t i = 0; !code && (place = ob_option_next(options, "allow", &i));)
        code = ob_net_guard_allow(&read->guard, place, err);
    return code ? code : ob_option_keep(options, "proxy", arena, &read->proxy, err);
}

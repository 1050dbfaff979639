/* payload_check.c - see payload_check.h. The schemas were compiled with the configuration and never change. */
#include "config/payload_check.h"

#include "base/utf8.h"
#include "config/route.h"
#include "jsonschema/schema.h"

#include <stdio.h>
#include <string.h>

static void explain(const struct ob_config_route *route, const struct ob_jsonschema_fault *fault, char *why,
                    size_t size)
{
    const char *slash = strrchr(route->schema, '/');
    const char *file = slash ? slash + 1 : route->schema;
    snprintf(why, size, "%s [%s%s%s]", fault->text, file, fault->rule[0] ? "#" : "", fault->rule);
    /* The text may have been cut inside a character, and the database accepts only valid UTF-8. */
    for (size_t len = strlen(why); len > 0 && !ob_utf8_valid(why, len); len--)
        why[len - 1] = '\0';
}

enum outbox_code ob_payload_check(const struct ob_config *config, const struct outbox_delivery *msg, char *why,
                                  size_t size)
{
    struct ob_jsonschema_fault fault;
    int found = ob_route_find(config, msg);
    const struct ob_config_route *route = found >= 0 ? &config->routes[found] : NULL;
    if (!route || !route->compiled)
        return OUTBOX_OK;
    enum outbox_code code = ob_jsonschema_check(route->compiled, msg->payload, msg->payload_len, &fault);
    if (code == OUTBOX_INVALID)
        explain(route, &fault, why, size);
    return code;
}

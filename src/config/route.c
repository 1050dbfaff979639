/* route.c - see route.h.
 *
 * Most lanes do not depend on headers: for them a message costs one hash and one comparison. The cache of lanes has a
 * fixed size, whatever the number of topics; a lane replaces another one in the same slot. */
#include "config/route.h"

#include "base/glob.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static bool in_lane(const struct ob_config_route *route, const char *name_space, const char *topic)
{
    return (!route->name_space || ob_glob_match(route->name_space, name_space)) &&
           (!route->topic || ob_glob_match(route->topic, topic));
}

/* The one route of the lane, or NONE, or BY_HEADERS. */
static int lane_route(const struct ob_config *config, const char *name_space, const char *topic)
{
    for (size_t i = 0; i < config->route_count; i++)
        if (in_lane(&config->routes[i], name_space, topic))
            return config->routes[i].header_count ? OB_ROUTE_BY_HEADERS : (int)i;
    return OB_ROUTE_NONE;
}

int ob_route_lane(const struct ob_config *config, const char *name_space, const char *topic)
{
    int sink = OB_ROUTE_NONE;
    for (size_t i = 0; i < config->route_count; i++) {
        const struct ob_config_route *route = &config->routes[i];
        if (!in_lane(route, name_space, topic))
            continue;
        if (sink != OB_ROUTE_NONE && sink != route->sink)
            return OB_ROUTE_BY_HEADERS;
        sink = route->sink;
        if (!route->header_count)
            return sink;
    }
    return sink == OB_ROUTE_NONE ? OB_ROUTE_NONE : OB_ROUTE_BY_HEADERS;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

/* Strings are compared as they are, numbers and booleans as JSON writes them; lists, objects and null match nothing. */
static bool header_matches(const json_t *headers, const struct ob_config_match *match)
{
    const json_t *value = json_object_get(headers, match->name);
    char text[64];
    if (json_is_string(value))
        return ob_glob_match(match->value, json_string_value(value));
    if (json_is_boolean(value))
        return ob_glob_match(match->value, json_is_true(value) ? "true" : "false");
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
    else
        return false;
    return ob_glob_match(match->value, text);
}

static bool all_match(const json_t *headers, const struct ob_config_route *route)
{
    for (size_t i = 0; i < route->header_count; i++)
        if (!header_matches(headers, &route->headers[i]))
            return false;
    return true;
}

static int find_by_headers(const struct ob_config *config, const struct outbox_delivery *msg)
{
    json_t *headers = msg->headers ? json_loads(msg->headers, 0, NULL) : NULL;
    int found = OB_ROUTE_NONE;
    for (size_t i = 0; i < config->route_count && found == OB_ROUTE_NONE; i++)
        if (in_lane(&config->routes[i], msg->name_space, msg->topic) && all_match(headers, &config->routes[i]))
            found = (int)i;
    json_decref(headers);
    return found;
}

/* ---- the memory -------------------------------------------------------------------------------------------------- */

enum { SLOTS = 512, KEY_MOST = 120 };

struct ob_route_memo {
    struct {
        uint64_t hash;
        int route;
        bool filled;
        char key[KEY_MOST]; /* namespace, NUL, topic, NUL */
    } slots[SLOTS];
};

struct ob_route_memo *ob_route_memo_new(struct ob_arena *arena)
{
    return ob_arena_calloc(arena, 1, sizeof(struct ob_route_memo));
}

static uint64_t hash_of(const char *key, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 29;
}

int ob_route_find(const struct ob_config *config, const struct outbox_delivery *msg)
{
    size_t first = strlen(msg->name_space) + 1, len = first + strlen(msg->topic) + 1;
    char key[KEY_MOST];
    int route;
    if (len > KEY_MOST || !config->memo) {
        route = lane_route(config, msg->name_space, msg->topic);
        return route == OB_ROUTE_BY_HEADERS ? find_by_headers(config, msg) : route;
    }
    memcpy(key, msg->name_space, first);
    memcpy(key + first, msg->topic, len - first);
    uint64_t hash = hash_of(key, len);
    size_t slot = hash % SLOTS;
    struct ob_route_memo *memo = config->memo;
    if (!memo->slots[slot].filled || memo->slots[slot].hash != hash || memcmp(memo->slots[slot].key, key, len) != 0) {
        memo->slots[slot].route = lane_route(config, msg->name_space, msg->topic);
        memo->slots[slot].hash = hash;
        memo->slots[slot].filled = true;
        memcpy(memo->slots[slot].key, key, len);
    }
    route = memo->slots[slot].route;
    return route == OB_ROUTE_BY_HEADERS ? find_by_headers(config, msg) : route;
}

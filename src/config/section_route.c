/* section_route.c - the routes: globs, header conditions, and the sink of each. */
#include "config/config_int.h"

#include "base/glob.h"
#include "base/nearest.h"
#include "config/route.h"
#include "core/store.h"
#include "jsonschema/schema.h"

#include <stdio.h>
#include <string.h>

static const char *key_of_route(const void *ctx, size_t i)
{
    (void)ctx;
    return ob_section_key(OB_SECTION_routes, i);
}

static const char *text_of(struct ob_loader *ld, const struct ob_scope *scope, const char *key,
                           struct ob_config_place *place)
{
    struct ob_given given;
    ob_scope_get(ld, scope, key, OB_WANT_TEXT, false, &given);
    if (given.found && place)
        *place = given.place;
    return given.found ? given.text : NULL;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

static void read_headers(struct ob_loader *ld, const struct ob_scope *scope, struct ob_config_route *route)
{
    const size_t len = strlen("headers.");
    struct ob_config_match *headers = ob_loader_calloc(ld, scope->count, sizeof *headers);
    for (size_t i = 0; i < scope->count && headers; i++) {
        struct ob_entry *entry = &scope->items[i];
        struct ob_config_place place = OB_PLACE_FILE(ld, entry->line);
        const char *key = ob_loader_printf(ld, "%s.%s", scope->path, entry->name);
        bool changed;
        if (strcmp(entry->name, "headers") == 0) {
            entry->used = true;
            if (entry->node->kind == OB_NODE_TEXT || entry->node->kind == OB_NODE_LIST)
                ob_loader_problem(ld, true, &place, key, NULL, NULL,
                                  "must be a map: a header, and a glob for its value");
        }
        if (strncmp(entry->name, "headers.", len) != 0)
            continue;
        entry->used = true;
        struct ob_config_match *match = &headers[route->header_count];
        match->name = entry->name + len;
        if (entry->node->kind != OB_NODE_TEXT)
            ob_loader_problem(ld, true, &place, key, NULL, NULL, "must be a glob, such as \"*\"");
        else if (ob_config_expand(ld, entry->node->text, &place, key, &match->value, &changed))
            route->header_count++;
    }
    route->headers = headers;
}

/* ---- one route --------------------------------------------------------------------------------------------------- */

static int sink_index(struct ob_loader *ld, const char *name, const struct ob_config_place *place, const char *key)
{
    const struct ob_config *config = ld->config;
    struct ob_nearest near;
    ob_nearest_init(&near, name);
    for (size_t i = 0; i < config->sink_count; i++) {
        if (strcmp(config->sinks[i].name, name) == 0)
            return (int)i;
        ob_nearest_try(&near, config->sinks[i].name);
    }
    ob_loader_problem(ld, true, place, key, name, near.best, "unknown sink \"%s\"", name);
    return -1;
}

/* Compiled once here, so that an invalid schema is reported with the other mistakes of the configuration. Later changes
 * of the file take effect at the next reload. */
static void read_schema(struct ob_loader *ld, struct ob_config_route *route, const struct ob_config_place *place,
                        const char *key)
{
    struct outbox_error err = {0};
    route->schema = ob_config_beside(ld, route->schema);
    enum outbox_code code = ob_jsonschema_load(route->schema, &route->compiled, NULL, &err);
    if (code == OUTBOX_NOMEM)
        ld->nomem = true;
    else if (code)
        ob_loader_problem(ld, true, place, key, route->schema, NULL, "%s", err.text);
}

/* The route's own attempts and delays; the rest comes from its sink. */
static void read_patience(struct ob_loader *ld, const struct ob_scope *scope, struct ob_config_route *route)
{
    const struct ob_config_sink *sink = route->sink >= 0 ? &ld->config->sinks[route->sink] : NULL;
    if (sink)
        route->patience = (struct ob_patience){sink->delivery.max_attempts, sink->delivery.retry};
    for (size_t i = 0; i < ob_config_row_count; i++) {
        const struct ob_config_row *row = &ob_config_rows[i];
        bool given = false;
        for (size_t n = 0; n < scope->count; n++)
            given = given || strcmp(scope->items[n].name, row->key) == 0;
        if (given && row->section == OB_SECTION_routes && row->type != OB_TYPE_TEXT && row->type != OB_TYPE_MAP)
            ob_row_read(ld, row, scope, route);
    }
    if (sink && sink->delivery.retry.kind != route->patience.retry.kind && route->patience.retry.kind != OB_RETRY_LIST)
        route->patience.retry.list_count = 0;
}

/* `default/orders.* kind=x* -> billing` */
static void put_value(struct ob_loader *ld, const struct ob_scope *scope, const struct ob_config_route *route,
                      const char *sink)
{
    struct ob_config_place place = OB_PLACE_FILE(ld, route->line);
    struct ob_buf text = OB_BUF_INIT;
    ob_buf_printf(&text, "%s/%s", route->name_space ? route->name_space : "*", route->topic ? route->topic : "*");
    for (size_t i = 0; i < route->header_count; i++)
        ob_buf_printf(&text, " %s=%s", route->headers[i].name, route->headers[i].value);
    ob_buf_printf(&text, " -> %s", sink);
    if (route->schema)
        ob_buf_printf(&text, " (schema %s)", route->schema);
    if (!ob_buf_ok(&text))
        ld->nomem = true;
    const char *kept = ob_loader_dup(ld, ob_buf_text(&text));
    ob_loader_value(ld, scope, "", kept, kept, &place, false, true);
    ob_buf_fini(&text);
}

static void read_route(struct ob_loader *ld, struct ob_config_route *route, const struct ob_node *node, size_t i)
{
    struct ob_scope scope;
    struct ob_config_place here = OB_PLACE_FILE(ld, node->line), place = here;
    const char *path = ob_loader_printf(ld, "routes[%zu]", i);
    *route = (struct ob_config_route){.file = ld->file, .line = node->line, .sink = -1};
    if (node->kind != OB_NODE_MAP) {
        ob_loader_problem(ld, true, &here, path, NULL, NULL,
                          "must be a map, such as {topic: \"orders.*\", sink: NAME}");
        return;
    }
    ob_scope_init(ld, &scope, path, NULL, node, node->line);
    route->name_space = text_of(ld, &scope, "namespace", NULL);
    route->topic = text_of(ld, &scope, "topic", NULL);
    read_headers(ld, &scope, route);
    const char *sink = text_of(ld, &scope, "sink", &place);
    if (sink)
        route->sink = sink_index(ld, sink, &place, ob_loader_printf(ld, "%s.sink", path));
    else if (!ob_node_get(node, "sink", NULL))
        ob_loader_problem(ld, true, &here, ob_loader_printf(ld, "%s.sink", path), NULL, NULL,
                          "is missing: a route needs a sink");
    read_patience(ld, &scope, route);
    place = here;
    route->schema = text_of(ld, &scope, "schema", &place);
    if (route->schema)
        read_schema(ld, route, &place, ob_loader_printf(ld, "%s.schema", path));
    ob_scope_check(ld, &scope, key_of_route, NULL);
    put_value(ld, &scope, route, sink ? sink : "");
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void check_reached(struct ob_loader *ld)
{
    const struct ob_config *config = ld->config;
    size_t own = config->notify.sink != NULL; /* a route that the file does not have */
    for (size_t i = own + 1; i < config->route_count; i++)
        for (size_t j = own; j < i; j++) {
            const struct ob_config_route *late = &config->routes[i], *early = &config->routes[j];
            struct ob_config_place place = OB_PLACE_FILE(ld, late->line);
            if (early->header_count || early->sink < 0 || !ob_glob_covers(early->name_space, late->name_space) ||
                !ob_glob_covers(early->topic, late->topic))
                continue;
            ob_loader_problem(ld, false, &place, ob_loader_printf(ld, "routes[%zu]", i - own), NULL, NULL,
                              "can never match: routes[%zu] in line %d matches first", j - own, early->line);
            break;
        }
}

/* News of dead letters go to the sink of `notify`, whatever the routes of the file say. */
static void add_news_route(struct ob_loader *ld)
{
    struct ob_config *config = ld->config;
    struct ob_config_place place = OB_PLACE_FILE(ld, 0);
    struct ob_config_route *route = &config->routes[config->route_count++];
    *route =
        (struct ob_config_route){.file = ld->file, .name_space = OB_NEWS_NAMESPACE, .topic = OB_NEWS_TOPIC, .sink = -1};
    route->sink = sink_index(ld, config->notify.sink, &place, "notify.sink");
    if (route->sink >= 0) {
        const struct ob_config_sink *sink = &config->sinks[route->sink];
        route->patience.retry = sink->delivery.retry;
        route->patience.max_attempts = sink->delivery.max_attempts;
    }
}

void ob_config_read_routes(struct ob_loader *ld, const struct ob_node *root)
{
    struct ob_config *config = ld->config;
    int line = 0;
    const struct ob_node *routes = ob_node_get(root, "routes", &line);
    struct ob_config_place place = OB_PLACE_FILE(ld, line);
    bool some = routes && routes->kind != OB_NODE_NULL, news = config->notify.sink != NULL;
    if (!some && !news)
        return;
    if (some && routes->kind != OB_NODE_LIST) {
        ob_loader_problem(ld, true, &place, "routes", NULL, NULL,
                          "must be a list: start every route with \"- \"; the first match wins");
        return;
    }
    config->routes = ob_loader_calloc(ld, (some ? routes->count : 0) + news, sizeof *config->routes);
    if (news && config->routes)
        add_news_route(ld);
    for (size_t i = 0; some && i < routes->count && config->routes; i++)
        read_route(ld, &config->routes[config->route_count++], routes->items[i], i);
    check_reached(ld);
}

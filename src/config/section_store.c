/* section_store.c - which stores are configured: a flag, OUTBOX_STORE, `store` or `stores` of the file, or DATABASE_URL. */
#include "config/config_int.h"

#include "base/error.h"
#include "core/names.h"
#include "lib/open.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *key_of_store(const void *ctx, size_t i)
{
    (void)ctx;
    return ob_section_key(OB_SECTION_stores, i);
}

/* Problems are reported at the place of the URL. */
static void check_url(struct ob_loader *ld, const struct ob_config_store *store, const char *path,
                      const struct ob_config_place *place)
{
    struct outbox_error err;
    const char *key = ob_loader_printf(ld, "%s.url", path);
    if (ob_url_check(store->url, &err))
        ob_loader_problem(ld, true, place, key, NULL, NULL, "%s", err.text);
    else if (store->schema && ob_url_kind(store->url) == OB_URL_SQLITE)
        ob_loader_problem(ld, true, place, ob_loader_printf(ld, "%s.schema", path), store->schema, NULL,
                          "SQLite has no schemas: omit it");
    else if (store->schema && strlen(store->schema) > 63)
        ob_loader_problem(ld, true, place, ob_loader_printf(ld, "%s.schema", path), store->schema, NULL,
                          "is longer than PostgreSQL's 63 bytes");
}

static struct ob_config_store *add(struct ob_loader *ld, const char *name)
{
    struct ob_config *config = ld->config;
    struct ob_config_store *store = &config->stores[config->store_count++];
    store->name = ob_loader_dup(ld, name);
    return store;
}

/* The only store, when it is given outside of the file. */
static void add_single(struct ob_loader *ld, const char *url, const struct ob_config_place *place)
{
    struct ob_scope scope;
    struct ob_given given;
    struct ob_config_store *store = add(ld, "default");
    ob_scope_init(ld, &scope, "store", "STORE", NULL, 0);
    for (size_t i = 0; ob_section_key(OB_SECTION_stores, i); i++) {
        const struct ob_config_row *row = ob_section_row(OB_SECTION_stores, ob_section_key(OB_SECTION_stores, i));
        if (row->type != OB_TYPE_URL)
            ob_row_read(ld, row, &scope, store);
    }
    store->url = ob_loader_dup(ld, url);
    given = (struct ob_given){.text = store->url, .raw = store->url, .place = *place};
    if (strncmp(url, "file:", 5) == 0 && !ob_config_file_ref(ld, url, place, "store.url", &store->url))
        return;
    given.text = store->url;
    ob_loader_value(ld, &scope, "url", store->url, ob_config_shown(ld, &given, true, true), place, true, false);
    check_url(ld, store, "store", place);
}

/* An entry of the file: a URL, or a map with one. */
static void add_entry(struct ob_loader *ld, const char *name, const char *path, const char *env,
                      const struct ob_node *node, int line)
{
    struct ob_config_place place = OB_PLACE_FILE(ld, line);
    struct ob_scope scope;
    struct ob_node *map = ob_loader_calloc(ld, 1, sizeof *map);
    static const char *keys[] = {"url"};
    if (!map)
        return;
    if (node->kind == OB_NODE_TEXT) { /* the short form: `store: URL` is `store: {url: URL}` */
        struct ob_node **items = ob_loader_calloc(ld, 1, sizeof *items);
        int *lines = ob_loader_calloc(ld, 1, sizeof *lines);
        if (!items || !lines)
            return;
        items[0] = (struct ob_node *)node;
        lines[0] = line;
        *map = (struct ob_node){OB_NODE_MAP, line, NULL, items, keys, lines, 1};
        node = map;
    }
    struct ob_config_store *store = add(ld, name);
    ob_scope_init(ld, &scope, path, env, node, line);
    ob_section_read(ld, OB_SECTION_stores, &scope, store);
    ob_scope_check(ld, &scope, key_of_store, NULL);
    for (size_t i = 0; i < scope.count; i++)
        if (strcmp(scope.items[i].name, "url") == 0) {
            place.line = scope.items[i].line;
            if (scope.items[i].bad)
                return;
        }
    if (!store->url)
        ob_loader_problem(ld, true, &place, path, NULL, NULL,
                          "has no url: write postgresql://USER@HOST/DATABASE or sqlite:PATH");
    else if (*store->url)
        check_url(ld, store, path, &place);
}

static void check_same_file(struct ob_loader *ld, const struct ob_config_store *a, const struct ob_config_store *b)
{
    char left[PATH_MAX], right[PATH_MAX];
    if (!a->url || !b->url || ob_url_kind(a->url) != OB_URL_SQLITE || ob_url_kind(b->url) != OB_URL_SQLITE)
        return;
    const char *path = ob_url_path(a->url), *other = ob_url_path(b->url);
    bool same = strcmp(path, other) == 0;
    if (!same && realpath(path, left) && realpath(other, right))
        same = strcmp(left, right) == 0;
    struct ob_config_place place = OB_PLACE_FILE(ld, 0);
    if (same)
        ob_loader_problem(ld, true, &place, ob_loader_printf(ld, "stores.%s.url", b->name), NULL, NULL,
                          "is the same file as that of stores.%s", a->name);
}

static void read_stores(struct ob_loader *ld, const struct ob_node *stores, int line)
{
    struct ob_config_place place = OB_PLACE_FILE(ld, line);
    if (stores->kind == OB_NODE_NULL)
        return;
    if (stores->kind != OB_NODE_MAP) {
        ob_loader_problem(ld, true, &place, "stores", NULL, NULL, "must be a map of names and their url");
        return;
    }
    ld->config->stores = ob_loader_calloc(ld, stores->count, sizeof *ld->config->stores);
    for (size_t i = 0; i < stores->count && ld->config->stores; i++) {
        const char *name = stores->keys[i], *path = ob_loader_printf(ld, "stores.%s", name);
        place.line = stores->key_lines[i];
        if (!ob_name_is_sink(name))
            ob_loader_problem(ld, true, &place, path, NULL, NULL,
                              "a name has at most 64 letters, digits, '-', '_' and '.'");
        else
            add_entry(ld, name, path, ob_loader_printf(ld, "STORE_%s", name), stores->items[i], place.line);
    }
    for (size_t i = 0; i < ld->config->store_count && ld->config->stores; i++)
        for (size_t j = 0; j < i; j++)
            check_same_file(ld, &ld->config->stores[j], &ld->config->stores[i]);
}

void ob_config_read_stores(struct ob_loader *ld, const struct ob_node *root)
{
    struct ob_config *config = ld->config;
    struct ob_config_place flag = {.source = OB_CONFIG_FLAG, .from = "--store"},
                           env = {.source = OB_CONFIG_ENV, .from = "OUTBOX_STORE"},
                           last = {.source = OB_CONFIG_ENV, .from = "DATABASE_URL"};
    int line = 0, lines = 0;
    const struct ob_node *store = ob_node_get(root, "store", &line), *stores = ob_node_get(root, "stores", &lines);
    const char *schema = ld->in->schema ? ld->in->schema : ob_loader_env(ld, "OUTBOX_SCHEMA");
    config->stores = ob_loader_calloc(ld, 1, sizeof *config->stores);
    if (!config->stores)
        return;
    if (store && stores) {
        struct ob_config_place place = OB_PLACE_FILE(ld, lines);
        ob_loader_problem(ld, true, &place, "stores", NULL, NULL,
                          "`store` is also given, in line %d; keep one of "
                          "them",
                          line);
    } else if (ld->in->store)
        add_single(ld, ld->in->store, &flag);
    else if (ob_loader_env(ld, "OUTBOX_STORE"))
        add_single(ld, ob_loader_env(ld, "OUTBOX_STORE"), &env);
    else if (store && store->kind != OB_NODE_NULL)
        add_entry(ld, "default", "store", "STORE", store, line);
    else if (stores)
        read_stores(ld, stores, lines);
    if (config->store_count == 0 && !(store || stores) && ob_loader_env(ld, "DATABASE_URL"))
        add_single(ld, ob_loader_env(ld, "DATABASE_URL"), &last);
    if (schema && config->store_count == 1 && config->stores[0].url &&
        ob_url_kind(config->stores[0].url) != OB_URL_SQLITE)
        config->stores[0].schema = ob_loader_dup(ld, schema);
}

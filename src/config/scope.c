/* scope.c - a map of the file with dotted names, and what overrides it: flags before variables before the file. */
#include "config/config_int.h"

#include "base/nearest.h"
#include "lib/open.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static void add_entry(struct ob_loader *ld, struct ob_scope *scope, const char *name, const struct ob_node *node,
                      int line)
{
    for (size_t i = 0; i < scope->count; i++)
        if (strcmp(scope->items[i].name, name) == 0) {
            struct ob_config_place place = OB_PLACE_FILE(ld, line);
            ob_loader_problem(ld, true, &place, ob_loader_printf(ld, "%s.%s", scope->path, name), NULL, NULL,
                              "given twice; the first is in line %d", scope->items[i].line);
            return;
        }
    if (ob_loader_grow(ld, &scope->items, scope->count, &scope->cap, sizeof *scope->items))
        scope->items[scope->count++] = (struct ob_entry){.name = name, .node = node, .line = line};
}

static void flatten(struct ob_loader *ld, struct ob_scope *scope, const char *prefix, const struct ob_node *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct ob_node *node = map->items[i];
        const char *name = *prefix ? ob_loader_printf(ld, "%s.%s", prefix, map->keys[i]) : map->keys[i];
        if (node->kind == OB_NODE_MAP && node->count > 0)
            flatten(ld, scope, name, node);
        else
            add_entry(ld, scope, name, node, map->key_lines[i]);
    }
}

/* "OUTBOX_SINK_" and "billing.eu" give "OUTBOX_SINK_BILLING_EU". */
static const char *env_name(struct ob_loader *ld, const char *prefix, const char *name)
{
    char text[200];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", prefix);
    for (; *name && len < sizeof text - 1; name++)
        text[len++] = isalnum((unsigned char)*name) ? (char)toupper((unsigned char)*name) : '_';
    text[len < sizeof text ? len : sizeof text - 1] = '\0';
    return ob_loader_dup(ld, text);
}

void ob_scope_init(struct ob_loader *ld, struct ob_scope *scope, const char *path, const char *env_of,
                   const struct ob_node *map, int line)
{
    *scope = (struct ob_scope){.path = path};
    scope->env = env_of ? ob_loader_printf(ld, "%s_", env_name(ld, "OUTBOX_", env_of)) : NULL;
    if (!map || map->kind == OB_NODE_NULL)
        return;
    if (map->kind == OB_NODE_MAP) {
        flatten(ld, scope, "", map);
        return;
    }
    struct ob_config_place place = OB_PLACE_FILE(ld, line);
    bool colon = map->kind == OB_NODE_TEXT && strchr(map->text, ':'); /* `poll:1s` is a text, not an option */
    ob_loader_problem(ld, true, &place, path, NULL, NULL, "must be a map of options%s",
                      colon ? "; write a colon and a space between an option and its value: poll: 1s" : "");
}

static bool same_section(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");
    return strcspn(b, ".") == len && strncmp(a, b, len) == 0;
}

/* A whole section in the wrong place is reported once. */
static void unknown_option(struct ob_loader *ld, const struct ob_scope *scope, size_t i, const char *key,
                           const char *word, const char *near)
{
    const struct ob_entry *entry = &scope->items[i];
    struct ob_config_place place = OB_PLACE_FILE(ld, entry->line);
    const char *belongs = word ? NULL : ob_slip_place(ld, scope->path, entry->name);
    const char *meant = word ? word : belongs ? NULL : near;
    if (belongs && *belongs == '`' && i > 0 && same_section(scope->items[i - 1].name, entry->name))
        return;
    ob_loader_problem(ld, true, &place, key, NULL, meant, "unknown option%s%s", belongs ? "; " : "",
                      belongs ? belongs : "");
}

void ob_scope_check(struct ob_loader *ld, const struct ob_scope *scope, const char *(*names)(const void *ctx, size_t i),
                    const void *ctx)
{
    for (size_t i = 0; i < scope->count && !scope->strange; i++) {
        const struct ob_entry *entry = &scope->items[i];
        struct ob_config_place place = OB_PLACE_FILE(ld, entry->line);
        struct ob_nearest near;
        size_t len = strlen(entry->name);
        const char *name;
        bool level = false; /* `retry:` with nothing below it is fine; with a value it is an error */
        if (entry->used)
            continue;
        ob_nearest_init(&near, entry->name);
        for (size_t n = 0; (name = names(ctx, n)); n++) {
            ob_nearest_try(&near, name);
            level = level || (strncmp(name, entry->name, len) == 0 && name[len] == '.');
        }
        const char *key = ob_loader_printf(ld, "%s.%s", scope->path, entry->name);
        const char *word = ob_slip_word(entry->name, names, ctx);
        if (!level)
            unknown_option(ld, scope, i, key, word, near.best);
        else if (entry->node->kind == OB_NODE_TEXT || entry->node->kind == OB_NODE_LIST)
            ob_loader_problem(ld, true, &place, key, NULL, NULL, "must be a map of options");
    }
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

static bool from_flag(struct ob_loader *ld, const char *name, struct ob_given *given)
{
    size_t len = strlen(name);
    for (size_t i = ld->in->set_count; i-- > 0;) {
        const char *set = ld->in->sets[i];
        if (strncmp(set, name, len) == 0 && set[len] == '=') {
            given->raw = given->text = ob_loader_dup(ld, set + len + 1);
            given->place = (struct ob_config_place){.source = OB_CONFIG_FLAG, .from = "--set"};
            return true;
        }
    }
    return false;
}

static bool from_env(struct ob_loader *ld, const char *variable, struct ob_given *given)
{
    const char *value = ob_loader_env(ld, variable);
    if (!value)
        return false;
    given->raw = given->text = ob_loader_dup(ld, value);
    given->place = (struct ob_config_place){.source = OB_CONFIG_ENV, .from = variable};
    return true;
}

/* A list from a flag or a variable: "a, b". */
static const struct ob_node *split(struct ob_loader *ld, const char *text)
{
    struct ob_node *list = ob_loader_calloc(ld, 1, sizeof *list);
    size_t cap = 0;
    while (list && *text) {
        struct ob_node *item = ob_loader_calloc(ld, 1, sizeof *item);
        size_t end = strcspn(text, ","), len = end;
        const char *rest = text + end + (text[end] == ',');
        while (len && isspace((unsigned char)*text))
            text++, len--;
        while (len && isspace((unsigned char)text[len - 1]))
            len--;
        if (!item || !ob_loader_grow(ld, &list->items, list->count, &cap, sizeof *list->items))
            break;
        *item = (struct ob_node){.kind = OB_NODE_TEXT, .text = ob_loader_printf(ld, "%.*s", (int)len, text)};
        list->items[list->count++] = item;
        text = rest;
    }
    if (list)
        list->kind = OB_NODE_LIST;
    return list;
}

static const struct ob_node *list_of_one(struct ob_loader *ld, const struct ob_node *node)
{
    struct ob_node *list = ob_loader_calloc(ld, 1, sizeof *list);
    struct ob_node **items = ob_loader_calloc(ld, 1, sizeof *items);
    if (!list || !items)
        return NULL;
    items[0] = (struct ob_node *)node;
    *list = (struct ob_node){.kind = OB_NODE_LIST, .line = node->line, .items = items, .count = 1};
    return list;
}

static struct ob_entry *from_file(const struct ob_scope *scope, const char *key)
{
    for (size_t i = 0; i < scope->count; i++)
        if (strcmp(scope->items[i].name, key) == 0 && scope->items[i].node->kind != OB_NODE_NULL)
            return &scope->items[i];
    return NULL;
}

static void mark_used(const struct ob_scope *scope, const char *key)
{
    for (size_t i = 0; i < scope->count; i++)
        if (strcmp(scope->items[i].name, key) == 0)
            scope->items[i].used = true;
}

/* The value from the file; false when there is none or it is not usable. */
static bool from_entry(struct ob_loader *ld, const struct ob_scope *scope, const char *name, const char *key,
                       enum ob_want want, struct ob_given *given)
{
    struct ob_entry *entry = from_file(scope, key);
    if (!entry || entry->bad)
        return false;
    const struct ob_node *node = entry->node;
    given->entry = entry;
    given->place = OB_PLACE_FILE(ld, entry->line);
    if (want == OB_WANT_LIST) {
        given->list = node->kind == OB_NODE_LIST ? node : list_of_one(ld, node);
        return given->list != NULL;
    }
    if (node->kind != OB_NODE_TEXT) {
        ob_loader_problem(ld, true, &given->place, name, NULL, NULL, "must be one value, not a %s",
                          node->kind == OB_NODE_LIST ? "list" : "map");
        entry->bad = true;
        return false;
    }
    given->raw = node->text;
    if (ob_config_expand(ld, given->raw, &given->place, name, &given->text, &given->expanded))
        return true;
    entry->bad = true;
    return false;
}

static void remember(struct ob_loader *ld, const char *name, const char *variable)
{
    if (ob_loader_grow(ld, &ld->asked, ld->asked_count, &ld->asked_cap, sizeof *ld->asked))
        ld->asked[ld->asked_count++] = (struct ob_config_asked){.name = name, .env = variable};
}

void ob_scope_get(struct ob_loader *ld, const struct ob_scope *scope, const char *key, enum ob_want want, bool refs,
                  struct ob_given *given)
{
    const char *name = ob_loader_printf(ld, "%s.%s", scope->path, key);
    const char *variable = scope->env ? env_name(ld, scope->env, key) : NULL;
    *given = (struct ob_given){0};
    remember(ld, name, variable);
    mark_used(scope, key);
    bool outside = from_flag(ld, name, given) || (variable && from_env(ld, variable, given));
    if (outside && want == OB_WANT_LIST)
        given->list = split(ld, given->text);
    given->found = outside ? want == OB_WANT_TEXT || given->list : from_entry(ld, scope, name, key, want, given);
    if (given->found && refs && given->text && strncmp(given->raw, "file:", 5) == 0) {
        given->found = ob_config_file_ref(ld, given->text, &given->place, name, &given->text);
        if (!given->found && given->entry)
            given->entry->bad = true;
        return;
    }
    if (!given->found && scope->parent && !from_file(scope, key))
        ob_scope_get(ld, scope->parent, key, want, refs, given);
}

/* ---- what may be seen -------------------------------------------------------------------------------------------- */

/* Masks the password of "scheme://user:password@host". */
static const char *without_password(struct ob_loader *ld, const char *text)
{
    const char *start = strstr(text, "://");
    if (!start)
        return text;
    start += 3;
    size_t len = strcspn(start, "/?#"), at = len, colon;
    while (at > 0 && start[at - 1] != '@')
        at--;
    colon = strcspn(start, ":@");
    if (at == 0 || start[colon] != ':' || colon >= at)
        return text;
    return ob_loader_printf(ld, "%.*s***%s", (int)(start + colon + 1 - text), text, start + at - 1);
}

const char *ob_config_shown(struct ob_loader *ld, const struct ob_given *given, bool secret, bool url)
{
    if (url) {
        char text[400];
        ob_url_redact(given->text, text, sizeof text);
        return ob_loader_dup(ld, text);
    }
    if (secret)
        return "(hidden)";
    /* A variable may hold a secret that is not marked as one: show the reference. */
    return without_password(ld, given->expanded ? given->raw : given->text);
}

void ob_loader_value(struct ob_loader *ld, const struct ob_scope *scope, const char *key, const char *text,
                     const char *shown, const struct ob_config_place *place, bool secret, bool reloadable)
{
    struct ob_config *config = ld->config;
    if (strcmp(scope->path, "defaults") == 0 && place->source == OB_CONFIG_DEFAULT)
        return; /* every sink records it again */
    if (!ob_loader_grow(ld, &config->values, config->value_count, &ld->value_cap, sizeof *config->values))
        return;
    config->values[config->value_count++] = (struct ob_config_value){
        .name = *key ? ob_loader_printf(ld, "%s.%s", scope->path, key) : scope->path,
        .group = scope->path,
        .text = text,
        .shown = text ? shown : NULL,
        .place = *place,
        .secret = secret,
        .reloadable = reloadable,
    };
}

/* config.c - reads a configuration; config_int.h lists the steps. */
#include "config/config_int.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "config/route.h"
#include "jsonschema/schema.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MOST = 256 * 1024 };

const char *ob_config_path(const char *given, char *const *env, bool *found_here)
{
    static const char *const places[] = {"outbox.yaml", "/etc/outbox/outbox.yaml"};
    const char name[] = "OUTBOX_CONFIG=";
    *found_here = false;
    if (given)
        return given;
    for (; env && *env; env++)
        if (strncmp(*env, name, strlen(name)) == 0 && (*env)[strlen(name)])
            return *env + strlen(name);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (access(places[i], F_OK) == 0) {
            *found_here = i == 0;
            return places[i];
        }
    return NULL;
}

static struct ob_node *read_file(struct ob_loader *ld)
{
    const char *wrong;
    size_t len;
    struct stat stat;
    if (ld->in->text) {
        ld->config->file = ld->file = "(built in)";
        return ob_config_yaml(ld, ob_loader_dup(ld, ld->in->text), strlen(ld->in->text));
    }
    if (!ld->in->path)
        return NULL;
    ld->config->file = ld->file = ob_loader_dup(ld, ld->in->path);
    char *text = ob_config_slurp(ld, ld->file, FILE_MOST, &len, &stat, &wrong);
    if (text)
        ld->foreign = ld->in->found_here && stat.st_uid != geteuid() && stat.st_uid != 0;
    if (text)
        return ob_config_yaml(ld, text, len);
    struct ob_config_place place = OB_PLACE_FILE(ld, 0);
    ob_loader_problem(ld, true, &place, NULL, NULL, NULL, "cannot be read: %s", wrong);
    return NULL;
}

static void check_tops(struct ob_loader *ld, const struct ob_node *root)
{
    for (size_t i = 0; root && i < root->count; i++) {
        struct ob_config_place place = OB_PLACE_FILE(ld, root->key_lines[i]);
        struct ob_nearest near;
        bool known = false;
        const char *key = root->keys[i], *top;
        ob_nearest_init(&near, key);
        for (size_t n = 0; (top = ob_config_top(NULL, n)); n++) {
            known = known || strcmp(top, key) == 0;
            ob_nearest_try(&near, top);
        }
        if (known)
            continue;
        const char *meant = ob_slip_word(key, ob_config_top, NULL);
        meant = meant ? meant : near.best;
        const char *belongs = meant                                       ? NULL
                              : ob_node_get(root->items[i], "kind", NULL) ? "a sink belongs under `sinks:`: indent it"
                                                                          : ob_slip_place(ld, "", key);
        ob_loader_problem(ld, true, &place, key, NULL, meant, "unknown section%s%s", belongs ? "; " : "",
                          belongs ? belongs : "");
    }
}

static const char *key_of(const void *ctx, size_t i)
{
    return ob_section_key(*(const enum ob_section *)ctx, i);
}

static void read_fixed(struct ob_loader *ld, const struct ob_node *root)
{
    static const enum ob_section fixed[] = {OB_SECTION_relay, OB_SECTION_log, OB_SECTION_admin, OB_SECTION_notify};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        const char *name = ob_section_names[fixed[i]];
        struct ob_scope scope;
        int line = 0;
        const struct ob_node *node = ob_node_get(root, name, &line);
        ob_scope_init(ld, &scope, name, name, node, line);
        ob_section_read(ld, fixed[i], &scope, ld->config);
        ob_scope_check(ld, &scope, key_of, &fixed[i]);
    }
}

/* Whether there is an error at "sinks.billing" or below it. */
static bool has_error(const struct ob_config_report *report, const char *section, const char *name)
{
    char path[120];
    size_t len = (size_t)snprintf(path, sizeof path, "%s%s%s", section, *name ? "." : "", name);
    for (const struct ob_config_problem *at = report->first; at && len < sizeof path; at = at->next)
        if (at->error && at->key && strncmp(at->key, path, len) == 0 && (!at->key[len] || at->key[len] == '.'))
            return true;
    return false;
}

static void mark_broken(struct ob_config *config, const struct ob_config_report *report)
{
    for (size_t i = 0; i < config->sink_count; i++)
        config->sinks[i].broken = has_error(report, "sinks", config->sinks[i].name);
    for (size_t i = 0; i < config->store_count; i++)
        config->stores[i].broken = !config->stores[i].url || has_error(report, "store", "") ||
                                   has_error(report, "stores", config->stores[i].name);
}

enum outbox_code ob_config_load(const struct ob_config_input *input, struct ob_config **out,
                                struct ob_config_report *report)
{
    struct ob_config *config = ob_calloc(1, sizeof *config);
    *out = NULL;
    ob_config_report_init(report);
    if (!config)
        return OUTBOX_NOMEM;
    ob_arena_init(&config->arena, 0);
    struct ob_loader ld = {.in = input, .report = report, .config = config, .arena = &config->arena};
    const struct ob_node *root = read_file(&ld);
    bool readable = root || report->errors == 0; /* without a file there are still variables and flags */
    if (readable)
        ob_config_read_stores(&ld, root);
    if (readable && !input->stores_only) {
        check_tops(&ld, root);
        read_fixed(&ld, root);
        ob_config_read_traces(&ld, root);
        ob_config_read_sinks(&ld, root);
        ob_config_read_routes(&ld, root);
        ob_config_check(&ld);
        config->memo = ob_route_memo_new(&config->arena);
    }
    if (!ld.nomem && (report->errors == 0 || input->partial)) {
        mark_broken(config, report);
        *out = config;
        return report->errors ? OUTBOX_CONFIG : OUTBOX_OK;
    }
    ob_config_free(config);
    return ld.nomem ? OUTBOX_NOMEM : OUTBOX_CONFIG;
}

void ob_config_free(struct ob_config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < config->route_count; i++)
        ob_jsonschema_free(config->routes[i].compiled);
    ob_arena_fini(&config->arena);
    ob_free(config);
}

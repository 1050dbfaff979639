/* sink_kind.c - applies what a kind of sink declares in its table to a configured sink: the adapter, other common names
 * of the kind and its options, its defaults of delivery settings, and its own check. No kind is known here by name.
 *
 * Thread: the one that loads the configuration. */
#include "config/config_int.h"

#include "base/nearest.h"
#include "base/value.h"
#include "sink/plugin.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* The kind that another common name such as "webhook" means; NULL: none. */
static const char *kind_meant(const struct ob_loader *ld, const char *word)
{
    const struct outbox_sink_ops *ops;
    for (size_t i = 0; ld->in->at && (ops = ld->in->at(i)); i++)
        if (strcasecmp(ops->kind, word) == 0 || ob_word_listed(ops->also, word))
            return ops->kind;
    return NULL;
}

void ob_sink_kind_words(struct ob_loader *ld, const struct ob_config_sink *sink, const struct ob_scope *scope)
{
    const struct outbox_sink_setting *at = sink->ops ? sink->ops->settings : NULL;
    for (; at && at->name; at++)
        for (size_t i = 0; i < scope->count; i++) {
            struct ob_entry *entry = &scope->items[i];
            struct ob_config_place place = OB_PLACE_FILE(ld, entry->line);
            if (entry->used || !ob_word_listed(at->also, entry->name))
                continue;
            entry->used = true;
            ob_loader_problem(ld, true, &place, ob_loader_printf(ld, "%s.%s", scope->path, entry->name), NULL, at->name,
                              "unknown option");
        }
}

/* ---- the adapter --------------------------------------------------------------------------------------------------- */

static const char *key_of_sink(const void *ctx, size_t i)
{
    (void)ctx;
    return ob_section_key(OB_SECTION_sinks, i);
}

void ob_sink_kind_find(struct ob_loader *ld, struct ob_config_sink *sink, const struct ob_scope *scope)
{
    struct outbox_error err;
    struct ob_nearest near;
    struct ob_config_place place = OB_PLACE_FILE(ld, sink->line);
    const char *key = ob_loader_printf(ld, "%s.kind", scope->path);
    for (size_t i = 0; i < scope->count; i++)
        if (strcmp(scope->items[i].name, "kind") == 0 || strcmp(scope->items[i].name, "library") == 0)
            place.line = scope->items[i].line;
    if (!sink->kind && !sink->library) {
        for (size_t i = 0; i < scope->count; i++) {
            const char *word = ob_slip_word(scope->items[i].name, key_of_sink, NULL);
            if (!word || strcmp(word, "kind") != 0)
                continue;
            place.line = scope->items[i].line;
            ob_loader_problem(ld, true, &place, ob_loader_printf(ld, "%s.%s", scope->path, scope->items[i].name), NULL,
                              word, "unknown option");
            return;
        }
        ob_loader_problem(ld, true, &place, key, NULL, NULL, "is missing: a sink needs a kind, such as http or stdout");
        return;
    }
    if (sink->library && ld->foreign) {
        ob_loader_problem(
            ld, true, &place, ob_loader_printf(ld, "%s.library", scope->path), NULL, NULL,
            "is not loaded: the configuration in the current directory belongs to another user; if you trust it, name it: --config %s",
            ld->file);
        return;
    }
    if (!ld->in->load || !ld->in->load(sink->kind, sink->library, &sink->ops, &err))
        return;
    const char *meant = sink->kind ? kind_meant(ld, sink->kind) : NULL;
    ob_nearest_init(&near, sink->kind ? sink->kind : "");
    for (size_t i = 0; ld->in->at && ld->in->at(i); i++)
        ob_nearest_try(&near, ld->in->at(i)->kind);
    ob_loader_problem(ld, true, &place, key, sink->kind,
                      err.code == OUTBOX_UNSUPPORTED ? NULL
                      : meant                        ? meant
                                                     : near.best,
                      "%s", err.text);
}

/* ---- defaults ------------------------------------------------------------------------------------------------------ */

/* The recorded value of a delivery setting that is not set; NULL: it is set. */
static struct ob_config_value *unset(struct ob_loader *ld, const char *path, const char *name)
{
    for (size_t i = 0; i < ld->config->value_count; i++) {
        struct ob_config_value *value = &ld->config->values[i];
        if (value->group == path && value->place.source == OB_CONFIG_DEFAULT &&
            strcmp(value->name + strlen(path) + 1, name) == 0)
            return value;
    }
    return NULL;
}

static void set_default(struct ob_loader *ld, const char *path, const char *name, int64_t *field, int64_t us)
{
    struct ob_config_value *value = unset(ld, path, name);
    char text[OB_VALUE_TEXT];
    if (!value)
        return;
    *field = us;
    ob_value_duration_text(us, text);
    value->text = value->shown = ob_loader_dup(ld, text);
}

void ob_sink_kind_defaults(struct ob_loader *ld, struct ob_config_sink *sink, const char *path)
{
    const struct outbox_sink_ops *ops = sink->ops;
    for (size_t i = 0; ops && ops->limit && i < sink->option_count; i++)
        if (strcmp(sink->options[i].name, ops->limit) == 0)
            sink->limit_us = strtoll(sink->options[i].value, NULL, 10);
    if (ops && sink->limit_us)
        set_default(ld, path, "timeout", &sink->delivery.timeout_us, sink->limit_us + ops->limit_margin_us);
    if (ops && ops->patience_us > sink->delivery.retry.after_cap_us)
        set_default(ld, path, "retry.after_cap", &sink->delivery.retry.after_cap_us, ops->patience_us);
}

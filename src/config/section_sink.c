/* section_sink.c - the sinks: the delivery settings of each (rows of the table), and the options of its adapter, which
 * are checked against the adapter's own table and passed on as texts. */
#include "config/config_int.h"

#include "base/value.h"
#include "core/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the adapter's own options ----------------------------------------------------------------------------------- */

struct adapting {
    struct ob_loader *ld;
    const struct ob_scope *scope;
    struct ob_config_sink *sink;
    struct outbox_sink_option *options;
    size_t cap, mask_cap;
    const char **masks;
    struct ob_buf real; /* the real values of the list or map being read, to detect changes later */
};

static void add_option(struct adapting *it, const char *name, const char *value)
{
    if (!ob_loader_grow(it->ld, &it->options, it->sink->option_count, &it->cap, sizeof *it->options))
        return;
    it->options[it->sink->option_count++] = (struct outbox_sink_option){.name = name, .value = value};
    it->sink->options = it->options;
}

/* A short value would match in any text. */
static void add_mask(struct adapting *it, const char *value)
{
    enum { MASK_LEAST = 4 };
    if (strlen(value) < MASK_LEAST ||
        !ob_loader_grow(it->ld, &it->masks, it->sink->mask_count, &it->mask_cap, sizeof *it->masks))
        return;
    it->masks[it->sink->mask_count++] = value;
    it->sink->masks = it->masks;
}

static struct ob_spec spec_of(const struct outbox_sink_setting *setting)
{
    static const enum ob_type types[] = {
        [OUTBOX_OPTION_TEXT] = OB_TYPE_TEXT, [OUTBOX_OPTION_INT] = OB_TYPE_INT,
        [OUTBOX_OPTION_BOOL] = OB_TYPE_BOOL, [OUTBOX_OPTION_DURATION] = OB_TYPE_DURATION,
        [OUTBOX_OPTION_SIZE] = OB_TYPE_SIZE, [OUTBOX_OPTION_ENUM] = OB_TYPE_ENUM,
        [OUTBOX_OPTION_LIST] = OB_TYPE_TEXT, [OUTBOX_OPTION_MAP] = OB_TYPE_TEXT,
        [OUTBOX_OPTION_FILE] = OB_TYPE_TEXT,
    };
    return (struct ob_spec){
        .type = types[setting->type],
        .choices = setting->choices,
        .secret = setting->secret,
        .ranged = setting->least || setting->most,
        .least = setting->least,
        .most = setting->most,
    };
}

/* The value as the adapter gets it: numbers in decimal, words unchanged. NULL after a mistake was reported. */
static const char *handed_over(struct adapting *it, const struct outbox_sink_setting *setting, const char *text,
                               const struct ob_config_place *place, const char *key, const char *shown)
{
    struct ob_spec spec = spec_of(setting);
    int64_t number = 0, period;
    if (spec.type == OB_TYPE_TEXT)
        return text;
    if (!ob_spec_number(it->ld, &spec, text, place, key, shown, &number, &period))
        return NULL;
    if (spec.type == OB_TYPE_ENUM)
        return text;
    if (spec.type == OB_TYPE_BOOL)
        return number ? "true" : "false";
    return ob_loader_printf(it->ld, "%" PRId64, number);
}

/* Elements of a list and entries of a map: texts with references. */
static void add_element(struct adapting *it, const struct outbox_sink_setting *setting, const char *name,
                        const struct ob_node *node, const struct ob_config_place *place, struct ob_buf *shown)
{
    const char *key = ob_loader_printf(it->ld, "%s.%s", it->scope->path, name);
    struct ob_given given = {.raw = node->text, .place = *place};
    if (node->kind != OB_NODE_TEXT) {
        ob_loader_problem(it->ld, true, place, key, NULL, NULL, "must be a string");
        return;
    }
    given.text = given.raw;
    if (place->source == OB_CONFIG_FILE &&
        !ob_config_expand(it->ld, given.raw, place, key, &given.text, &given.expanded))
        return;
    if (setting->secret && strncmp(given.raw, "file:", 5) == 0 &&
        !ob_config_file_ref(it->ld, given.text, place, key, &given.text))
        return;
    add_option(it, name, given.text);
    if (setting->secret || setting->hidden || given.expanded)
        add_mask(it, given.text);
    ob_buf_printf(&it->real, "%s\n", given.text);
    ob_buf_printf(shown, "%s%s", shown->len ? ", " : "", ob_config_shown(it->ld, &given, setting->secret, false));
}

/* Records a list or map after it was read. */
static void put_value(struct adapting *it, const char *name, struct ob_buf *shown, const struct ob_config_place *place,
                      bool secret)
{
    ob_loader_value(it->ld, it->scope, name, ob_loader_dup(it->ld, ob_buf_text(&it->real)),
                    ob_loader_dup(it->ld, ob_buf_text(shown)), place, secret, true);
    if (!ob_buf_ok(shown) || !ob_buf_ok(&it->real))
        it->ld->nomem = true;
    ob_buf_fini(shown);
    ob_buf_fini(&it->real);
}

static void read_list(struct adapting *it, const struct outbox_sink_setting *setting, const struct ob_given *given)
{
    struct ob_buf shown = OB_BUF_INIT;
    for (size_t i = 0; i < given->list->count; i++)
        add_element(it, setting, setting->name, given->list->items[i], &given->place, &shown);
    put_value(it, setting->name, &shown, &given->place, setting->secret);
}

static bool sounds_secret(const char *name)
{
    static const char *const words[] = {"auth", "token", "secret", "password", "key", "cookie"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

static void hide_last(struct ob_config *config)
{
    struct ob_config_value *value = config->value_count ? &config->values[config->value_count - 1] : NULL;
    if (!value || value->asked || !value->shown)
        return;
    value->asked = value->shown;
    value->shown = "(hidden; see --reveal)";
}

static void read_map(struct adapting *it, const struct outbox_sink_setting *setting)
{
    size_t len = strlen(setting->name);
    struct outbox_sink_setting one = *setting;
    for (size_t i = 0; i < it->scope->count; i++) {
        struct ob_entry *entry = &it->scope->items[i];
        struct ob_config_place place = OB_PLACE_FILE(it->ld, entry->line);
        struct ob_buf shown = OB_BUF_INIT;
        if (strncmp(entry->name, setting->name, len) != 0 || (entry->name[len] != '.' && entry->name[len]))
            continue;
        entry->used = true;
        if (!entry->name[len]) {
            if (entry->node->kind == OB_NODE_TEXT || entry->node->kind == OB_NODE_LIST)
                ob_loader_problem(it->ld, true, &place, ob_loader_printf(it->ld, "%s.%s", it->scope->path, entry->name),
                                  NULL, NULL, "must be a map");
            continue;
        }
        one.secret = setting->secret || sounds_secret(entry->name);
        add_element(it, &one, entry->name, entry->node, &place, &shown);
        put_value(it, entry->name, &shown, &place, one.secret);
        if (setting->hidden && !one.secret)
            hide_last(it->ld->config);
    }
}

static void read_fallback(struct adapting *it, const struct outbox_sink_setting *setting)
{
    static const struct ob_config_place fallback = {.source = OB_CONFIG_DEFAULT};
    struct ob_config_place here = OB_PLACE_FILE(it->ld, it->sink->line);
    const char *key = ob_loader_printf(it->ld, "%s.%s", it->scope->path, setting->name);
    bool broken = false; /* an invalid value was reported: do not report the option as missing */
    for (size_t i = 0; i < it->scope->count; i++)
        broken = broken || (strcmp(it->scope->items[i].name, setting->name) == 0 && it->scope->items[i].bad);
    if (setting->required && !broken)
        ob_loader_problem(it->ld, true, &here, key, NULL, NULL, "is missing: %s", setting->doc ? setting->doc : "");
    if (setting->fallback && setting->type != OUTBOX_OPTION_LIST) {
        const char *value = handed_over(it, setting, setting->fallback, &fallback, key, setting->fallback);
        if (value)
            add_option(it, setting->name, value);
    }
    ob_loader_value(it->ld, it->scope, setting->name, setting->fallback, setting->fallback, &fallback, setting->secret,
                    true);
}

static void read_setting(struct adapting *it, const struct outbox_sink_setting *setting)
{
    struct ob_given given;
    bool list = setting->type == OUTBOX_OPTION_LIST;
    if (setting->type == OUTBOX_OPTION_MAP) {
        read_map(it, setting);
        return;
    }
    ob_scope_get(it->ld, it->scope, setting->name, list ? OB_WANT_LIST : OB_WANT_TEXT, setting->secret, &given);
    if (!given.found) {
        read_fallback(it, setting);
        return;
    }
    if (list) {
        read_list(it, setting, &given);
        return;
    }
    struct ob_spec spec = spec_of(setting);
    const char *key = ob_loader_printf(it->ld, "%s.%s", it->scope->path, setting->name);
    const char *shown = spec.type == OB_TYPE_TEXT ? ob_config_shown(it->ld, &given, setting->secret, false)
                                                  : ob_spec_shown(it->ld, &spec, &given);
    const char *value = handed_over(it, setting, given.text, &given.place, key, shown);
    if (value)
        add_option(it, setting->name, value);
    if (value && (setting->secret || given.expanded))
        add_mask(it, value);
    ob_loader_value(it->ld, it->scope, setting->name, given.text, shown, &given.place, setting->secret, true);
}

/* An adapter without a table gets all options unchecked. */
static void pass_through(struct adapting *it)
{
    static const struct outbox_sink_setting any = {.name = "", .type = OUTBOX_OPTION_TEXT};
    for (size_t i = 0; i < it->scope->count; i++) {
        struct ob_entry *entry = &it->scope->items[i];
        struct ob_config_place place = OB_PLACE_FILE(it->ld, entry->line);
        struct outbox_sink_setting one = any;
        struct ob_buf shown = OB_BUF_INIT;
        if (entry->used)
            continue;
        entry->used = true;
        one.secret = sounds_secret(entry->name);
        if (entry->node->kind == OB_NODE_LIST)
            for (size_t n = 0; n < entry->node->count; n++)
                add_element(it, &one, entry->name, entry->node->items[n], &place, &shown);
        else if (entry->node->kind == OB_NODE_TEXT)
            add_element(it, &one, entry->name, entry->node, &place, &shown);
        put_value(it, entry->name, &shown, &place, one.secret);
    }
}

/* ---- one sink ---------------------------------------------------------------------------------------------------- */

/* All names that an entry may have: the relay's own, then the adapter's. */
static const char *known_name(const void *ctx, size_t i)
{
    const struct outbox_sink_setting *settings = ctx;
    size_t own = 0, common = 0;
    while (ob_section_key(OB_SECTION_sinks, own))
        own++;
    while (ob_section_key(OB_SECTION_delivery, common))
        common++;
    if (i < own)
        return ob_section_key(OB_SECTION_sinks, i);
    if (i < own + common)
        return ob_section_key(OB_SECTION_delivery, i - own);
    for (size_t n = 0; settings && settings[n].name; n++)
        if (n == i - own - common)
            return settings[n].name;
    return NULL;
}

/* Zero has another meaning in the core; see core/breaker.h. */
static void settle_zeroes(struct ob_config_sink *sink)
{
    if (sink->delivery.breaker.threshold == 0)
        sink->delivery.breaker.threshold = -1;
}

/* `kind: null` means the adapter of that name, not YAML's null. */
static void name_null(struct ob_loader *ld, struct ob_scope *scope)
{
    for (size_t i = 0; i < scope->count; i++) {
        struct ob_entry *entry = &scope->items[i];
        if (strcmp(entry->name, "kind") != 0 || entry->node->kind != OB_NODE_NULL ||
            strcmp(entry->node->text, "null") != 0)
            continue;
        struct ob_node *word = ob_loader_calloc(ld, 1, sizeof *word);
        if (!word)
            return;
        *word = (struct ob_node){.kind = OB_NODE_TEXT, .line = entry->node->line, .text = "null"};
        entry->node = word;
    }
}

static void read_sink(struct ob_loader *ld, struct ob_config_sink *sink, const struct ob_node *node,
                      const struct ob_scope *defaults)
{
    struct ob_scope scope;
    struct adapting it = {.ld = ld, .scope = &scope, .sink = sink};
    const char *path = ob_loader_printf(ld, "sinks.%s", sink->name);
    ob_scope_init(ld, &scope, path, ob_loader_printf(ld, "SINK_%s", sink->name), node, sink->line);
    name_null(ld, &scope);
    ob_section_read(ld, OB_SECTION_sinks, &scope, sink);
    if (sink->library)
        sink->library = ob_config_beside(ld, sink->library);
    scope.parent = defaults;
    ob_section_read(ld, OB_SECTION_delivery, &scope, sink);
    scope.parent = NULL;
    settle_zeroes(sink);
    ob_sink_kind_find(ld, sink, &scope);
    scope.strange = !sink->ops && ld->in->load;
    if (sink->ops && sink->ops->settings)
        for (const struct outbox_sink_setting *setting = sink->ops->settings; setting->name; setting++)
            read_setting(&it, setting);
    else if (!scope.strange)
        pass_through(&it);
    ob_sink_kind_defaults(ld, sink, path);
    ob_sink_kind_words(ld, sink, &scope);
    ob_scope_check(ld, &scope, known_name, sink->ops ? sink->ops->settings : NULL);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static const char *key_of_delivery(const void *ctx, size_t i)
{
    (void)ctx;
    return ob_section_key(OB_SECTION_delivery, i);
}

/* An option at the level of the sinks' names: wrong indentation that is valid YAML. */
static void not_a_sink(struct ob_loader *ld, const struct ob_config_place *place, const char *name)
{
    bool option = ob_section_row(OB_SECTION_sinks, name) || ob_section_row(OB_SECTION_delivery, name);
    for (size_t i = 0; !option && ld->in->at && ld->in->at(i); i++)
        for (const struct outbox_sink_setting *at = ld->in->at(i)->settings; at && at->name && !option; at++)
            option = strcmp(at->name, name) == 0;
    ob_loader_problem(ld, true, place, ob_loader_printf(ld, "sinks.%s", name), NULL, NULL,
                      option ? "is an option, not a sink: indent it under the name of its sink"
                             : "must be a map of options, such as {kind: stdout}");
}

void ob_config_read_sinks(struct ob_loader *ld, const struct ob_node *root)
{
    struct ob_config *config = ld->config;
    struct ob_scope defaults;
    struct ob_config_sink nobody = {0};
    int line = 0;
    const struct ob_node *given = ob_node_get(root, "defaults", &line);
    ob_scope_init(ld, &defaults, "defaults", "DEFAULTS", given, line);
    ob_section_read(ld, OB_SECTION_delivery, &defaults, &nobody);
    ob_scope_check(ld, &defaults, key_of_delivery, NULL);
    const struct ob_node *sinks = ob_node_get(root, "sinks", &line);
    struct ob_config_place place = OB_PLACE_FILE(ld, line);
    if (!sinks || sinks->kind == OB_NODE_NULL)
        return;
    if (sinks->kind != OB_NODE_MAP) {
        ob_loader_problem(ld, true, &place, "sinks", NULL, NULL, "must be a map of names and their options");
        return;
    }
    config->sinks = ob_loader_calloc(ld, sinks->count, sizeof *config->sinks);
    for (size_t i = 0; i < sinks->count && config->sinks; i++) {
        struct ob_config_sink *sink = &config->sinks[config->sink_count++];
        *sink = (struct ob_config_sink){.name = sinks->keys[i], .file = ld->file, .line = sinks->key_lines[i]};
        place.line = sink->line;
        if (sinks->items[i]->kind == OB_NODE_TEXT || sinks->items[i]->kind == OB_NODE_LIST) {
            not_a_sink(ld, &place, sink->name);
            config->sink_count--;
            continue;
        }
        if (!ob_name_is_sink(sink->name))
            ob_loader_problem(ld, true, &place, ob_loader_printf(ld, "sinks.%s", sink->name), NULL, NULL,
                              "a name has at most 64 letters, digits, '-', '_' and '.'");
        read_sink(ld, sink, sinks->items[i], &defaults);
    }
}

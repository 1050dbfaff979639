/* section_traces.c - where traces go. The values of headers are secrets: they are never shown, and may be file:PATH. */
#include "config/config_int.h"

#include "base/alloc.h"

#include <string.h>
#include <unistd.h>

static const char *key_of_traces(const void *ctx, size_t i)
{
    (void)ctx;
    return ob_section_key(OB_SECTION_traces, i);
}

/* A token, and a value that cannot end its line. */
static bool is_header(const char *name, const char *value)
{
    bool ok = *name && *value;
    for (; *name; name++)
        ok = ok && *name > ' ' && *name < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", *name);
    for (; *value; value++)
        ok = ok && ((unsigned char)*value >= ' ' || *value == '\t') && *value != 0x7f;
    return ok;
}

static void read_header(struct ob_loader *ld, const struct ob_scope *scope, const char *key,
                        struct ob_post_header *headers)
{
    struct ob_config_traces *traces = &ld->config->traces;
    struct ob_given given;
    struct ob_post_header header = {.name = key + strlen("headers.")};
    ob_scope_get(ld, scope, key, OB_WANT_TEXT, true, &given);
    if (!given.found)
        return;
    header.value = given.text;
    ob_loader_value(ld, scope, key, given.text, ob_config_shown(ld, &given, true, false), &given.place, true, false);
    if (is_header(header.name, header.value))
        headers[traces->header_count++] = header;
    else
        ob_loader_problem(ld, true, &given.place, ob_loader_printf(ld, "%s.%s", scope->path, key), NULL, NULL,
                          "is not a valid header: an empty value or a character that is not allowed");
}

static void read_headers(struct ob_loader *ld, const struct ob_scope *scope)
{
    struct ob_post_header *headers = ob_loader_calloc(ld, scope->count + 1, sizeof *headers);
    for (size_t i = 0; i < scope->count && headers; i++) {
        struct ob_entry *entry = &scope->items[i];
        struct ob_config_place place = OB_PLACE_FILE(ld, entry->line);
        if (strncmp(entry->name, "headers.", strlen("headers.")) == 0) {
            read_header(ld, scope, entry->name, headers);
        } else if (strcmp(entry->name, "headers") == 0) {
            entry->used = true;
            if (entry->node->kind == OB_NODE_TEXT || entry->node->kind == OB_NODE_LIST)
                ob_loader_problem(ld, true, &place, ob_loader_printf(ld, "%s.headers", scope->path), NULL, NULL,
                                  "must be a map: a header, and its value");
        }
    }
    ld->config->traces.headers = headers;
}

static void check(struct ob_loader *ld, const char *key, const char *value, const char *text)
{
    for (size_t i = 0; i < ld->config->value_count; i++)
        if (strcmp(ld->config->values[i].name, key) == 0)
            ob_loader_problem(ld, true, &ld->config->values[i].place, key, value, NULL, "%s", text);
}

void ob_config_read_traces(struct ob_loader *ld, const struct ob_node *root)
{
    struct ob_config_traces *traces = &ld->config->traces;
    struct ob_scope scope;
    struct outbox_error err = {0};
    int line = 0;
    const struct ob_node *node = ob_node_get(root, "traces", &line);
    char *url = NULL;
    ob_scope_init(ld, &scope, "traces", "traces", node, line);
    ob_section_read(ld, OB_SECTION_traces, &scope, ld->config);
    read_headers(ld, &scope);
    ob_scope_check(ld, &scope, key_of_traces, NULL);
    if (traces->ca)
        traces->ca = ob_config_beside(ld, traces->ca);
    if (traces->endpoint && *traces->endpoint && ob_post_url(traces->endpoint, &url, &err))
        check(ld, "traces.endpoint", NULL, err.text);
    else if (traces->ca && access(traces->ca, R_OK))
        check(ld, "traces.tls.ca", traces->ca, "cannot be read");
    ob_free(url);
}

/* yaml.c - from the bytes of a file to nodes; the only file that knows libyaml.
 *
 * The number of nodes and their depth are limited: aliases are allowed, but a file that expands without end is refused.
 * All values are texts here; the option table gives them their types. */
#include "config/config_int.h"

#include <string.h>
#include <yaml.h>

enum { MOST_NODES = 20000, MOST_DEPTH = 16, MOST_BRACKETS = 500 };

struct walk {
    struct ob_loader *ld;
    yaml_document_t *document;
    size_t nodes;
    bool full;
    const char *path[MOST_DEPTH + 2]; /* the keys that lead here, by depth; NULL in lists */
};

static struct ob_node *convert(struct walk *walk, int index, int depth);

static void wrong(struct walk *walk, int line, const char *key, const char *text)
{
    struct ob_config_place place = OB_PLACE_FILE(walk->ld, line);
    ob_loader_problem(walk->ld, true, &place, key, NULL, NULL, "%s", text);
}

/* "relay.poll", for the key `last` of a map at this depth. */
static const char *dotted(struct walk *walk, int depth, const char *last)
{
    const char *name = "";
    for (int i = 0; i < depth; i++)
        if (walk->path[i])
            name = ob_loader_printf(walk->ld, "%s%s.", name, walk->path[i]);
    return ob_loader_printf(walk->ld, "%s%s", name, last);
}

static void read_scalar(struct walk *walk, const yaml_node_t *from, struct ob_node *node)
{
    const char *text = (const char *)from->data.scalar.value;
    bool plain = from->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->kind = OB_NODE_TEXT;
    node->text = ob_loader_dup(walk->ld, text);
    if (strlen(text) != from->data.scalar.length)
        wrong(walk, node->line, NULL, "a value contains a NUL character");
    if (plain && (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        node->kind = OB_NODE_NULL;
}

static void read_list(struct walk *walk, const yaml_node_t *from, struct ob_node *node, int depth)
{
    size_t count = (size_t)(from->data.sequence.items.top - from->data.sequence.items.start);
    node->kind = OB_NODE_LIST;
    node->items = ob_loader_calloc(walk->ld, count, sizeof *node->items);
    walk->path[depth] = NULL;
    for (size_t i = 0; i < count && node->items && !walk->full; i++) {
        node->items[node->count] = convert(walk, from->data.sequence.items.start[i], depth + 1);
        node->count += node->items[node->count] != NULL;
    }
}

/* A valid key of a map: a scalar that appears once. NULL after a mistake was reported. */
static const char *read_key(struct walk *walk, const struct ob_node *map, const yaml_node_t *key, int depth)
{
    int line = (int)key->start_mark.line + 1, first;
    if (key->type != YAML_SCALAR_NODE) {
        wrong(walk, line, NULL, "a key must be a plain word");
        return NULL;
    }
    const char *text = (const char *)key->data.scalar.value;
    if (strlen(text) != key->data.scalar.length) {
        wrong(walk, line, NULL, "a key contains a NUL character");
        return NULL;
    }
    if (strcmp(text, "<<") == 0) {
        wrong(walk, line, dotted(walk, depth, text),
              "merge keys are not supported; repeat the options, or use `defaults`");
        return NULL;
    }
    if (ob_node_get(map, text, &first)) {
        struct ob_config_place place = OB_PLACE_FILE(walk->ld, line);
        ob_loader_problem(walk->ld, true, &place, dotted(walk, depth, text), NULL, NULL,
                          "given twice; the first is in line %d", first);
        return NULL;
    }
    return ob_loader_dup(walk->ld, text);
}

static void read_map(struct walk *walk, const yaml_node_t *from, struct ob_node *node, int depth)
{
    size_t count = (size_t)(from->data.mapping.pairs.top - from->data.mapping.pairs.start);
    node->kind = OB_NODE_MAP;
    node->items = ob_loader_calloc(walk->ld, count, sizeof *node->items);
    node->keys = ob_loader_calloc(walk->ld, count, sizeof *node->keys);
    node->key_lines = ob_loader_calloc(walk->ld, count, sizeof *node->key_lines);
    if (walk->ld->nomem)
        return;
    for (size_t i = 0; i < count && !walk->full; i++) {
        const yaml_node_pair_t *pair = &from->data.mapping.pairs.start[i];
        const yaml_node_t *key = yaml_document_get_node(walk->document, pair->key);
        const char *name = key ? read_key(walk, node, key, depth) : NULL;
        if (!name)
            continue;
        walk->path[depth] = node->keys[node->count] = name;
        node->key_lines[node->count] = (int)key->start_mark.line + 1;
        node->items[node->count] = convert(walk, pair->value, depth + 1);
        node->count += node->items[node->count] != NULL;
    }
}

static struct ob_node *convert(struct walk *walk, int index, int depth)
{
    const yaml_node_t *from = yaml_document_get_node(walk->document, index);
    if (!from || walk->full || walk->ld->nomem)
        return NULL;
    int line = (int)from->start_mark.line + 1;
    if (++walk->nodes > MOST_NODES || depth > MOST_DEPTH) {
        wrong(walk, line, NULL,
              depth > MOST_DEPTH ? "nested too deeply, or an alias refers to itself"
                                 : "too many values; aliases count each time they are used");
        walk->full = true;
        return NULL;
    }
    struct ob_node *node = ob_loader_calloc(walk->ld, 1, sizeof *node);
    if (!node)
        return NULL;
    node->line = line;
    if (from->type == YAML_SCALAR_NODE)
        read_scalar(walk, from, node);
    else if (from->type == YAML_SEQUENCE_NODE)
        read_list(walk, from, node, depth);
    else if (from->type == YAML_MAPPING_NODE)
        read_map(walk, from, node, depth);
    return node;
}

struct ob_node *ob_node_get(const struct ob_node *map, const char *key, int *line)
{
    for (size_t i = 0; map && map->kind == OB_NODE_MAP && i < map->count; i++)
        if (strcmp(map->keys[i], key) == 0) {
            if (line)
                *line = map->key_lines[i];
            return map->items[i];
        }
    return NULL;
}

/* ---- the parser -------------------------------------------------------------------------------------------------- */

static void syntax_error(struct ob_loader *ld, const yaml_parser_t *parser, const char *text, size_t len)
{
    struct ob_config_place place = OB_PLACE_FILE(ld, (int)parser->problem_mark.line + 1);
    if (parser->error == YAML_MEMORY_ERROR) {
        ld->nomem = true;
        return;
    }
    if (parser->error == YAML_READER_ERROR) { /* it has no mark: count the lines before the bad byte */
        place.line = 1;
        for (size_t i = 0; i < parser->problem_offset && i < len; i++)
            place.line += text[i] == '\n';
    }
    const char *problem = parser->problem ? parser->problem : "cannot be read", *line = text, *end = text + len;
    for (int n = 1; n < place.line && line < end; n++) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        line = next ? next + 1 : end;
    }
    const char *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    const char *hint = ob_slip_yaml(problem, parser->context, line, (size_t)((stop ? stop : end) - line));
    ob_loader_problem(ld, true, &place, NULL, NULL, NULL, "not YAML: %s%s%s%s%s", problem, parser->context ? " " : "",
                      parser->context ? parser->context : "", hint ? "; " : "", hint ? hint : "");
}

static struct ob_node *read_root(struct ob_loader *ld, yaml_parser_t *parser, yaml_document_t *document,
                                 const char *text, size_t len)
{
    struct walk walk = {.ld = ld, .document = document};
    const yaml_node_t *root = yaml_document_get_root_node(document);
    yaml_document_t second;
    if (!root)
        return NULL;
    struct ob_node *node = convert(&walk, 1, 0);
    if (walk.full)
        return NULL;
    if (node && node->kind != OB_NODE_MAP && node->kind != OB_NODE_NULL) {
        wrong(&walk, node->line, NULL, "the configuration must be a map: `relay:`, `sinks:`, `routes:` and so on");
        return NULL;
    }
    if (!yaml_parser_load(parser, &second)) {
        syntax_error(ld, parser, text, len);
        return NULL;
    }
    root = yaml_document_get_root_node(&second);
    if (root)
        wrong(&walk, (int)root->start_mark.line + 1, NULL, "a second document starts here; only one is allowed");
    yaml_document_delete(&second);
    return node;
}

/* The line where brackets are nested too deep; 0: nowhere. Checked before parsing, because libyaml's time grows with the
 * square of this depth. Quotes are not recognised here, so the limit is generous. */
static int bracket_line(const char *text, size_t len)
{
    int line = 1, open = 0;
    for (size_t i = 0; i < len; i++) {
        line += text[i] == '\n';
        open += text[i] == '[' || text[i] == '{';
        if (open > 0 && (text[i] == ']' || text[i] == '}'))
            open--;
        if (open > MOST_BRACKETS)
            return line;
    }
    return 0;
}

struct ob_node *ob_config_yaml(struct ob_loader *ld, const char *text, size_t len)
{
    yaml_parser_t parser;
    yaml_document_t document;
    struct ob_node *node = NULL;
    struct ob_config_place place = OB_PLACE_FILE(ld, bracket_line(text, len));
    if (place.line) {
        ob_loader_problem(ld, true, &place, NULL, NULL, NULL, "not YAML: nested too deeply");
        return NULL;
    }
    if (!yaml_parser_initialize(&parser)) {
        ld->nomem = true;
        return NULL;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (!yaml_parser_load(&parser, &document)) {
        syntax_error(ld, &parser, text, len);
        goto done;
    }
    node = read_root(ld, &parser, &document, text, len);
    yaml_document_delete(&document);
done:
    yaml_parser_delete(&parser);
    return node;
}

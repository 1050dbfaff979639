/* show.c - what differs between two configurations, and a sample file. */
#include "config/config_int.h"

#include <string.h>

/* ---- what differs ------------------------------------------------------------------------------------------------ */

static const struct ob_config_value *find(const struct ob_config *config, const char *name)
{
    for (size_t i = 0; i < config->value_count; i++)
        if (strcmp(config->values[i].name, name) == 0)
            return &config->values[i];
    return NULL;
}

static bool has_group(const struct ob_config *config, const char *group)
{
    for (size_t i = 0; i < config->value_count; i++)
        if (strcmp(config->values[i].group, group) == 0)
            return true;
    return false;
}

static bool same(const struct ob_config_value *a, const struct ob_config_value *b)
{
    return a->text && b->text ? strcmp(a->text, b->text) == 0 : a->text == b->text;
}

/* Reports each group that only one of the two has once; the values of a group are adjacent. */
static void tell_groups(const struct ob_config *of, const struct ob_config *other, bool gone,
                        void (*tell)(void *ctx, const struct ob_config_change *change), void *ctx)
{
    for (size_t i = 0; i < of->value_count; i++) {
        const struct ob_config_value *value = &of->values[i];
        if ((i && strcmp(of->values[i - 1].group, value->group) == 0) || has_group(other, value->group))
            continue;
        const char *shown = strcmp(value->name, value->group) == 0 ? value->shown : "(given)";
        struct ob_config_change change = {value->group, gone ? shown : NULL, gone ? NULL : shown, value->reloadable};
        tell(ctx, &change);
    }
}

void ob_config_diff(const struct ob_config *before, const struct ob_config *after,
                    void (*tell)(void *ctx, const struct ob_config_change *change), void *ctx)
{
    tell_groups(before, after, true, tell, ctx);
    tell_groups(after, before, false, tell, ctx);
    for (size_t i = 0; i < before->value_count; i++) {
        const struct ob_config_value *old = &before->values[i], *new = find(after, old->name);
        struct ob_config_change change = {old->name, old->shown, new ? new->shown : NULL, old->reloadable};
        if (has_group(after, old->group) && (!new || !same(old, new)))
            tell(ctx, &change);
    }
    for (size_t i = 0; i < after->value_count; i++) {
        const struct ob_config_value *new = &after->values[i];
        struct ob_config_change change = {new->name, NULL, new->shown, new->reloadable};
        if (has_group(before, new->group) && !find(before, new->name))
            tell(ctx, &change);
    }
}

/* ---- the sample -------------------------------------------------------------------------------------------------- */

/* Writes a comment, wrapped at spaces. */
static void put_comment(struct ob_buf *buf, int indent, const char *text)
{
    int at = 1000;
    for (; *text; text += *text == ' ') {
        int len = (int)strcspn(text, " ");
        if (at + 1 + len > 110) {
            ob_buf_printf(buf, "%s%*s#", at < 1000 ? "\n" : "", indent, "");
            at = indent + 1;
        }
        ob_buf_printf(buf, " %.*s", len, text);
        at += 1 + len;
        text += len;
    }
    ob_buf_putc(buf, '\n');
}

/* The rows of a section, each as a comment followed by the option with its default, commented out. */
static void put_rows(struct ob_buf *buf, enum ob_section section, int indent)
{
    for (size_t i = 0; i < ob_config_row_count; i++) {
        const struct ob_config_row *row = &ob_config_rows[i];
        if (row->section != section)
            continue;
        put_comment(buf, indent, row->doc);
        ob_buf_printf(buf, "%*s#%s: %s\n", indent, "", row->key, *row->fallback ? row->fallback : "...");
    }
}

void ob_config_sample(struct ob_buf *buf)
{
    ob_buf_puts(buf,
                "# Configuration of the Outbox relay. Options commented out show their defaults.\n"
                "# Values may contain ${VARIABLE} or ${VARIABLE:-default}; secrets may be file:PATH.\n"
                "# Check it with: outbox validate FILE\n\n"
                "# The outbox: postgresql://USER@HOST/DATABASE or sqlite:PATH. Several: stores: {NAME: {url: URL}}.\n"
                "store: sqlite:outbox.db\n\nrelay:\n");
    put_rows(buf, OB_SECTION_relay, 2);
    ob_buf_puts(buf, "\nlog:\n");
    put_rows(buf, OB_SECTION_log, 2);
    ob_buf_puts(buf, "\nadmin:\n");
    put_rows(buf, OB_SECTION_admin, 2);
    ob_buf_puts(buf, "\ntraces:\n");
    put_rows(buf, OB_SECTION_traces, 2);
    ob_buf_puts(buf, "\nnotify:\n");
    put_rows(buf, OB_SECTION_notify, 2);
    ob_buf_puts(buf, "\n# Defaults for all sinks; each sink may override them.\ndefaults:\n");
    put_rows(buf, OB_SECTION_delivery, 2);
    ob_buf_puts(
        buf, "\n# Where messages go.\nsinks:\n  screen:\n    kind: stdout\n\n"
             "# Which messages go to which sink: the first matching route wins.\nroutes:\n  - topic: \"*\"\n    sink: "
             "screen\n");
    put_rows(buf, OB_SECTION_routes, 4);
}

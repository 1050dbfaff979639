/* pauses.c - the pauses in force, in words and as JSON: a status that does not tell of them leaves an operator to wonder
 * why nothing moves. */
#include "cli/cli.h"

#include <string.h>

/* Names come out of the database, and go to a terminal: see cli.h. */
static void put_name(struct ob_buf *buf, const char *name)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        bool c1 = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
        if (*c < 0x20 || *c == 0x7f || c1) {
            c += c1;
            ob_buf_printf(buf, "\\x%02x", *c);
        } else {
            ob_buf_put(buf, c, 1);
        }
    }
}

static void put_scope(struct ob_buf *buf, const char *name_space, const char *topic, const char *destination)
{
    if (destination)
        ob_buf_puts(buf, "destination ");
    else if (name_space && !topic)
        ob_buf_puts(buf, "namespace ");
    put_name(buf, destination ? destination : name_space ? name_space : "everything");
    if (topic) {
        ob_buf_puts(buf, "/");
        put_name(buf, topic);
    }
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void paused(void *ctx, const char *name_space, const char *topic, const char *destination)
{
    struct ob_pauses *pauses = ctx;
    if (pauses->count++)
        ob_buf_puts(&pauses->text, ", ");
    put_scope(&pauses->text, name_space, topic, destination);
    if (same(name_space, pauses->name_space) && same(topic, pauses->topic) && same(destination, pauses->destination))
        pauses->found = true;
    if (!pauses->json)
        return;
    ob_json_object(pauses->json);
    ob_json_text(pauses->json, "namespace", name_space);
    ob_json_text(pauses->json, "topic", topic);
    ob_json_text(pauses->json, "destination", destination);
    ob_json_end(pauses->json);
}

enum outbox_code ob_pauses_read(struct ob_store *store, struct ob_pauses *pauses, struct outbox_error *err)
{
    struct ob_control control = {.ctx = pauses, .paused = paused};
    pauses->count = 0;
    pauses->found = false;
    ob_buf_fini(&pauses->text);
    return store->ops->control(store, &control, err);
}

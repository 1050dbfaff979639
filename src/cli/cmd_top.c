/* cmd_top.c - the outbox on a terminal, live: rates, lag, topics, sinks with their breakers, failures by group.
 *
 * Every two seconds it looks at what `outbox status` shows, which costs the same however much is stored. Rates are those that the relays
 * report of their sinks; what comes in is that and the change of what waits. */
#include "cli/top.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVERY_MS = 2000, PLAIN_COLUMNS = 160, LIMIT_S = 10 };

static const char *copy(struct ob_top *top, const char *text)
{
    return text ? ob_arena_strdup(&top->arena, text) : NULL;
}

static bool keep_group(void *ctx, const struct ob_group_row *row)
{
    struct ob_top *top = ctx;
    if (top->group_count == OB_TOP_GROUPS)
        return false;
    top->groups[top->group_count++] = (struct ob_top_group){.fingerprint = copy(top, row->fingerprint),
                                                            .code = copy(top, row->code),
                                                            .sample = copy(top, row->sample),
                                                            .count = row->count,
                                                            .dead = row->dead,
                                                            .retrying = row->retrying,
                                                            .last_seen_us = row->last_seen_us};
    return true;
}

static void add_rate(void *ctx, const struct ob_relay_sink *sink)
{
    *(double *)ctx += sink->rate;
}

static void forget(struct ob_top *top)
{
    ob_look_fini(&top->look);
    ob_arena_fini(&top->arena);
    ob_arena_init(&top->arena, 0);
    top->group_count = 0;
}

static int64_t held(const struct ob_look *look)
{
    return look->total.pending + look->total.processing + look->total.dead;
}

/* Looks again; what was there stays if that fails. */
static enum outbox_code refresh(struct ob_cli *cli, struct ob_top *top)
{
    struct ob_top next = {.sort = top->sort, .paused = top->paused, .in_rate = -1};
    ob_arena_init(&next.arena, 0);
    enum outbox_code code = ob_look_read(cli->store, cli->args.name_space, cli->args.topic, &next.look, &cli->err);
    if (!code)
        code = cli->store->ops->groups(cli->store, OB_TOP_GROUPS, keep_group, &next, &cli->err);
    if (code) {
        forget(&next);
        top->trouble = cli->err.text;
        return code;
    }
    ob_relays_sinks(next.look.relays, add_rate, &next.out_rate);
    double seconds = (double)(next.look.at_us - top->look.at_us) / 1e6;
    if (top->look.at_us && seconds > 0.1 && !next.look.total.estimated) {
        double in = next.out_rate + (double)(held(&next.look) - held(&top->look)) / seconds;
        next.in_rate = in > 0 ? in : 0;
    }
    forget(top);
    ob_arena_fini(&top->arena);
    *top = next;
    return OUTBOX_OK;
}

static void place_of(struct ob_cli *cli, struct ob_buf *text)
{
    struct ob_store_place place;
    cli->store->ops->place(cli->store, &place);
    ob_buf_puts(text, cli->store->ops->kind);
    if (place.file)
        ob_buf_printf(text, " %s", place.file);
    if (place.database)
        ob_buf_printf(text, " %s", place.database);
    if (place.host)
        ob_buf_printf(text, " on %s", place.host);
}

/* A frame is written at once: over a slow line it must not be seen half. */
static void show(const struct ob_top *top, const char *place)
{
    char *text = NULL;
    size_t len = 0;
    int columns, rows;
    FILE *memory = open_memstream(&text, &len);
    if (!memory)
        return;
    ob_terminal_size(&columns, &rows);
    ob_top_draw(memory, top, place, columns, rows, true);
    if (fclose(memory) == 0 && text) {
        fwrite(text, 1, len, stdout);
        fflush(stdout);
    }
    free(text);
}

/* Returns when the user quits or the terminal is gone. */
static void live(struct ob_cli *cli, struct ob_top *top, const char *place)
{
    for (bool due = false;; due = true) {
        if (due && !top->paused)
            (void)refresh(cli, top); /* a failure is shown, and tried again */
        bool wait = true;
        while (wait) {
            show(top, place);
            int key = ob_terminal_key(EVERY_MS);
            if (key == 'q' || key == 'Q' || key == 4 || key < 0)
                return;
            if (key == 'p' || key == ' ')
                top->paused = !top->paused;
            if (key == 's')
                top->sort = (enum ob_top_sort)((top->sort + 1) % OB_TOP_SORTS);
            wait = key != 0 && key != 'r' && key != 'p' && key != ' ';
        }
    }
}

int cmd_top(struct ob_cli *cli)
{
    struct ob_top top = {0};
    struct ob_buf place = OB_BUF_INIT;
    bool once = cli->args.once || cli->args.json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
    int status = OB_EXIT_OK;
    cli->limit_us = (int64_t)LIMIT_S * 1000000;
    ob_arena_init(&top.arena, 0);
    if (!ob_cli_open(cli) || refresh(cli, &top)) {
        status = ob_cli_fail(cli);
    } else {
        place_of(cli, &place);
        if (cli->args.json)
            ob_top_json(&top);
        else if (once || !ob_terminal_enter())
            ob_top_draw(stdout, &top, ob_buf_text(&place), PLAIN_COLUMNS, 0, cli->color && !once);
        else
            live(cli, &top, ob_buf_text(&place));
        ob_terminal_leave();
    }
    forget(&top);
    ob_arena_fini(&top.arena);
    ob_buf_fini(&place);
    return status;
}

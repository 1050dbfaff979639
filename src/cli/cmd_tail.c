/* cmd_tail.c - prints what happens to messages, as it happens.
 *
 * A round is asked of the store twice a second. It tells by kind: enqueued, attempts, dead letters, acts; the round is printed in the
 * order of time. A connection that is lost is made again, and the place is kept, so nothing is missed meanwhile. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "core/tail.h"

#include <stdlib.h>
#include <time.h>

enum { EVERY_MS = 500, AGAIN_MS = 1000 };

struct round {
    struct ob_transition_row *rows;
    size_t count, room;
    struct ob_arena arena;
    bool failed;
};

static const char *copy(struct round *round, const char *text)
{
    const char *copied = text ? ob_arena_strdup(&round->arena, text) : NULL;
    round->failed |= text && !copied;
    return copied;
}

static void keep_row(void *ctx, const struct ob_transition_row *row)
{
    struct round *round = ctx;
    if (round->count == round->room) {
        size_t room = round->room ? 2 * round->room : 64;
        struct ob_transition_row *rows = ob_realloc(round->rows, round->room * sizeof *rows, room * sizeof *rows);
        if (!rows) {
            round->failed = true;
            return;
        }
        round->rows = rows;
        round->room = room;
    }
    struct ob_transition_row *kept = &round->rows[round->count++];
    *kept = *row;
    kept->name_space = copy(round, row->name_space);
    kept->topic = copy(round, row->topic);
    kept->tenant_id = copy(round, row->tenant_id);
    kept->key = copy(round, row->key);
    kept->worker = copy(round, row->worker);
    kept->code = copy(round, row->code);
    kept->error = copy(round, row->error);
    kept->reference = copy(round, row->reference);
    kept->actor = copy(round, row->actor);
    kept->action = copy(round, row->action);
    kept->reason = copy(round, row->reason);
    kept->detail = copy(round, row->detail);
    kept->subject = kept->recipient = kept->correlation_id = NULL;
}

static int by_time(const void *a, const void *b)
{
    const struct ob_transition_row *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

/* Prints a round; false when the limit is reached or nobody reads any more. */
static bool print_round(struct ob_cli *cli, struct round *round, int64_t *left)
{
    qsort(round->rows, round->count, sizeof *round->rows, by_time);
    for (size_t i = 0; i < round->count && *left != 0; i++, (*left)--) {
        if (cli->args.json) {
            struct ob_buf buf = OB_BUF_INIT;
            struct ob_json json;
            ob_json_init(&json, &buf);
            ob_json_transition(&json, &round->rows[i]);
            ob_say_json(&buf);
        } else {
            ob_say_transition(cli, &round->rows[i]);
        }
    }
    return *left != 0 && fflush(stdout) == 0 && !ferror(stdout);
}

static void pause_ms(int ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&wait, NULL);
}

/* A server that restarts is waited for: the place is kept. */
static bool comes_back(struct ob_cli *cli, bool *told)
{
    if (ob_code_class(cli->err.code) != OUTBOX_CLASS_RETRY || cli->args.once)
        return false;
    if (!*told)
        ob_cli_note(cli, "outbox: %s; trying again every second", cli->err.text);
    *told = true;
    pause_ms(AGAIN_MS);
    return true;
}

static int follow(struct ob_cli *cli, const struct ob_filter *filter, struct ob_tail *tail)
{
    int64_t left = cli->args.limit.given ? cli->args.limit.value : -1;
    bool more, told = false, going = true;
    while (going) {
        struct round round = {0};
        ob_arena_init(&round.arena, 0);
        enum outbox_code code = cli->store->ops->tail(cli->store, tail, filter, keep_row, &round, &more, &cli->err);
        if (!code && round.failed)
            code = ob_error_nomem(&cli->err);
        going = print_round(cli, &round, &left);
        ob_free(round.rows);
        ob_arena_fini(&round.arena);
        if (code && !comes_back(cli, &told))
            return ob_cli_fail(cli);
        told &= code != OUTBOX_OK;
        if (!code && !more && cli->args.once)
            return OB_EXIT_OK;
        if (!code && !more && going)
            pause_ms(EVERY_MS);
    }
    return OB_EXIT_OK;
}

int cmd_tail(struct ob_cli *cli)
{
    struct ob_filter filter;
    struct ob_tail *tail = NULL;
    int status = ob_cli_filter(cli, &filter);
    if (status)
        return status;
    if (cli->args.once && !cli->args.since)
        return ob_cli_usage(cli, "--once prints what happened, so it needs --since, such as --since -10m");
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    status = cli->args.force ? 0 : ob_cli_known_topic(cli, filter.name_space, filter.topic, true);
    if (status)
        return status;
    if (cli->store->ops->tail_begin(cli->store, cli->args.since, &tail, &cli->err))
        return ob_cli_fail(cli);
    status = follow(cli, &filter, tail);
    ob_tail_free(tail);
    return status;
}

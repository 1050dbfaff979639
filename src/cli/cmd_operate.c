/* cmd_operate.c - acts of operators: retry, discard, purge. Every act is recorded with who and why. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <string.h>
#include <unistd.h>

enum { AT_ONCE = 1000, COUNT_CAP = 10000 };

/* ---- dead letters ------------------------------------------------------------------------------------------------ */

struct act {
    const char *verb, *done; /* "retry", "retried" */
    ob_code (*run)(struct ob_store *, const struct ob_filter *, const struct ob_actor *, int64_t *,
                   struct outbox_error *);
    bool always_ask;
};

static bool count_row(void *ctx, const struct ob_message_row *row)
{
    (void)row;
    return ++*(int *)ctx <= COUNT_CAP;
}

/* The number of dead letters selected, up to the cap; -1 after an error. */
static int count_meant(struct ob_cli *cli, const struct ob_filter *filter)
{
    struct ob_filter dead = *filter;
    int count = 0;
    dead.status_plus_1 = OB_DEAD + 1;
    if (dead.limit == 0 || dead.limit > COUNT_CAP)
        dead.limit = COUNT_CAP + 1;
    return cli->store->ops->list(cli->store, &dead, count_row, &count, &cli->err) ? -1 : count;
}

static int say_act(struct ob_cli *cli, const struct act *act, int64_t count, bool capped)
{
    if (!cli->args.json) {
        if (cli->args.dry_run)
            ob_cli_note(cli, "Would %s %s%lld dead letter%s. Nothing was changed.", act->verb,
                        capped ? "more than " : "", (long long)count, count == 1 ? "" : "s");
        else
            ob_cli_note(cli, "%lld dead letter%s %s.", (long long)count, count == 1 ? "" : "s", act->done);
        return OB_EXIT_OK;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "action", act->verb);
    ob_json_key(&json, "count");
    ob_json_int(&json, count);
    ob_json_key(&json, "count_capped");
    ob_json_bool(&json, capped);
    ob_json_key(&json, "dry_run");
    ob_json_bool(&json, cli->args.dry_run);
    ob_json_end(&json);
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

/* Prints progress on a terminal after each step except the last. */
static void tell_progress(const struct ob_cli *cli, const struct act *act, int64_t total, bool more)
{
    if (more && !cli->args.quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%lld %s ...", (long long)total, act->done);
    else if (!more && total > AT_ONCE && !cli->args.quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

/* Works in steps to keep transactions small; *total is valid even when a later step fails. */
static ob_code run_act(struct ob_cli *cli, const struct act *act, struct ob_filter *filter, int64_t *total)
{
    struct ob_actor actor = ob_cli_actor(cli);
    int64_t left = filter->limit ? filter->limit : INT64_MAX, count;
    *total = 0;
    do {
        filter->limit = left < AT_ONCE ? (int)left : AT_ONCE;
        ob_code code = act->run(cli->store, filter, &actor, &count, &cli->err);
        if (code)
            return code;
        *total += count;
        left -= count;
        tell_progress(cli, act, *total, count == AT_ONCE);
    } while (count == AT_ONCE && left > 0 && !filter->ids);
    return OUTBOX_OK;
}

static int none_matched(struct ob_cli *cli, bool by_filter)
{
    ob_error_set(&cli->err, OUTBOX_UNKNOWN_MESSAGE, "%s; see: outbox list --status dead",
                 by_filter ? "no dead letter matches" : "none of these ids is a dead letter");
    return ob_cli_fail(cli);
}

static int act_on(struct ob_cli *cli, const struct act *act, struct ob_filter *filter)
{
    int64_t total = 0;
    bool by_filter = !filter->ids;
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    int status = ob_cli_known_topic(cli, filter->name_space, filter->topic, false);
    if (status)
        return status;
    if (cli->args.dry_run || ((by_filter || act->always_ask) && !cli->args.yes)) {
        int count = count_meant(cli, filter);
        bool capped = count > COUNT_CAP;
        if (count < 0)
            return ob_cli_fail(cli);
        if (capped)
            count = COUNT_CAP;
        if (count == 0)
            return none_matched(cli, by_filter);
        if (cli->args.dry_run)
            return say_act(cli, act, count, capped);
        if (!ob_cli_confirm(cli, "%s %s%d dead letter%s?", strcmp(act->verb, "retry") ? "Discard" : "Retry",
                            capped ? "more than " : "", count, count == 1 ? "" : "s"))
            return OB_EXIT_USAGE;
    }
    if (run_act(cli, act, filter, &total)) {
        if (total)
            ob_cli_note(cli, "%lld %s before this:", (long long)total, act->done);
        return ob_cli_fail(cli);
    }
    if (total == 0)
        return none_matched(cli, by_filter);
    if (!by_filter && total < (int64_t)filter->id_count)
        ob_cli_note(cli, "%lld of the %zu ids are not dead letters.", (long long)filter->id_count - (long long)total,
                    filter->id_count);
    return say_act(cli, act, total, false);
}

static int on_dead_letters(struct ob_cli *cli, const struct act *act)
{
    struct ob_filter filter;
    struct ob_args *args = &cli->args;
    int status = ob_cli_filter(cli, &filter);
    if (status)
        return status;
    bool filtered = args->name_space || args->topic || args->tenant || args->code || args->before || args->all;
    if (args->rest_count && filtered)
        return ob_cli_usage(cli, "give ids or a filter, not both");
    if (!args->rest_count && !filtered)
        return ob_cli_usage(cli, "no dead letters selected: give ids, a filter, or --all");
    if (args->all && !filter.before_us)
        filter.before_us = ob_clock_wall_us() + 3600000000; /* clocks differ: an hour ahead includes every message */
    struct outbox_uuid *ids = ob_calloc((size_t)args->rest_count + 1, sizeof *ids);
    if (!ids) {
        ob_error_nomem(&cli->err);
        return ob_cli_fail(cli);
    }
    for (int i = 0; i < args->rest_count && !status; i++)
        if (!outbox_uuid_parse(args->rest[i], &ids[i]))
            status = ob_cli_usage(cli, "\"%s\" is not a message id; an id is a uuid", args->rest[i]);
    if (args->rest_count) {
        filter.ids = ids;
        filter.id_count = (size_t)args->rest_count;
    }
    if (!status)
        status = act_on(cli, act, &filter);
    ob_free(ids);
    return status;
}

static ob_code do_retry(struct ob_store *store, const struct ob_filter *filter, const struct ob_actor *actor,
                        int64_t *count, struct outbox_error *err)
{
    return store->ops->retry(store, filter, actor, count, err);
}

static ob_code do_discard(struct ob_store *store, const struct ob_filter *filter, const struct ob_actor *actor,
                          int64_t *count, struct outbox_error *err)
{
    return store->ops->discard(store, filter, actor, count, err);
}

int cmd_retry(struct ob_cli *cli)
{
    return on_dead_letters(cli, &(struct act){"retry", "pending again", do_retry, false});
}

int cmd_discard(struct ob_cli *cli)
{
    return on_dead_letters(cli, &(struct act){"discard", "discarded", do_discard, true});
}

/* ---- purge ------------------------------------------------------------------------------------------------------- */

int cmd_purge(struct ob_cli *cli)
{
    int64_t removed = 0;
    if (!ob_cli_open(cli) || cli->store->ops->purge(cli->store, &removed, &cli->err))
        return ob_cli_fail(cli);
    if (!cli->args.json) {
        ob_cli_note(cli, "%lld message%s removed by retention.", (long long)removed, removed == 1 ? "" : "s");
        return OB_EXIT_OK;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "action", "purge");
    ob_json_count(&json, "count", removed);
    ob_json_end(&json);
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

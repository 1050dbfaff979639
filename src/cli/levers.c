/* levers.c - an operator's act on messages that ids or a filter name: count and sample first, ask, then in steps, with progress, at a
 * rate, until Ctrl-C. lib/bulk.h does the work; this file asks and tells. */
#include "cli/levers.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/value.h"
#include "core/lever.h"
#include "lib/bulk.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE = 5, BAR = 30 };

struct pull {
    struct ob_cli *cli;
    const struct ob_cli_lever *lever;
    struct ob_bulk bulk;
    int shown;
    char run[64];
};

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupts++;
}

static bool is_interrupted(void *ctx)
{
    (void)ctx;
    return interrupts > 0;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const char *noun(const struct pull *pull, int64_t count)
{
    bool dead = pull->bulk.filter.status_plus_1 == OB_DEAD + 1;
    return dead ? (count == 1 ? "dead letter" : "dead letters") : count == 1 ? "message" : "messages";
}

static const char *done_word(const struct pull *pull)
{
    bool hurry = pull->bulk.operation.lever == OB_LEVER_RETRY && pull->bulk.filter.status_plus_1 != OB_DEAD + 1;
    return hurry ? "due now" : pull->lever->done;
}

/* Ids may be of any state; where none is named, the sample tells. */
static bool show_row(void *ctx, const struct ob_message_row *row)
{
    struct pull *pull = ctx;
    char id[37];
    if (pull->cli->args.quiet || pull->cli->args.json || pull->shown == SAMPLE)
        return false;
    outbox_uuid_format(&row->id, id);
    fprintf(stderr, "  %s  %-10s ", id, ob_status_name(row->status));
    ob_print_safe(stderr, row->topic, strlen(row->topic));
    if (row->last_error) {
        fputs("  ", stderr);
        ob_print_safe(stderr, row->last_error, strnlen(row->last_error, 100));
    }
    fputc('\n', stderr);
    pull->shown++;
    return true;
}

static void tell_sample_end(const struct pull *pull)
{
    const struct ob_bulk *bulk = &pull->bulk;
    if (pull->shown == SAMPLE && bulk->total > SAMPLE)
        ob_cli_note(pull->cli, "  and %s%lld more", bulk->more ? "more than " : "", (long long)bulk->total - SAMPLE);
    if (bulk->searched)
        ob_cli_note(pull->cli, "No index finds these: messages were looked through one by one.");
}

static void show_progress(void *ctx, const struct ob_bulk *bulk)
{
    const struct pull *pull = ctx;
    char bar[BAR + 1];
    int64_t total = bulk->limit && bulk->limit < bulk->total ? bulk->limit : bulk->total;
    if (total <= OB_BULK_STEP || !bulk->tried || pull->cli->args.quiet || !isatty(STDERR_FILENO))
        return;
    int filled = (int)(bulk->tried * BAR / total);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, bulk->tried < total ? "\r[%s] %lld of %lld" : "\r\033[K", bar, (long long)bulk->tried,
            (long long)total);
    fflush(stderr);
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static void say_json(const struct pull *pull, int64_t count, int64_t left)
{
    const struct ob_bulk *bulk = &pull->bulk;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "action", ob_lever_name(bulk->operation.lever));
    ob_json_count(&json, "count", count);
    ob_json_key(&json, "count_capped");
    ob_json_bool(&json, pull->cli->args.dry_run && bulk->more);
    ob_json_key(&json, "dry_run");
    ob_json_bool(&json, pull->cli->args.dry_run);
    ob_json_count(&json, "refused", bulk->refused);
    ob_json_count(&json, "left", left);
    ob_json_key(&json, "interrupted");
    ob_json_bool(&json, bulk->interrupted);
    if (bulk->operation.run)
        ob_json_text(&json, "run", bulk->operation.run);
    ob_json_end(&json);
    ob_say_json(&buf);
}

static void put_refusals(const struct ob_bulk *bulk, struct ob_buf *text)
{
    for (size_t i = 0; i < OB_BULK_REASONS && bulk->refusals[i].count; i++) {
        const struct ob_bulk_refusal *refusal = &bulk->refusals[i];
        char id[37];
        outbox_uuid_format(&refusal->first, id);
        ob_buf_printf(text, "%s%lld %s (%s: %s)", i ? ", " : "", (long long)refusal->count, refusal->result, id,
                      refusal->detail);
    }
}

static void tell_refusals(const struct pull *pull)
{
    struct ob_buf text = OB_BUF_INIT;
    if (!pull->bulk.refused)
        return;
    put_refusals(&pull->bulk, &text);
    ob_cli_note(pull->cli, "%lld left as %s: %s.", (long long)pull->bulk.refused,
                pull->bulk.refused == 1 ? "it is" : "they are", ob_buf_text(&text));
    ob_buf_fini(&text);
}

static int none_done(struct pull *pull)
{
    struct ob_buf text = OB_BUF_INIT;
    put_refusals(&pull->bulk, &text);
    ob_error_set(&pull->cli->err, OUTBOX_UNKNOWN_MESSAGE, "nothing was done: %s", ob_buf_text(&text));
    ob_buf_fini(&text);
    return ob_cli_fail(pull->cli);
}

static int none_matched(struct pull *pull)
{
    const char *status =
        pull->bulk.filter.status_plus_1 ? ob_status_name((enum ob_status)(pull->bulk.filter.status_plus_1 - 1)) : "";
    if (strcmp(status, "dead") == 0)
        ob_error_set(&pull->cli->err, OUTBOX_UNKNOWN_MESSAGE, "no dead letter matches; see: outbox list status:dead");
    else
        ob_error_set(&pull->cli->err, OUTBOX_UNKNOWN_MESSAGE, "no %s message matches; see: outbox list status:%s",
                     status, status);
    return ob_cli_fail(pull->cli);
}

static int say_end(struct pull *pull)
{
    struct ob_cli *cli = pull->cli;
    const struct ob_bulk *bulk = &pull->bulk;
    int64_t left = ob_bulk_left(bulk);
    int status = bulk->interrupted ? OB_EXIT_UNHEALTHY : OB_EXIT_OK;
    if (bulk->tried && !bulk->done && !bulk->interrupted)
        return none_done(pull);
    tell_refusals(pull);
    if (cli->args.json) {
        say_json(pull, bulk->done, left);
        return status;
    }
    ob_cli_note(cli, "%lld %s %s.", (long long)bulk->done, noun(pull, bulk->done), done_word(pull));
    if (left > 0 || bulk->more)
        ob_cli_note(cli, "%sLeft: %s%lld. To go on, run the command again%s%s.",
                    bulk->interrupted ? "Interrupted. " : "", bulk->more ? "more than " : "", (long long)left,
                    bulk->operation.run ? " with --run " : "", bulk->operation.run ? bulk->operation.run : "");
    return status;
}

/* ---- the act ----------------------------------------------------------------------------------------------------- */

static int would(struct pull *pull, int64_t count)
{
    const struct ob_bulk *bulk = &pull->bulk;
    if (pull->cli->args.json)
        say_json(pull, count, bulk->total - count);
    else
        ob_cli_note(pull->cli, "Would %s %s%lld %s. Nothing was changed.", ob_lever_name(bulk->operation.lever),
                    bulk->more ? "more than " : "", (long long)count, noun(pull, count));
    return OB_EXIT_OK;
}

static int act(struct pull *pull, bool by_filter)
{
    struct ob_cli *cli = pull->cli;
    struct ob_bulk *bulk = &pull->bulk;
    bool asks = (by_filter || pull->lever->always_ask) && !cli->args.yes;
    if (ob_bulk_find(bulk, OB_MOST(operate), by_filter && (asks || cli->args.dry_run) ? show_row : NULL, pull,
                     &cli->err))
        return ob_cli_fail(cli);
    if (bulk->interrupted)
        return ob_cli_usage(cli, "interrupted; nothing was changed");
    if (bulk->total == 0)
        return none_matched(pull);
    int64_t count = bulk->limit && bulk->limit < bulk->total ? bulk->limit : bulk->total;
    tell_sample_end(pull);
    if (cli->args.dry_run)
        return would(pull, count);
    if (asks && !ob_cli_confirm(cli, "%s %s%lld %s?", pull->lever->title, bulk->more ? "more than " : "",
                                (long long)count, noun(pull, count)))
        return OB_EXIT_USAGE;
    if (ob_bulk_run(bulk, &cli->err)) {
        if (bulk->done)
            ob_cli_note(cli, "%lld %s before this:", (long long)bulk->done, done_word(pull));
        return ob_cli_fail(cli);
    }
    return say_end(pull);
}

/* A run's name: when it began, and a number, so that two do not meet. */
static void name_run(struct pull *pull)
{
    struct tm tm;
    time_t now = time(NULL);
    const char *given = pull->cli->args.run;
    if (pull->bulk.operation.lever != OB_LEVER_REDELIVER)
        return;
    size_t len = strftime(pull->run, sizeof pull->run, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    snprintf(pull->run + len, sizeof pull->run - len, "-%ld", (long)getpid());
    pull->bulk.operation.run = given ? given : pull->run;
}

static int check(struct pull *pull)
{
    struct ob_cli *cli = pull->cli;
    const struct ob_args *args = &cli->args;
    struct ob_bulk *bulk = &pull->bulk;
    int status = ob_cli_filter(cli, &bulk->filter);
    if (status)
        return status;
    struct ob_filter rest = bulk->filter;
    rest.ids = NULL;
    bool selects = ob_filter_selects(&rest) || args->all;
    const char *usual = ob_lever_status(bulk->operation.lever) == OB_DEAD ? "dead letters" : "messages";
    if (bulk->filter.ids && selects)
        return ob_cli_usage(cli, "give ids or a filter, not both");
    if (!bulk->filter.ids && !selects)
        return ob_cli_usage(cli, "no %s selected: give ids, a filter such as topic:orders.*, or --all", usual);
    if (args->all && !bulk->filter.status_plus_1)
        bulk->filter.status_plus_1 = (int)ob_lever_status(bulk->operation.lever) + 1;
    bulk->limit = bulk->filter.limit;
    bulk->filter.limit = 0;
    if (args->rate && !ob_value_rate(args->rate, &bulk->rate, &bulk->period_us))
        return ob_cli_usage(cli, "--rate takes a number per time, such as 100/s, not \"%s\"", args->rate);
    if (pull->lever->moves && !args->to)
        return ob_cli_usage(cli, "give the topic to move to: --to TOPIC");
    bulk->operation.topic = args->to;
    bulk->operation.name_space = args->to_namespace;
    return ob_bulk_check(bulk, &cli->err) ? ob_cli_usage(cli, "%s", cli->err.text) : OB_EXIT_OK;
}

int ob_cli_lever(struct ob_cli *cli, const struct ob_cli_lever *lever)
{
    struct pull pull = {.cli = cli, .lever = lever};
    struct sigaction watch = {.sa_handler = on_interrupt}, before;
    struct ob_bulk *bulk = &pull.bulk;
    ob_buf_init(&bulk->ids);
    bulk->operation = (struct ob_operation){.lever = lever->lever, .actor = ob_cli_actor(cli)};
    bulk->stop = is_interrupted;
    bulk->progress = show_progress;
    bulk->ctx = &pull;
    int status = check(&pull);
    if (status)
        return status;
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    bulk->store = cli->store;
    name_run(&pull);
    status = ob_cli_known_topic(cli, bulk->filter.name_space, bulk->filter.topic, false);
    if (!status && lever->moves && !cli->args.force)
        status = ob_cli_known_topic(cli, cli->args.to_namespace, cli->args.to, true);
    if (status)
        return status;
    sigaction(SIGINT, &watch, &before);
    status = act(&pull, !bulk->filter.ids);
    sigaction(SIGINT, &before, NULL);
    ob_bulk_fini(bulk);
    return status;
}

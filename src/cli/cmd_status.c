/* cmd_status.c - the queue by topic; the relays and their sinks; what operators paused and tuned. */
#include "cli/cli.h"

#include "base/clock.h"

#include <string.h>

struct totals {
    struct ob_cli *cli;
    int64_t topics, pending, dead;
};

static void say_failure(struct ob_cli *cli, const struct ob_status_row *row)
{
    char age[32];
    ob_age_text((double)(ob_clock_wall_us() - row->last_error_at_us) / 1e6, age);
    printf("  last error %s ago: ", age);
    if (row->last_code)
        ob_say_text(cli, row->last_code, 0, OB_COLOR_NONE);
    if (row->last_error) {
        fputs(row->last_code ? ": " : "", stdout);
        ob_say_text(cli, row->last_error, 0, OB_COLOR_NONE);
    }
    putchar('\n');
}

static void status_line(struct ob_cli *cli, const struct ob_status_row *row)
{
    char name[400], age[32] = "-", dead[32];
    snprintf(name, sizeof name, "%s/%s", row->name_space, row->topic);
    if (row->oldest_undelivered_s > 0)
        ob_age_text(row->oldest_undelivered_s, age);
    ob_say_text(cli, name, 32, OB_COLOR_NONE);
    printf(" %9lld %9lld %9lld %10lld ", (long long)row->pending, (long long)row->due, (long long)row->retrying,
           (long long)row->processing);
    snprintf(dead, sizeof dead, "%9lld", (long long)row->dead);
    ob_say_text(cli, dead, 0, row->dead ? OB_COLOR_RED : OB_COLOR_NONE);
    printf(" %9s", age);
    if (row->paused)
        ob_say_text(cli, "  paused", 0, OB_COLOR_YELLOW);
    if (row->stuck)
        printf("  %lld stuck", (long long)row->stuck);
    if (row->parked)
        printf("  %lld waiting for an earlier message of the key", (long long)row->parked);
    if (row->delayed)
        printf("  %lld delayed", (long long)row->delayed);
    if (row->estimated)
        ob_say_text(cli, "  counts are estimates", 0, OB_COLOR_DIM);
    putchar('\n');
    if (row->last_code || row->last_error)
        say_failure(cli, row);
}

static bool status_row(void *ctx, const struct ob_status_row *row)
{
    struct totals *totals = ctx;
    if (totals->topics++ == 0)
        printf("%-32s %9s %9s %9s %10s %9s %9s\n", "TOPIC", "PENDING", "DUE", "RETRYING", "PROCESSING", "DEAD",
               "OLDEST");
    totals->pending += row->pending;
    totals->dead += row->dead;
    status_line(totals->cli, row);
    return true;
}

/* Prints the actual location of the store, not the URL as typed: parts of it may come from the environment. */
static void say_place(struct ob_cli *cli)
{
    struct ob_store_place place;
    struct ob_buf text = OB_BUF_INIT;
    cli->store->ops->place(cli->store, &place);
    ob_buf_puts(&text, cli->store->ops->kind);
    if (place.file)
        ob_buf_printf(&text, " %s", place.file);
    if (place.database)
        ob_buf_printf(&text, " database %s", place.database);
    if (place.host)
        ob_buf_printf(&text, " on %s%s%s", place.host, place.port ? " port " : "", place.port ? place.port : "");
    if (place.user)
        ob_buf_printf(&text, " as %s", place.user);
    if (place.schema)
        ob_buf_printf(&text, ", schema %s", place.schema);
    ob_say_text(cli, ob_buf_text(&text), 0, OB_COLOR_DIM);
    putchar('\n');
    ob_buf_fini(&text);
}

/* ---- what operators changed ---- */

struct known {
    struct ob_pauses pauses;
    struct ob_tunings tunings;
    struct ob_relays *relays;
};

static void say_changed(struct ob_cli *cli, const char *what, const char *text, bool first)
{
    if (first)
        printf("\n%s\n", what);
    fputs("  ", stdout);
    ob_say_text(cli, text, 0, OB_COLOR_YELLOW);
    putchar('\n');
}

static void say_pauses(struct ob_cli *cli, const struct ob_pauses *pauses)
{
    for (size_t i = 0; i < pauses->count; i++) {
        struct ob_buf text = OB_BUF_INIT;
        ob_pause_text(&text, &pauses->items[i]);
        ob_by_text(&text, pauses->items[i].actor, pauses->items[i].reason, pauses->items[i].at_us);
        say_changed(cli, "PAUSED (to resume: outbox resume with the same options)", ob_buf_text(&text), i == 0);
        ob_buf_fini(&text);
    }
}

static void say_tunings(struct ob_cli *cli, const struct ob_tunings *tunings)
{
    for (size_t i = 0; i < tunings->count; i++) {
        const struct ob_tuning_row *row = &tunings->rows[i];
        struct ob_buf text = OB_BUF_INIT;
        bool off = row->name && row->value && strcmp(row->name, "enabled") == 0 && strcmp(row->value, "off") == 0;
        ob_buf_printf(&text, "%s = %s%s", row->name, row->value, off ? ", so nothing is delivered;" : "");
        ob_by_text(&text, row->actor, row->reason, row->at_us);
        say_changed(cli, "TUNED (to undo: outbox tune NAME --reset)", ob_buf_text(&text), i == 0);
        ob_buf_fini(&text);
    }
}

static bool read_known(struct ob_cli *cli, struct known *known)
{
    return !ob_pauses_read(cli->store, &known->pauses, &cli->err) &&
           !ob_tunings_read(cli->store, &known->tunings, &cli->err) &&
           !ob_relays_read(cli->store, &known->relays, &cli->err);
}

static int say_status(struct ob_cli *cli, const struct known *known)
{
    struct totals totals = {.cli = cli};
    say_place(cli);
    if (cli->store->ops->status(cli->store, status_row, &totals, &cli->err))
        return ob_cli_fail(cli);
    ob_relays_say(cli, known->relays);
    say_pauses(cli, &known->pauses);
    say_tunings(cli, &known->tunings);
    if (totals.topics == 0)
        ob_cli_note(cli, "No message was ever enqueued here. Try: outbox send hello '{\"world\": 1}'");
    else if (totals.dead)
        ob_cli_note(cli, "Dead letters to retry or discard: outbox list --status dead");
    if (totals.pending && ob_relays_alive(known->relays) == 0)
        ob_cli_note(cli, "No relay is running: start one with: outbox run");
    return OB_EXIT_OK;
}

static int json_status(struct ob_cli *cli)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    if (ob_report_status(cli->store, &json, &cli->err)) {
        ob_buf_fini(&buf);
        return ob_cli_fail(cli);
    }
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

int cmd_status(struct ob_cli *cli)
{
    struct known known = {0};
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    if (cli->args.json)
        return json_status(cli);
    int status = read_known(cli, &known) ? say_status(cli, &known) : ob_cli_fail(cli);
    ob_pauses_fini(&known.pauses);
    ob_tunings_fini(&known.tunings);
    ob_relays_free(known.relays);
    return status;
}

/* cmd_status.c - the queue by topic; the relays and their sinks; what operators paused and tuned. */
#include "cli/cli.h"

#include "base/clock.h"

#include <string.h>

enum { TUNINGS_MOST = 200 };

struct totals {
    struct ob_cli *cli;
    struct ob_json *json; /* NULL: a table */
    int64_t topics, pending, due, delayed, retrying, processing, stuck, parked, dead, dead_last_hour;
    double oldest, oldest_undelivered;
    bool estimated;
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
    if (totals->topics++ == 0 && !totals->json)
        printf("%-32s %9s %9s %9s %10s %9s %9s\n", "TOPIC", "PENDING", "DUE", "RETRYING", "PROCESSING", "DEAD",
               "OLDEST");
    totals->pending += row->pending;
    totals->due += row->due;
    totals->delayed += row->delayed;
    totals->retrying += row->retrying;
    totals->estimated = totals->estimated || row->estimated;
    if (row->oldest_undelivered_s > totals->oldest_undelivered)
        totals->oldest_undelivered = row->oldest_undelivered_s;
    totals->processing += row->processing;
    totals->stuck += row->stuck;
    totals->parked += row->parked;
    totals->dead += row->dead;
    totals->dead_last_hour += row->dead_last_hour;
    if (row->oldest_due_s > totals->oldest)
        totals->oldest = row->oldest_due_s;
    if (!totals->json) {
        status_line(totals->cli, row);
        return true;
    }
    struct ob_json *json = totals->json;
    ob_json_object(json);
    ob_json_text(json, "namespace", row->name_space);
    ob_json_text(json, "topic", row->topic);
    ob_json_count(json, "pending", row->pending);
    ob_json_count(json, "due", row->due);
    ob_json_count(json, "delayed", row->delayed);
    ob_json_count(json, "retrying", row->retrying);
    ob_json_count(json, "processing", row->processing);
    ob_json_count(json, "stuck", row->stuck);
    ob_json_count(json, "parked", row->parked);
    ob_json_count(json, "dead", row->dead);
    ob_json_count(json, "dead_last_hour", row->dead_last_hour);
    ob_json_key(json, "oldest_due_s");
    ob_json_double(json, row->oldest_due_s);
    ob_json_key(json, "oldest_undelivered_s");
    ob_json_double(json, row->oldest_undelivered_s);
    ob_json_key(json, "estimated"), ob_json_bool(json, row->estimated);
    ob_json_text(json, "last_code", row->last_code);
    ob_json_text(json, "last_error", row->last_error);
    ob_json_time(json, "last_error_at", row->last_error_at_us);
    ob_json_key(json, "paused");
    ob_json_bool(json, row->paused);
    ob_json_end(json);
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

static void json_place(struct ob_cli *cli, struct ob_json *json)
{
    struct ob_store_place place;
    cli->store->ops->place(cli->store, &place);
    ob_json_key(json, "store");
    ob_json_object(json);
    ob_json_text(json, "kind", cli->store->ops->kind);
    ob_json_text(json, "file", place.file);
    ob_json_text(json, "host", place.host);
    ob_json_text(json, "port", place.port);
    ob_json_text(json, "database", place.database);
    ob_json_text(json, "user", place.user);
    ob_json_text(json, "schema", place.schema);
    ob_json_end(json);
}

/* ---- what operators changed ---- */

/* The settings of relays that operators changed. `enabled off` is why nothing is delivered. */
struct tunings {
    struct ob_arena arena;
    struct ob_tuning_row rows[TUNINGS_MOST];
    size_t count;
};

struct known {
    struct ob_pauses pauses;
    struct tunings tunings;
    struct ob_relays *relays;
};

static const char *copy(struct tunings *tunings, const char *text)
{
    return text ? ob_arena_strdup(&tunings->arena, text) : NULL;
}

static void keep_tuning(void *ctx, const struct ob_tuning_row *row)
{
    struct tunings *tunings = ctx;
    if (tunings->count < TUNINGS_MOST)
        tunings->rows[tunings->count++] =
            (struct ob_tuning_row){copy(tunings, row->name), copy(tunings, row->value), copy(tunings, row->actor),
                                   copy(tunings, row->reason), row->at_us};
}

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

static void say_tunings(struct ob_cli *cli, const struct tunings *tunings)
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

static void json_tunings(struct ob_json *json, const struct tunings *tunings)
{
    ob_json_array(json);
    for (size_t i = 0; i < tunings->count; i++) {
        ob_json_object(json);
        ob_json_text(json, "name", tunings->rows[i].name);
        ob_json_text(json, "value", tunings->rows[i].value);
        ob_json_text(json, "actor", tunings->rows[i].actor);
        ob_json_text(json, "reason", tunings->rows[i].reason);
        ob_json_time(json, "at", tunings->rows[i].at_us);
        ob_json_end(json);
    }
    ob_json_end(json);
}

static bool read_known(struct ob_cli *cli, struct known *known)
{
    struct ob_control control = {.ctx = &known->tunings, .tuned = keep_tuning};
    ob_arena_init(&known->tunings.arena, 0);
    return ob_cli_open(cli) && !ob_pauses_read(cli->store, &known->pauses, &cli->err) &&
           !cli->store->ops->control(cli->store, &control, &cli->err) &&
           !ob_relays_read(cli->store, &known->relays, &cli->err);
}

static int say_status(struct ob_cli *cli, const struct known *known)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json = {0};
    struct totals totals = {.cli = cli, .json = cli->args.json ? &json : NULL};
    if (!cli->args.json)
        say_place(cli);
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    json_place(cli, &json);
    ob_json_key(&json, "topics");
    ob_json_array(&json);
    if (cli->store->ops->status(cli->store, status_row, &totals, &cli->err)) {
        ob_buf_fini(&buf);
        return ob_cli_fail(cli);
    }
    ob_json_end(&json);
    ob_json_key(&json, "pauses");
    ob_pauses_json(&json, &known->pauses);
    ob_json_key(&json, "tunings");
    json_tunings(&json, &known->tunings);
    ob_relays_json(&json, known->relays);
    ob_json_count(&json, "pending", totals.pending);
    ob_json_count(&json, "due", totals.due);
    ob_json_count(&json, "delayed", totals.delayed);
    ob_json_count(&json, "retrying", totals.retrying);
    ob_json_count(&json, "processing", totals.processing);
    ob_json_count(&json, "stuck", totals.stuck);
    ob_json_count(&json, "parked", totals.parked);
    ob_json_count(&json, "dead", totals.dead);
    ob_json_count(&json, "dead_last_hour", totals.dead_last_hour);
    ob_json_key(&json, "oldest_due_s");
    ob_json_double(&json, totals.oldest);
    ob_json_key(&json, "oldest_undelivered_s");
    ob_json_double(&json, totals.oldest_undelivered);
    ob_json_key(&json, "estimated"), ob_json_bool(&json, totals.estimated);
    ob_json_end(&json);
    if (cli->args.json) {
        ob_say_json(&buf);
        return OB_EXIT_OK;
    }
    ob_relays_say(cli, known->relays);
    say_pauses(cli, &known->pauses);
    say_tunings(cli, &known->tunings);
    if (totals.topics == 0)
        ob_cli_note(cli, "No message was ever enqueued here. Try: outbox send hello '{\"world\": 1}'");
    else if (totals.dead)
        ob_cli_note(cli, "Dead letters to retry or discard: outbox list --status dead");
    if (totals.pending && ob_relays_alive(known->relays) == 0)
        ob_cli_note(cli, "No relay is running: start one with: outbox run");
    ob_buf_fini(&buf);
    return OB_EXIT_OK;
}

int cmd_status(struct ob_cli *cli)
{
    struct known known = {0};
    int status = read_known(cli, &known) ? say_status(cli, &known) : ob_cli_fail(cli);
    ob_pauses_fini(&known.pauses);
    ob_arena_fini(&known.tunings.arena);
    ob_relays_free(known.relays);
    return status;
}

/* cmd_status.c - the queue by topic. */
#include "cli/cli.h"

struct totals {
    struct ob_cli *cli;
    struct ob_json *json; /* NULL: a table */
    int64_t topics, pending, due, delayed, processing, stuck, parked, dead;
    double oldest;
};

static void status_line(struct ob_cli *cli, const struct ob_status_row *row)
{
    char name[400], age[32] = "-";
    snprintf(name, sizeof name, "%s/%s", row->name_space, row->topic);
    if (row->due)
        ob_age_text(row->oldest_due_s, age);
    ob_say_text(cli, name, 32, OB_COLOR_NONE);
    printf(" %9lld %10lld ", (long long)row->pending, (long long)row->processing);
    char dead[32];
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
    putchar('\n');
}

static bool status_row(void *ctx, const struct ob_status_row *row)
{
    struct totals *totals = ctx;
    if (totals->topics++ == 0 && !totals->json)
        printf("%-32s %9s %10s %9s %9s\n", "TOPIC", "PENDING", "PROCESSING", "DEAD", "AGE");
    totals->pending += row->pending;
    totals->due += row->due;
    totals->delayed += row->delayed;
    totals->processing += row->processing;
    totals->stuck += row->stuck;
    totals->parked += row->parked;
    totals->dead += row->dead;
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
    ob_json_count(json, "processing", row->processing);
    ob_json_count(json, "stuck", row->stuck);
    ob_json_count(json, "parked", row->parked);
    ob_json_count(json, "dead", row->dead);
    ob_json_key(json, "oldest_due_s");
    ob_json_double(json, row->oldest_due_s);
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

static void note_pauses(const struct ob_cli *cli, const struct ob_pauses *pauses)
{
    struct ob_buf text = OB_BUF_INIT;
    ob_pauses_text(&text, pauses, NULL);
    ob_cli_note(cli, "Paused: %s. To resume: outbox resume with the same options", ob_buf_text(&text));
    ob_buf_fini(&text);
}

static int say_status(struct ob_cli *cli, const struct ob_pauses *pauses)
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
    ob_pauses_json(&json, pauses);
    ob_json_count(&json, "pending", totals.pending);
    ob_json_count(&json, "due", totals.due);
    ob_json_count(&json, "delayed", totals.delayed);
    ob_json_count(&json, "processing", totals.processing);
    ob_json_count(&json, "stuck", totals.stuck);
    ob_json_count(&json, "parked", totals.parked);
    ob_json_count(&json, "dead", totals.dead);
    ob_json_key(&json, "oldest_due_s");
    ob_json_double(&json, totals.oldest);
    ob_json_end(&json);
    if (cli->args.json)
        ob_say_json(&buf);
    else if (totals.topics == 0)
        ob_cli_note(cli, "No message was ever enqueued here. Try: outbox send hello '{\"world\": 1}'");
    else if (totals.dead)
        ob_cli_note(cli, "Dead letters to retry or discard: outbox list --status dead");
    if (pauses->count && !cli->args.json)
        note_pauses(cli, pauses);
    ob_buf_fini(&buf);
    return OB_EXIT_OK;
}

int cmd_status(struct ob_cli *cli)
{
    struct ob_pauses pauses = {0};
    int status = !ob_cli_open(cli) || ob_pauses_read(cli->store, &pauses, &cli->err) ? ob_cli_fail(cli)
                                                                                     : say_status(cli, &pauses);
    ob_pauses_fini(&pauses);
    return status;
}

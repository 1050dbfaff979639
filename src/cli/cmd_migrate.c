/* cmd_migrate.c - init and migrate. */
#include "cli/cli.h"

#include "base/clock.h"
#include "lib/migrate.h"

#include <string.h>

static const char *const roles[] = {"producer", "relay", "operator", "auditor", "tenant",
                                    "owner",    "api",   "hooks",    "nobody"};

static const char *schema_of(const struct ob_cli *cli)
{
    return cli->schema ? cli->schema : "outbox";
}

/* What a run did: printed as it happens, or collected for --json. */
struct told {
    struct ob_cli *cli;
    struct ob_json *json; /* NULL: print */
    struct ob_json adopted;
    int count, pending, broken;
};

static void applied(void *ctx, const struct ob_migration_row *row)
{
    struct told *told = ctx;
    told->count++;
    if (!told->json) {
        ob_cli_note(told->cli, "%s %s", told->cli->args.dry_run ? "would apply" : "applied", row->name);
        return;
    }
    ob_json_object(told->json);
    ob_json_key(told->json, "version");
    ob_json_int(told->json, row->version);
    ob_json_text(told->json, "name", row->name);
    ob_json_end(told->json);
}

static void adopted(void *ctx, const char *statement)
{
    struct told *told = ctx;
    if (told->json)
        ob_json_string(&told->adopted, statement);
    else
        ob_cli_note(told->cli, "%s %s", told->cli->args.dry_run ? "would adopt:" : "adopting:", statement);
}

static int fail_with_url(struct ob_cli *cli)
{
    char shown[160];
    struct outbox_error err = cli->err;
    ob_url_redact(cli->url, shown, sizeof shown);
    ob_error_set_sqlstate(&cli->err, err.code, err.sqlstate, "%s: %s", shown, err.text);
    return ob_cli_fail(cli);
}

static void json_schema(struct ob_json *json, const struct ob_cli *cli)
{
    ob_json_text(json, "schema", ob_url_kind(cli->url) == OB_URL_POSTGRES ? schema_of(cli) : NULL);
}

static void json_roles(struct ob_json *json, const struct ob_cli *cli)
{
    ob_json_key(json, "roles");
    ob_json_array(json);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0] && ob_url_kind(cli->url) == OB_URL_POSTGRES; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s_%s", schema_of(cli), roles[i]);
        ob_json_string(json, name);
    }
    ob_json_end(json);
}

static void tell_end(struct ob_cli *cli, int count)
{
    bool postgres = ob_url_kind(cli->url) == OB_URL_POSTGRES;
    if (cli->args.dry_run)
        ob_cli_note(cli, count ? "All of that ran in a transaction that was rolled back: nothing was changed."
                               : "Nothing to apply: the schema is up to date.");
    else if (count == 0)
        ob_cli_note(cli, "Nothing to apply: the schema is up to date.");
    if (count == 0 || !postgres)
        return;
    ob_cli_note(cli, "Roles of the schema \"%s\", to grant to your own roles:", schema_of(cli));
    static const char *const may[] = {"may enqueue", "may claim and settle", "may retry, discard, pause, configure",
                                      "may read everything", "may read its own tenant's rows"};
    for (size_t i = 0; i < sizeof may / sizeof may[0]; i++)
        ob_cli_note(cli, "  %s_%-10s %s", schema_of(cli), roles[i], may[i]);
}

static int run_migrations(struct ob_cli *cli, bool create)
{
    struct ob_buf buf = OB_BUF_INIT, statements = OB_BUF_INIT;
    struct ob_json json = {0};
    struct told told = {.cli = cli, .json = cli->args.json ? &json : NULL};
    struct ob_open open = {.schema = cli->schema, .create = create};
    struct ob_migrate how = {
        .dry_run = cli->args.dry_run, .adopt = cli->args.adopt, .adopted = adopted, .applied = applied, .ctx = &told};
    ob_json_init(&told.adopted, &statements);
    ob_json_array(&told.adopted);
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    json_schema(&json, cli);
    ob_json_key(&json, "dry_run");
    ob_json_bool(&json, cli->args.dry_run);
    ob_json_key(&json, "applied");
    ob_json_array(&json);
    if (ob_store_migrate(cli->url, &open, &how, &cli->err)) {
        ob_buf_fini(&buf);
        ob_buf_fini(&statements);
        return fail_with_url(cli);
    }
    ob_json_end(&json);
    ob_json_end(&told.adopted);
    ob_json_key(&json, "adopted");
    ob_json_raw(&json, ob_buf_text(&statements), statements.len);
    ob_buf_fini(&statements);
    json_roles(&json, cli);
    ob_json_end(&json);
    if (cli->args.json)
        ob_say_json(&buf);
    else
        tell_end(cli, told.count);
    ob_buf_fini(&buf);
    return OB_EXIT_OK;
}

/* ---- --status ---------------------------------------------------------------------------------------------------- */

static const char *const state_names[] = {"pending", "applied", "drifted", "newer"};

static void list_one(void *ctx, const struct ob_migration_row *row)
{
    struct told *told = ctx;
    told->count++;
    told->pending += row->state == OB_MIGRATION_PENDING;
    told->broken += row->state == OB_MIGRATION_DRIFTED || row->state == OB_MIGRATION_NEWER;
    if (told->json) {
        ob_json_object(told->json);
        ob_json_key(told->json, "version");
        ob_json_int(told->json, row->version);
        ob_json_text(told->json, "name", row->name);
        ob_json_text(told->json, "state", state_names[row->state]);
        ob_json_time(told->json, "applied_at", row->applied_at_us);
        ob_json_text(told->json, "applied_by", row->applied_by);
        ob_json_end(told->json);
        return;
    }
    char at[OB_CLOCK_TEXT] = "";
    if (row->applied_at_us)
        ob_clock_format(row->applied_at_us, at);
    ob_say_text(told->cli, row->name, 24, OB_COLOR_NONE);
    ob_say_text(told->cli, state_names[row->state], row->applied_at_us ? 10 : 0,
                row->state == OB_MIGRATION_APPLIED   ? OB_COLOR_GREEN
                : row->state == OB_MIGRATION_PENDING ? OB_COLOR_YELLOW
                                                     : OB_COLOR_RED);
    if (row->applied_at_us)
        ob_say_text(told->cli, at, row->applied_by ? 29 : 0, OB_COLOR_DIM);
    if (row->applied_by)
        ob_say_text(told->cli, row->applied_by, 0, OB_COLOR_DIM);
    putchar('\n');
}

static int show_status(struct ob_cli *cli)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json = {0};
    struct told told = {.cli = cli, .json = cli->args.json ? &json : NULL};
    struct ob_open open = {.schema = cli->schema};
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    json_schema(&json, cli);
    ob_json_key(&json, "migrations");
    ob_json_array(&json);
    if (ob_store_migrate_status(cli->url, &open, list_one, &told, &cli->err)) {
        ob_buf_fini(&buf);
        return fail_with_url(cli);
    }
    ob_json_end(&json);
    bool current = told.pending == 0 && told.broken == 0;
    ob_json_key(&json, "up_to_date");
    ob_json_bool(&json, current);
    ob_json_end(&json);
    if (cli->args.json)
        ob_say_json(&buf);
    else if (told.broken)
        ob_cli_note(cli, "The schema was changed by hand or by a newer version of Outbox. Use that version.");
    else if (told.pending)
        ob_cli_note(cli, "%d of %d are pending. Run: outbox migrate", told.pending, told.count);
    ob_buf_fini(&buf);
    return current ? OB_EXIT_OK : OB_EXIT_UNHEALTHY;
}

/* ---- --print ----------------------------------------------------------------------------------------------------- */

static void print_one(void *ctx, const char *name, const char *text)
{
    (void)ctx;
    printf("\n-- ======== %s\n\n%s", name, text);
    size_t len = strlen(text);
    if (len == 0 || text[len - 1] != '\n')
        putchar('\n');
}

static int print_all(struct ob_cli *cli)
{
    if (!ob_cli_find_store(cli))
        return ob_cli_fail(cli);
    enum ob_url kind = cli->url ? ob_url_kind(cli->url) : OB_URL_POSTGRES;
    if (cli->args.json)
        return ob_cli_usage(cli, "--print writes SQL, not JSON");
    printf("-- The schema of Outbox %s. Feed it to psql or sqlite3, or let `outbox migrate` run it.\nbegin;\n",
           outbox_version());
    if (ob_store_migrate_print(kind, cli->schema, print_one, NULL, &cli->err))
        return ob_cli_fail(cli);
    puts("commit;");
    return OB_EXIT_OK;
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

int cmd_migrate(struct ob_cli *cli)
{
    if (cli->args.show_status + cli->args.dry_run + cli->args.print > 1)
        return ob_cli_usage(cli, "--status, --dry-run and --print are mutually exclusive");
    if (cli->args.print)
        return print_all(cli);
    if (!ob_cli_has_store(cli))
        return ob_cli_fail(cli);
    return cli->args.show_status ? show_status(cli) : run_migrations(cli, false);
}

int cmd_init(struct ob_cli *cli)
{
    if (cli->args.rest_count == 1) {
        if (cli->args.store)
            return ob_cli_usage(cli, "the store is given twice: as an argument and with --store");
        cli->url = cli->args.rest[0];
        ob_cli_warn_password(cli, "the URL", cli->url);
    }
    if (!ob_cli_has_store(cli))
        return ob_cli_fail(cli);
    int status = run_migrations(cli, true);
    if (status == OB_EXIT_OK && !cli->args.json) {
        char shown[160];
        ob_url_redact(cli->url, shown, sizeof shown);
        ob_cli_note(cli,
                    "Ready. Next steps:\n"
                    "  export OUTBOX_STORE='%s'\n"
                    "  outbox send hello '{\"world\": 1}'\n"
                    "  outbox status",
                    shown);
    }
    return status;
}

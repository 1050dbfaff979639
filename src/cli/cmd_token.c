/* cmd_token.c - tokens of the admin API: create, list and revoke them. The text of a token is printed once and kept nowhere. */
#include "cli/cli.h"

#include "base/clock.h"
#include "core/names.h"
#include "lib/token.h"

#include <string.h>

/* "90d" is from now on, as "+90d"; a date is itself. Returns 0, or the exit status after it printed the error. */
static int read_expiry(struct ob_cli *cli, int64_t *at_us)
{
    const char *text = cli->args.expires;
    *at_us = 0;
    if (!text)
        return OB_EXIT_OK;
    if (ob_when_to_come(text, ob_clock_wall_us(), at_us))
        return OB_EXIT_OK;
    return ob_cli_usage(cli, "--expires takes a time such as 90d, 12h or 2030-01-31T00:00:00Z, not \"%s\"", text);
}

static int create(struct ob_cli *cli, const char *name)
{
    struct ob_token token = {.name = name, .role = ob_role_find(cli->args.role), .tenant_id = cli->args.tenant};
    struct ob_actor actor = ob_cli_actor(cli);
    char text[OB_TOKEN_TEXT];
    if (token.role == OB_ROLE_NONE)
        return ob_cli_usage(cli, "--role takes viewer (reads), operator (also retries, pauses ...) or admin (also "
                                 "tokens and settings)");
    int status = read_expiry(cli, &token.expires_at_us);
    if (status)
        return status;
    if (!ob_cli_open(cli) || ob_token_create(cli->store, &token, &actor, text, &cli->err))
        return ob_cli_fail(cli);
    if (!cli->args.json) {
        printf("%s\n", text);
        ob_cli_note(cli, "This is the only time that it is shown. Send it as: Authorization: Bearer TOKEN");
        return OB_EXIT_OK;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "token", text);
    ob_json_text(&json, "name", name);
    ob_json_text(&json, "role", cli->args.role);
    ob_json_text(&json, "tenant_id", token.tenant_id);
    ob_json_time(&json, "expires_at", token.expires_at_us);
    ob_json_end(&json);
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

static int revoke(struct ob_cli *cli, const char *name)
{
    struct ob_actor actor = ob_cli_actor(cli);
    if (!ob_cli_open(cli) || cli->store->ops->token_revoke(cli->store, name, &actor, &cli->err))
        return ob_cli_fail(cli);
    if (!cli->args.json) {
        ob_cli_note(cli, "The token %s is revoked.", name);
        return OB_EXIT_OK;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "name", name);
    ob_json_key(&json, "revoked"), ob_json_bool(&json, true);
    ob_json_end(&json);
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

/* ---- the list ---- */

struct listing {
    struct ob_cli *cli;
    size_t count;
};

static const char *state_of(const struct ob_token_row *row)
{
    if (row->revoked_at_us)
        return "revoked";
    return row->expires_at_us && row->expires_at_us <= ob_clock_wall_us() ? "expired" : "valid";
}

static bool list_row(void *ctx, const struct ob_token_row *row)
{
    struct listing *listing = ctx;
    struct ob_cli *cli = listing->cli;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    char at[OB_CLOCK_TEXT] = "-";
    if (cli->args.json) {
        ob_json_init(&json, &buf);
        ob_json_token(&json, row);
        ob_say_json(&buf);
        return true;
    }
    if (listing->count++ == 0)
        printf("%-24s %-9s %-8s %-21s %s\n", "TOKEN", "ROLE", "STATE", "USED", "TENANT, BY");
    ob_say_text(cli, row->name, 24, OB_COLOR_NONE);
    printf(" %-9s ", row->role);
    ob_say_text(cli, state_of(row), 8, row->revoked_at_us ? OB_COLOR_DIM : OB_COLOR_NONE);
    if (row->used_at_us)
        ob_clock_format(row->used_at_us, at);
    printf(" %-21.19s ", at);
    ob_say_text(cli, row->tenant_id, 0, OB_COLOR_NONE);
    fputs(", ", stdout);
    ob_say_text(cli, row->created_by, 0, OB_COLOR_NONE);
    putchar('\n');
    return true;
}

int cmd_token(struct ob_cli *cli)
{
    const char *verb = cli->args.rest[0], *name = cli->args.rest_count > 1 ? cli->args.rest[1] : NULL;
    struct listing listing = {.cli = cli};
    if (strcmp(verb, "create") == 0 && name)
        return create(cli, name);
    if (strcmp(verb, "revoke") == 0 && name)
        return revoke(cli, name);
    if (strcmp(verb, "list") != 0 || name)
        return ob_cli_usage(cli, "token takes: create NAME --role ROLE, list, or revoke NAME");
    if (!ob_cli_open(cli) || cli->store->ops->tokens(cli->store, list_row, &listing, &cli->err))
        return ob_cli_fail(cli);
    if (!cli->args.json && listing.count == 0)
        ob_cli_note(cli, "There are no tokens. Make one with: outbox token create NAME --role viewer");
    return OB_EXIT_OK;
}

/* cmd_errors.c - what fails and why: dead letters and messages that wait after a failure, grouped. */
#include "cli/cli.h"

#include "base/clock.h"
#include "core/fingerprint.h"

#include <string.h>

enum { GROUPS = 20 };

struct listing {
    struct ob_cli *cli;
    int64_t now_us;
    int count;
};

static void say_json(const struct ob_group_row *row)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_group(&json, row);
    ob_say_json(&buf);
}

static void say_age(int64_t now_us, int64_t at_us)
{
    char age[32];
    ob_age_text(now_us > at_us ? (double)(now_us - at_us) / 1e6 : 0, age);
    printf(" %-9s", age);
}

/* ["a","b"] as a, b. Names have no quotes, commas or spaces in them. */
static void say_list(const struct ob_cli *cli, const char *what, const char *list)
{
    struct ob_buf buf = OB_BUF_INIT;
    if (!list || strcmp(list, "[]") == 0)
        return;
    for (const char *c = list; *c; c++)
        if (*c != '[' && *c != ']' && *c != '"' && *c != ' ')
            ob_buf_printf(&buf, *c == ',' ? "%c " : "%c", *c);
    printf("%18s%s ", "", what);
    ob_say_text(cli, ob_buf_text(&buf), 0, OB_COLOR_DIM);
    putchar('\n');
    ob_buf_fini(&buf);
}

static bool say_group(void *ctx, const struct ob_group_row *row)
{
    struct listing *listing = ctx;
    struct ob_cli *cli = listing->cli;
    char number[32];
    if (cli->args.json) {
        say_json(row);
        return true;
    }
    if (!listing->count++)
        printf("%-17s %9s %9s %9s  %-9s %-9s %s\n", "GROUP", "MESSAGES", "DEAD", "RETRYING", "FIRST", "LAST", "ERROR");
    ob_say_text(cli, row->fingerprint, 17, OB_COLOR_BOLD);
    snprintf(number, sizeof number, "%lld%s", (long long)row->count, row->estimated ? "+" : "");
    printf(" %9s %9lld %9lld ", number, (long long)row->dead, (long long)row->retrying);
    say_age(listing->now_us, row->first_seen_us);
    say_age(listing->now_us, row->last_seen_us);
    putchar(' ');
    if (row->code) {
        ob_say_text(cli, row->code, 0, OB_COLOR_RED);
        fputs(": ", stdout);
    }
    ob_say_text(cli, row->sample, 0, OB_COLOR_NONE);
    putchar('\n');
    say_list(cli, "topics", row->topics);
    say_list(cli, "sinks", row->sinks);
    return true;
}

int cmd_errors(struct ob_cli *cli)
{
    struct listing listing = {.cli = cli, .now_us = ob_clock_wall_us()};
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    int limit = cli->args.limit.given && cli->args.limit.value > 0 ? (int)cli->args.limit.value : GROUPS;
    if (cli->store->ops->groups(cli->store, limit, say_group, &listing, &cli->err))
        return ob_cli_fail(cli);
    if (cli->args.json)
        return OB_EXIT_OK;
    if (!listing.count)
        ob_cli_note(cli, "no message is dead or waits after a failure");
    else
        ob_cli_note(cli, "outbox list group:GROUP lists the messages of a group");
    return OB_EXIT_OK;
}

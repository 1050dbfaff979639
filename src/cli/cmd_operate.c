/* cmd_operate.c - acts of operators on messages, and purge. Every act is recorded with who and why. */
#include "cli/levers.h"

int cmd_retry(struct ob_cli *cli)
{
    return ob_cli_lever(cli, &(struct ob_cli_lever){OB_LEVER_RETRY, "Retry", "pending again", false, false});
}

int cmd_discard(struct ob_cli *cli)
{
    return ob_cli_lever(cli, &(struct ob_cli_lever){OB_LEVER_DISCARD, "Discard", "discarded", true, false});
}

int cmd_skip(struct ob_cli *cli)
{
    return ob_cli_lever(cli, &(struct ob_cli_lever){OB_LEVER_SKIP, "Skip", "put aside", false, false});
}

int cmd_redeliver(struct ob_cli *cli)
{
    return ob_cli_lever(
        cli, &(struct ob_cli_lever){OB_LEVER_REDELIVER, "Redeliver", "enqueued again as new messages", false, false});
}

int cmd_expire(struct ob_cli *cli)
{
    return ob_cli_lever(cli, &(struct ob_cli_lever){OB_LEVER_EXPIRE, "Expire", "expired", true, false});
}

int cmd_move(struct ob_cli *cli)
{
    return ob_cli_lever(cli, &(struct ob_cli_lever){OB_LEVER_MOVE, "Move", "moved, as new messages", false, true});
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

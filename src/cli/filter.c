/* filter.c - which messages a command selects: --status, --topic and similar options. */
#include "cli/cli.h"

#include "base/limits.h"
#include "core/names.h"

int ob_cli_filter(struct ob_cli *cli, struct ob_filter *filter)
{
    const struct ob_args *args = &cli->args;
    struct outbox_uuid tenant;
    if (ob_names_check(args->name_space, args->topic, NULL, &cli->err))
        return ob_cli_usage(cli, "%s", cli->err.text);
    *filter = (struct ob_filter){.name_space = args->name_space,
                                 .topic = args->topic,
                                 .tenant_id = args->tenant,
                                 .key = args->key,
                                 .subject = args->subject,
                                 .code = args->code,
                                 .before_us = args->before};
    if (args->tenant && !outbox_uuid_parse(args->tenant, &tenant))
        return ob_cli_usage(cli, "--tenant takes a uuid, not \"%s\"", args->tenant);
    if (args->limit.given && !ob_limit_allows(OB_LIMIT_operate, args->limit.value))
        return ob_cli_usage(cli, "--limit takes %lld to %lld", (long long)OB_LEAST(operate),
                            (long long)OB_MOST(operate));
    filter->limit = args->limit.value;
    filter->status_plus_1 = args->status ? ob_status_find(args->status) : 0;
    if (args->status && !filter->status_plus_1)
        return ob_cli_usage(cli, "--status takes pending, processing, delivered, dead or discarded, not \"%s\"",
                            args->status);
    return OB_EXIT_OK;
}

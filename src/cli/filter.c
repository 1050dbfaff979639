/* filter.c - which messages a command selects: ids, terms of the filter language, and options that stand for terms. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/limits.h"

#include <string.h>

/* Neither a uuid nor a term. */
static int refuse_word(struct ob_cli *cli, const char *word)
{
    if (ob_status_find(word))
        return ob_cli_usage(cli, "unexpected argument \"%s\"; did you mean status:%s?", word, word);
    if (strlen(word) >= OB_FILTER_ID_LEAST && word[strspn(word, "0123456789abcdefABCDEF-")] == '\0')
        return ob_cli_usage(cli, "\"%s\" is not a whole id; for the message whose id begins so, write id:%s", word,
                            word);
    return ob_cli_usage(cli, "\"%s\" is neither a message id (a uuid) nor a term such as topic:orders.*", word);
}

static int take_words(struct ob_cli *cli, struct ob_filter *filter, int64_t now_us)
{
    const struct ob_args *args = &cli->args;
    struct outbox_uuid *ids = ob_arena_calloc(&cli->arena, (size_t)args->rest_count + 1, sizeof *ids);
    if (!ids) {
        ob_error_nomem(&cli->err);
        return ob_cli_fail(cli);
    }
    for (int i = 0; i < args->rest_count; i++) {
        if (outbox_uuid_parse(args->rest[i], &ids[filter->id_count])) {
            filter->ids = ids;
            filter->id_count++;
        } else if (!strchr(args->rest[i], ':')) {
            return refuse_word(cli, args->rest[i]);
        } else if (ob_filter_parse(filter, args->rest[i], now_us, &cli->arena, &cli->err)) {
            return ob_cli_usage(cli, "%s", cli->err.text);
        }
    }
    return OB_EXIT_OK;
}

int ob_cli_filter(struct ob_cli *cli, struct ob_filter *filter)
{
    const struct ob_args *args = &cli->args;
    const struct {
        const char *name, *value;
    } options[] = {
        {"status", args->status}, {"namespace", args->name_space}, {"topic", args->topic}, {"tenant", args->tenant},
        {"key", args->key},       {"subject", args->subject},      {"code", args->code}};
    int64_t now_us = ob_clock_wall_us();
    *filter = (struct ob_filter){.before_us = args->before};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].value &&
            ob_filter_add(filter, options[i].name, options[i].value, now_us, &cli->arena, &cli->err))
            return ob_cli_usage(cli, "--%s: %s", options[i].name, cli->err.text);
    if (args->limit.given && !ob_limit_allows(OB_LIMIT_operate, args->limit.value))
        return ob_cli_usage(cli, "--limit takes %lld to %lld", (long long)OB_LEAST(operate),
                            (long long)OB_MOST(operate));
    filter->limit = args->limit.value;
    return take_words(cli, filter, now_us);
}

/* look.c - one look at the whole outbox, for commands that judge or show it: topics with their sums, relays, sinks, pauses. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/glob.h"

#include <string.h>

enum { FAILURES_FEW = 10 };

struct looking {
    struct ob_look *look;
    const char *name_space, *topic;
};

static const char *copy(struct ob_look *look, const char *text)
{
    const char *copied = text ? ob_arena_strdup(&look->arena, text) : NULL;
    look->failed |= text && !copied;
    return copied;
}

static void add(struct ob_status_row *total, const struct ob_status_row *row)
{
    total->pending += row->pending;
    total->due += row->due;
    total->processing += row->processing;
    total->stuck += row->stuck;
    total->parked += row->parked;
    total->dead += row->dead;
    total->delayed += row->delayed;
    total->retrying += row->retrying;
    total->dead_last_hour += row->dead_last_hour;
    total->estimated |= row->estimated;
    if (row->oldest_due_s > total->oldest_due_s)
        total->oldest_due_s = row->oldest_due_s;
    if (row->oldest_undelivered_s > total->oldest_undelivered_s)
        total->oldest_undelivered_s = row->oldest_undelivered_s;
}

static bool keep_topic(void *ctx, const struct ob_status_row *row)
{
    struct looking *looking = ctx;
    struct ob_look *look = looking->look;
    if ((looking->name_space && !ob_glob_names(looking->name_space, row->name_space)) ||
        (looking->topic && !ob_glob_names(looking->topic, row->topic)))
        return true;
    if (look->count == look->room) {
        size_t room = look->room ? 2 * look->room : 64;
        struct ob_status_row *topics = ob_realloc(look->topics, look->room * sizeof *topics, room * sizeof *topics);
        look->failed |= !topics;
        if (!topics)
            return false;
        look->topics = topics;
        look->room = room;
    }
    struct ob_status_row *kept = &look->topics[look->count++];
    *kept = *row;
    kept->name_space = copy(look, row->name_space);
    kept->topic = copy(look, row->topic);
    kept->last_code = copy(look, row->last_code);
    kept->last_error = copy(look, row->last_error);
    add(&look->total, row);
    return !look->failed;
}

static void count_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct ob_look *look = ctx;
    look->sinks++;
    look->breakers += strcmp(sink->breaker, "closed") != 0;
}

enum outbox_code ob_look_read(struct ob_store *store, const char *name_space, const char *topic, struct ob_look *look,
                              struct outbox_error *err)
{
    struct looking looking = {.look = look, .name_space = name_space, .topic = topic};
    *look = (struct ob_look){.at_us = ob_clock_wall_us()};
    ob_arena_init(&look->arena, 0);
    enum outbox_code code = store->ops->status(store, keep_topic, &looking, err);
    if (!code)
        code = ob_relays_read(store, &look->relays, err);
    if (!code)
        code = ob_pauses_read(store, &look->pauses, err);
    if (code)
        return code;
    if (look->failed)
        return ob_error_nomem(err);
    ob_relays_sinks(look->relays, count_sink, look);
    return OUTBOX_OK;
}

void ob_look_fini(struct ob_look *look)
{
    ob_relays_free(look->relays);
    ob_pauses_fini(&look->pauses);
    ob_free(look->topics);
    ob_arena_fini(&look->arena);
    memset(look, 0, sizeof *look);
}

double ob_look_retry_share(const struct ob_look *look)
{
    int64_t open = look->total.pending + look->total.processing;
    if (look->total.retrying < FAILURES_FEW || open <= 0)
        return 0;
    double share = (double)look->total.retrying / (double)open;
    return share > 1 ? 1 : share;
}

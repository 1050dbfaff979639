/* leftover.c - see leftover.h. */
#include "daemon/leftover.h"

#include "base/glob.h"
#include "config/route.h"

#include <string.h>

static void put(struct ob_leftover *leftover, const struct ob_status_row *row, int64_t count, const char *reason)
{
    if (count <= 0)
        return;
    leftover->left += count;
    if (leftover->row_count++ < OB_LEFTOVER_ROWS)
        leftover->rows[leftover->row_count - 1] =
            (struct ob_leftover_row){ob_arena_strdup(&leftover->arena, row->name_space),
                                     ob_arena_strdup(&leftover->arena, row->topic), reason, count};
}

static int64_t unrouted_of(const struct ob_maintenance_report *report, const struct ob_status_row *row)
{
    for (size_t i = 0; i < report->unrouted_count; i++)
        if (strcmp(report->unrouted[i].topic, row->topic) == 0 &&
            strcmp(report->unrouted[i].name_space, row->name_space) == 0)
            return report->unrouted[i].count;
    return 0;
}

static bool matches(const char *glob, const char *name)
{
    return !glob || ob_glob_match(glob, name);
}

/* Whether every sink that messages of the topic may go to is paused. Which of these sinks a message goes to depends on
 * its headers. */
static bool all_paused(const struct ob_store_loop *store_loop, const struct ob_config *config,
                       const struct ob_status_row *row)
{
    bool any = false;
    for (size_t i = 0; i < config->route_count; i++) {
        const struct ob_config_route *route = &config->routes[i];
        if (!matches(route->name_space, row->name_space) || !matches(route->topic, row->topic))
            continue;
        if (!ob_store_loop_paused(store_loop, route->sink))
            return false;
        any = true;
        if (!route->header_count)
            break; /* later routes get nothing */
    }
    return any;
}

static void read_topic(struct ob_leftover *leftover, const struct ob_store_loop *store_loop,
                       const struct ob_config *config, const struct ob_maintenance_report *report,
                       const struct ob_status_row *row)
{
    int sink = ob_route_lane(config, row->name_space, row->topic);
    leftover->waiting += row->processing;
    if (!ob_store_loop_enabled(store_loop))
        put(leftover, row, row->pending, "the relay is disabled");
    else if (row->paused)
        put(leftover, row, row->pending, "paused by an operator");
    else if (sink == OB_ROUTE_NONE && !config->relay.unrouted_dead)
        put(leftover, row, row->pending, "no route matches");
    else if (sink != OB_ROUTE_NONE && all_paused(store_loop, config, row))
        put(leftover, row, row->pending, "the sink is paused by an operator");
    else {
        int64_t unrouted = sink == OB_ROUTE_BY_HEADERS ? unrouted_of(report, row) : 0;
        int64_t rest = row->pending - row->delayed - row->parked - unrouted;
        put(leftover, row, row->delayed, "due later");
        put(leftover, row, row->parked, "behind a message of the same key");
        put(leftover, row, unrouted, "no route matches the headers");
        leftover->waiting += rest > 0 ? rest : 0;
        leftover->by_headers = leftover->by_headers || (rest > 0 && sink == OB_ROUTE_BY_HEADERS);
    }
}

void ob_leftover_read(struct ob_leftover *leftover, const struct ob_store_loop *store_loop,
                      const struct ob_config *config, const struct ob_maintenance_report *report)
{
    ob_leftover_fini(leftover);
    ob_arena_init(&leftover->arena, 0);
    leftover->known = report->by_topic && ob_store_loop_controlled(store_loop);
    for (size_t i = 0; leftover->known && i < report->topic_count; i++)
        read_topic(leftover, store_loop, config, report, &report->topics[i]);
}

void ob_leftover_fini(struct ob_leftover *leftover)
{
    ob_arena_fini(&leftover->arena);
    *leftover = (struct ob_leftover){0};
}

void ob_leftover_log(const struct ob_leftover *leftover, const char *store, const struct ob_log *log)
{
    for (size_t i = 0; i < leftover->row_count && i < OB_LEFTOVER_ROWS; i++)
        ob_log(log, OB_LOG_INFO, "left in the queue", OB_STR("store", store),
               OB_STR("namespace", leftover->rows[i].name_space), OB_STR("topic", leftover->rows[i].topic),
               OB_INT("messages", leftover->rows[i].count), OB_STR("reason", leftover->rows[i].reason));
    ob_log(log, OB_LOG_INFO, leftover->left ? "nothing more to deliver now" : "nothing left to deliver",
           OB_STR("store", store), OB_INT("left", leftover->left));
}

/* store_loop_lanes.c - which lanes a store loop's claims ask for.
 *
 * A claim asks for all lanes except those whose messages would only be released again: lanes whose only sink is shut (its
 * breaker is open, or it is paused, full or limited), and lanes that match no route, if such messages are to wait. A lane
 * that is not known yet is claimed like any other; the machine decides what happens to its messages. When there are very
 * many lanes to leave out, the claim passes the routes instead, so that its size does not grow with the number of topics. */
#include "daemon/store_loop_int.h"

#include "base/alloc.h"
#include "config/route.h"

#include <string.h>

enum { LANES_FEW = 64, LANES_PER_RULE = 4 };
enum { UNROUTED = -1, BY_HEADERS = -2 };

struct lane {
    struct outbox_lane name;
    int sink; /* or UNROUTED, BY_HEADERS */
};

bool ob_store_loop_lanes_init(struct ob_store_loop *store_loop)
{
    size_t routes = store_loop->set.config->route_count;
    ob_arena_init(&store_loop->names, 0);
    ob_arena_init(&store_loop->told_names, 0);
    store_loop->chosen = ob_calloc(LANES_FEW + LANES_PER_RULE * routes, sizeof *store_loop->chosen);
    store_loop->rules = ob_calloc(routes + 1, sizeof *store_loop->rules);
    return store_loop->chosen && store_loop->rules;
}

void ob_store_loop_lanes_fini(struct ob_store_loop *store_loop)
{
    ob_arena_fini(&store_loop->names);
    ob_arena_fini(&store_loop->told_names);
    ob_free(store_loop->lanes);
    ob_free(store_loop->ends);
    ob_free(store_loop->chosen);
    ob_free(store_loop->rules);
}

/* ---- the lanes of a claim ---- */

static size_t first_lane(const struct ob_store_loop *store_loop, int sink)
{
    return sink == UNROUTED ? 0 : store_loop->ends[sink];
}

static size_t lanes_of(const struct ob_store_loop *store_loop, int sink)
{
    return store_loop->ends ? store_loop->ends[sink + 1] - first_lane(store_loop, sink) : 0;
}

/* The routes as rules. A route with header conditions takes some messages of its lanes, and leaves the others to later
 * routes. rest: also leave out lanes that match no route. */
static size_t make_rules(struct ob_store_loop *store_loop, const bool *shut, bool rest)
{
    const struct ob_config *config = store_loop->set.config;
    size_t count = 0, end = 0;
    for (size_t i = 0; i < config->route_count; i++) {
        const struct ob_config_route *route = &config->routes[i];
        if (route->header_count && shut[route->sink])
            continue;
        store_loop->rules[count++] = (struct outbox_lane_rule){route->name_space, route->topic, shut[route->sink]};
        end = shut[route->sink] ? count : end;
    }
    if (rest) {
        store_loop->rules[count++] = (struct outbox_lane_rule){NULL, NULL, true};
        end = count;
    }
    return end; /* rules after the last skip have no effect */
}

void ob_store_loop_choose_lanes(void *ctx, bool only, const bool *shut, struct outbox_claim *claim)
{
    static const struct outbox_lane none = {"", ""}; /* no lane has these names */
    struct ob_store_loop *store_loop = ctx;
    const struct ob_config *config = store_loop->set.config;
    bool waits = !only && !config->relay.unrouted_dead && lanes_of(store_loop, UNROUTED) > 0;
    size_t count = 0, most = LANES_FEW + LANES_PER_RULE * config->route_count;
    for (int sink = UNROUTED; sink < (int)config->sink_count; sink++) {
        bool named = sink == UNROUTED ? waits : shut[sink] != only;
        size_t some = named ? lanes_of(store_loop, sink) : 0;
        if (count + some > most) {
            claim->rules = store_loop->rules;
            claim->rule_count = make_rules(store_loop, shut, only || waits);
            return;
        }
        for (size_t i = 0; i < some; i++)
            store_loop->chosen[count++] = store_loop->lanes[first_lane(store_loop, sink) + i];
    }
    if (only) {
        claim->only = count > 0 ? store_loop->chosen : &none;
        claim->only_count = count > 0 ? count : 1;
    } else {
        claim->skip = store_loop->chosen;
        claim->skip_count = count;
    }
}

/* ---- lanes ---- */

static bool was_told(const struct ob_store_loop *store_loop, const struct outbox_lane *name)
{
    for (size_t i = 0; i < store_loop->told_count; i++)
        if (strcmp(store_loop->told[i].topic, name->topic) == 0 &&
            strcmp(store_loop->told[i].name_space, name->name_space) == 0)
            return true;
    return false;
}

/* Messages without a route are not even claimed, so nothing else would be logged about them. The first such lanes are
 * logged, each once, and then that there are more. */
static void tell_unrouted(struct ob_store_loop *store_loop, const struct lane *lanes, size_t count)
{
    const struct ob_config *config = store_loop->set.config;
    const char *store = config->stores[store_loop->set.index].name;
    for (size_t i = 0; i < count && !store_loop->told_all && !config->relay.unrouted_dead; i++) {
        const struct outbox_lane *name = &lanes[i].name;
        if (lanes[i].sink != UNROUTED || was_told(store_loop, name))
            continue;
        struct outbox_lane copy = {ob_arena_strdup(&store_loop->told_names, name->name_space),
                                   ob_arena_strdup(&store_loop->told_names, name->topic)};
        store_loop->told_all = store_loop->told_count == OB_UNROUTED_TOLD || !copy.name_space || !copy.topic;
        if (store_loop->told_all) {
            ob_log(store_loop->set.log, OB_LOG_WARN, "more topics match no route: run outbox doctor for the list",
                   OB_STR("store", store));
            return;
        }
        store_loop->told[store_loop->told_count++] = copy;
        ob_log(store_loop->set.log, OB_LOG_WARN, "topic matches no route: its messages wait", OB_STR("store", store),
               OB_STR("namespace", name->name_space), OB_STR("topic", name->topic));
    }
}

/* Groups the lanes by sink; ends has one entry per sink, plus UNROUTED and BY_HEADERS. */
static void sort_lanes(const struct lane *made, size_t count, int sinks, struct outbox_lane *sorted, size_t *ends)
{
    size_t *at = ends; /* during the count: where the next lane of each group goes */
    for (size_t i = 0; i < count; i++)
        at[made[i].sink == BY_HEADERS ? sinks + 1 : made[i].sink + 1]++;
    for (int i = 0, sum = 0; i < sinks + 2; i++) {
        int some = (int)at[i];
        at[i] = (size_t)sum;
        sum += some;
    }
    for (size_t i = 0; i < count; i++)
        sorted[at[made[i].sink == BY_HEADERS ? sinks + 1 : made[i].sink + 1]++] = made[i].name;
}

void ob_store_loop_lanes(struct ob_store_loop *store_loop, const struct outbox_lane *lanes, size_t count)
{
    int sinks = (int)store_loop->set.config->sink_count;
    struct lane *made = ob_calloc(count + 1, sizeof *made);
    struct outbox_lane *sorted = ob_calloc(count + 1, sizeof *sorted);
    size_t *ends = ob_calloc((size_t)sinks + 2, sizeof *ends);
    struct ob_arena names;
    ob_arena_init(&names, 0);
    size_t unrouted = 0;
    bool ok = made && sorted && ends;
    for (size_t i = 0; ok && i < count; i++) {
        made[i].name.name_space = ob_arena_strdup(&names, lanes[i].name_space);
        made[i].name.topic = ob_arena_strdup(&names, lanes[i].topic);
        ok = made[i].name.name_space && made[i].name.topic;
        made[i].sink = ok ? ob_route_lane(store_loop->set.config, lanes[i].name_space, lanes[i].topic) : UNROUTED;
        unrouted += ok && made[i].sink == UNROUTED;
    }
    if (!ok) { /* keep the previous lanes */
        ob_arena_fini(&names);
        ob_free(made);
        ob_free(sorted);
        ob_free(ends);
        return;
    }
    tell_unrouted(store_loop, made, count);
    sort_lanes(made, count, sinks, sorted, ends);
    ob_free(made);
    ob_arena_fini(&store_loop->names);
    ob_free(store_loop->lanes);
    ob_free(store_loop->ends);
    store_loop->names = names;
    store_loop->lanes = sorted;
    store_loop->ends = ends;
    store_loop->unrouted = unrouted;
}

size_t ob_store_loop_unrouted_lanes(const struct ob_store_loop *store_loop)
{
    return store_loop->unrouted;
}

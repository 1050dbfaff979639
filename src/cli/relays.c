/* relays.c - the relays and their sinks as text. */
#include "cli/cli.h"

#include "base/clock.h"

#include <string.h>

enum { SINKS_ALL = 50 }; /* with more of them, status lists only those that have a problem */

static bool is_well(const struct ob_relay_sink *sink)
{
    return strcmp(sink->breaker, "closed") == 0 && !sink->paused && sink->failed == 0 && !sink->limited_until;
}

struct listing {
    struct ob_cli *cli;
    bool all;
    size_t relays, count, shown;
};

static void count_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct listing *listing = ctx;
    (void)sink;
    listing->count++;
}

static void say_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct listing *listing = ctx;
    struct ob_cli *cli = listing->cli;
    bool open = strcmp(sink->breaker, "closed") != 0;
    if (!listing->all && is_well(sink))
        return;
    if (listing->shown++ == 0)
        printf("\n%-20s %-10s %9s %9s  %s\n", "SINK", "BREAKER", "IN FLIGHT", "RATE", "RELAY, LAST ERROR");
    ob_say_text(cli, sink->name, 20, OB_COLOR_NONE);
    putchar(' ');
    ob_say_text(cli, sink->breaker, 10, open ? OB_COLOR_RED : OB_COLOR_GREEN);
    printf(" %9lld %7.1f/s  ", (long long)sink->in_flight, sink->rate);
    ob_say_text(cli, sink->relay, 0, OB_COLOR_DIM);
    struct ob_buf more = OB_BUF_INIT;
    if (sink->paused)
        ob_buf_puts(&more, ", paused");
    if (sink->since)
        ob_buf_printf(&more, ", %s since %.19sZ", sink->cause ? sink->cause : "open", sink->since);
    if (sink->next_probe)
        ob_buf_printf(&more, ", next probe %.19sZ", sink->next_probe);
    if (sink->limited_until)
        ob_buf_printf(&more, ", limited by the receiver until %.19sZ", sink->limited_until);
    if (sink->rate_limit)
        ob_buf_printf(&more, ", at most %s", sink->rate_limit);
    if (sink->failed > 0)
        ob_buf_printf(&more, ", failed %lld times since the last delivery: %s%s%s", (long long)sink->failed,
                      sink->code ? sink->code : "", sink->code && sink->error ? ": " : "",
                      sink->error ? sink->error : "");
    ob_say_text(cli, ob_buf_text(&more), 0, OB_COLOR_NONE);
    putchar('\n');
    ob_buf_fini(&more);
}

static void say_relay(void *ctx, const struct ob_relay_info *relay)
{
    struct listing *listing = ctx;
    struct ob_cli *cli = listing->cli;
    char age[32];
    if (listing->relays++ == 0)
        printf("\n%-32s %-10s %-10s %s\n", "RELAY", "STATE", "VERSION", "SEEN");
    ob_say_text(cli, relay->worker, 32, OB_COLOR_NONE);
    putchar(' ');
    ob_say_text(cli,
                !relay->alive     ? "gone"
                : !relay->enabled ? "disabled"
                                  : relay->state,
                10, relay->alive && relay->enabled ? OB_COLOR_GREEN : OB_COLOR_RED);
    putchar(' ');
    ob_say_text(cli, relay->version, 10, OB_COLOR_NONE);
    ob_age_text((double)(ob_clock_wall_us() - relay->seen_at_us) / 1e6, age);
    printf(" %s ago\n", age);
}

void ob_relays_say(struct ob_cli *cli, const struct ob_relays *relays)
{
    struct listing listing = {.cli = cli};
    ob_relays_each(relays, say_relay, &listing);
    ob_relays_sinks(relays, count_sink, &listing);
    listing.all = listing.count <= SINKS_ALL;
    ob_relays_sinks(relays, say_sink, &listing);
    if (!listing.all)
        printf("%zu more sinks deliver without errors\n", listing.count - listing.shown);
}

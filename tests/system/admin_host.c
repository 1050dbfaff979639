/* admin_host.c - the relay's HTTP without a relay, for test_admin.py.
 *
 *     admin_host LISTEN STALL_MS
 *
 * Says "port N" or "error TEXT", then obeys the lines of stdin, answering each with "ok":
 *   tick | phase N | store NAME ready | store NAME REASON... | forget | count N | observe US | gauges PENDING */
#include "daemon/admin.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ob_metrics *metrics;
static struct ob_health *health;

static void set_store(char *rest)
{
    char *reason = strchr(rest, ' ');
    *reason++ = '\0';
    bool ready = strcmp(reason, "ready") == 0;
    ob_health_set_store(health, rest, ready, ready ? NULL : reason);
}

static void obey(char *line)
{
    char *rest = strchr(line, ' ');
    if (rest)
        *rest++ = '\0';
    if (strcmp(line, "tick") == 0)
        ob_health_tick(health);
    else if (strcmp(line, "phase") == 0)
        ob_health_set_phase(health, (enum ob_health_phase)atoi(rest));
    else if (strcmp(line, "store") == 0)
        set_store(rest);
    else if (strcmp(line, "forget") == 0)
        ob_health_forget_stores(health);
    else if (strcmp(line, "count") == 0)
        ob_series_add(ob_metrics_store(metrics, "shop"), OB_METRIC_claimed, strtoull(rest, NULL, 10));
    else if (strcmp(line, "observe") == 0)
        ob_series_observe(ob_metrics_sink(metrics, "shop", "bill\"ing"), OB_METRIC_delivery, atoll(rest));
    else if (strcmp(line, "gauges") == 0)
        ob_metrics_set_gauges(
            metrics, "shop",
            (struct ob_gauges_row[]){{.pending = atoll(rest), .oldest_due_s = 0.25}, {.name_space = "n", .pending = 1}},
            2);
}

int main(int argc, char **argv)
{
    struct ob_log log = {.level = OB_LOG_OFF};
    struct ob_admin *admin = NULL;
    struct outbox_error err = {0};
    char line[512];
    if (argc != 3)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    metrics = ob_metrics_new("9.9.9");
    health = ob_health_new(atoll(argv[2]) * 1000);
    struct ob_admin_options options = {argv[1], metrics, health, &log};
    if (ob_admin_start(&options, &admin, &err))
        printf("error %d %s\n", (int)err.code, err.text);
    else
        printf("port %d\n", ob_admin_port(admin));
    while (admin && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
        printf("ok\n");
    }
    ob_admin_stop(admin);
    ob_health_free(health);
    ob_metrics_free(metrics);
    return 0;
}

/* cmd_check.c - one line and an exit status for Nagios, cron and Kubernetes: is the outbox well?
 *
 * It always ends: the server cancels a statement that takes too long, and an alarm ends the process if nothing else does. An outbox that
 * cannot be reached in that time is critical. What cannot be judged, such as a missing schema or a wrong threshold, is unknown. */
#include "cli/check.h"

#include "base/value.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { TIMEOUT_S = 10, TIMEOUT_MOST_S = 600 };

static const char *const level_names[] = {"ok", "warning", "critical", "unknown"};
static const char *const level_words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

/* One thing that is checked. */
enum form { DURATION, COUNT, PERCENT };
struct threshold {
    const char *name, *option, *text; /* text: as given, or the default */
    enum form form;
    bool lower;               /* too few is bad, instead of too many */
    double warning, critical; /* NAN: no such level */
    double value;
    enum ob_check level;
    const char *todo;
};
enum { OLDEST, DEAD, DEAD_LAST_HOUR, RELAYS, BREAKERS, RETRY_SHARE, THRESHOLDS };

/* ---- thresholds ---- */

static bool parse_level(const struct threshold *threshold, const char *text, double *level)
{
    int64_t value;
    char number[32];
    size_t len = strlen(text);
    *level = NAN;
    if (strcmp(text, "-") == 0)
        return true;
    if (threshold->form == DURATION && ob_value_duration(text, &value)) {
        *level = (double)value / 1e6;
        return true;
    }
    if (threshold->form == DURATION || len >= sizeof number || len == 0)
        return false;
    memcpy(number, text, len + 1);
    if (threshold->form == PERCENT && number[len - 1] == '%')
        number[len - 1] = '\0';
    if (!ob_value_int(number, &value) || value < 0 || (threshold->form == PERCENT && value > 100))
        return false;
    *level = (double)value;
    return true;
}

/* "WARNING:CRITICAL", each of them a value or "-". */
static bool parse_threshold(struct ob_cli *cli, struct threshold *threshold)
{
    static const char *const examples[] = {"1m:5m", "10:100", "50%:90%"};
    char text[64];
    const char *colon = strchr(threshold->text, ':');
    size_t len = strlen(threshold->text), at = colon ? (size_t)(colon - threshold->text) : 0;
    bool good = colon && len < sizeof text;
    if (good) {
        memcpy(text, threshold->text, len + 1);
        text[at] = '\0';
        good = parse_level(threshold, text, &threshold->warning) &&
               parse_level(threshold, text + at + 1, &threshold->critical);
    }
    if (!good)
        ob_error_set(&cli->err, OUTBOX_INVALID,
                     "--%s takes two levels, WARNING:CRITICAL, such as %s, and - for none; not \"%.60s\"",
                     threshold->option, examples[threshold->form], threshold->text);
    else if (threshold->lower ? threshold->warning < threshold->critical : threshold->warning > threshold->critical) {
        good = false;
        ob_error_set(&cli->err, OUTBOX_INVALID, "--%s %.60s: the critical level is reached before the warning level",
                     threshold->option, threshold->text);
    }
    return good;
}

static bool set_up(struct ob_cli *cli, struct threshold thresholds[THRESHOLDS])
{
    const struct ob_args *args = &cli->args;
    const struct threshold defaults[THRESHOLDS] = {
        [OLDEST] = {"oldest", "oldest", args->oldest ? args->oldest : "1m:5m", DURATION,
                    .todo = "outbox status; outbox explain ID"},
        [DEAD] = {"dead", "dead", args->dead ? args->dead : "10:100", COUNT, .todo = "outbox list status:dead"},
        [DEAD_LAST_HOUR] = {"dead_last_hour", "dead-last-hour", args->dead_last_hour ? args->dead_last_hour : "1:50",
                            COUNT, .todo = "outbox list status:dead"},
        [RELAYS] = {"relays", "relays", args->relays ? args->relays : "1:1", COUNT, .lower = true,
                    .todo = "outbox run"},
        [BREAKERS] = {"breakers_open", "breakers", args->breakers ? args->breakers : "1:3", COUNT,
                      .todo = "outbox status"},
        [RETRY_SHARE] = {"retry_share", "retry-share", args->retry_share ? args->retry_share : "50%:90%", PERCENT,
                         .todo = "outbox list status:pending attempts:>0"},
    };
    memcpy(thresholds, defaults, sizeof defaults);
    for (int i = 0; i < THRESHOLDS; i++)
        if (!parse_threshold(cli, &thresholds[i]))
            return false;
    return true;
}

/* ---- judging ---- */

static bool reached(const struct threshold *threshold, double level)
{
    return threshold->lower ? threshold->value < level : threshold->value >= level; /* false for NAN */
}

static enum ob_check judge(struct threshold thresholds[THRESHOLDS], const struct ob_look *look)
{
    enum ob_check worst = OB_CHECK_OK;
    thresholds[OLDEST].value = look->total.oldest_undelivered_s;
    thresholds[DEAD].value = (double)look->total.dead;
    thresholds[DEAD_LAST_HOUR].value = (double)look->total.dead_last_hour;
    thresholds[RELAYS].value = ob_relays_deliver(look->relays) ? (double)ob_relays_alive(look->relays) : 0;
    thresholds[BREAKERS].value = (double)look->breakers;
    thresholds[RETRY_SHARE].value = 100 * ob_look_retry_share(look);
    for (int i = 0; i < THRESHOLDS; i++) {
        struct threshold *one = &thresholds[i];
        one->level = reached(one, one->critical)  ? OB_CHECK_CRITICAL
                     : reached(one, one->warning) ? OB_CHECK_WARNING
                                                  : OB_CHECK_OK;
        worst = one->level > worst ? one->level : worst;
    }
    return worst;
}

static void put_words(struct ob_buf *buf, int which, const struct ob_look *look)
{
    char age[32];
    ob_age_text(look->total.oldest_undelivered_s, age);
    switch (which) {
    case OLDEST: ob_buf_printf(buf, "oldest undelivered message %s", age); break;
    case DEAD:
        ob_buf_printf(buf, "%lld dead letter%s", (long long)look->total.dead, look->total.dead == 1 ? "" : "s");
        break;
    case DEAD_LAST_HOUR: ob_buf_printf(buf, "%lld died in the last hour", (long long)look->total.dead_last_hour); break;
    case RELAYS:
        if (ob_relays_alive(look->relays) == 0)
            ob_buf_puts(buf, "no relay is running");
        else if (!ob_relays_deliver(look->relays))
            ob_buf_puts(buf, "the relays are switched off");
        else
            ob_buf_printf(buf, "%zu relay%s", ob_relays_alive(look->relays),
                          ob_relays_alive(look->relays) == 1 ? "" : "s");
        break;
    case BREAKERS: ob_buf_printf(buf, "%zu of %zu breakers open", look->breakers, look->sinks); break;
    default: ob_buf_printf(buf, "%.0f%% of the undelivered failed before", 100 * ob_look_retry_share(look)); break;
    }
}

/* What is wrong, the worst first; or a few figures. */
static void put_text(struct ob_buf *buf, const struct threshold thresholds[THRESHOLDS], const struct ob_look *look)
{
    size_t begin = buf->len;
    for (int level = OB_CHECK_CRITICAL; level >= OB_CHECK_WARNING; level--)
        for (int i = 0; i < THRESHOLDS; i++) {
            if ((int)thresholds[i].level != level)
                continue;
            ob_buf_puts(buf, buf->len > begin ? ", " : "");
            put_words(buf, i, look);
        }
    if (buf->len > begin)
        return;
    char age[32];
    ob_age_text(look->total.oldest_undelivered_s, age);
    ob_buf_printf(buf, "%lld pending, oldest %s, %lld dead, %zu relay%s", (long long)look->total.pending, age,
                  (long long)look->total.dead, ob_relays_alive(look->relays),
                  ob_relays_alive(look->relays) == 1 ? "" : "s");
    if (look->pauses.count)
        ob_buf_printf(buf, ", %zu paused", look->pauses.count);
}

/* ---- output ---- */

static void put_level(struct ob_buf *buf, const struct threshold *threshold, double level)
{
    ob_buf_putc(buf, ';');
    if (!isnan(level))
        ob_buf_printf(buf, "%.15g%s", level, threshold->lower ? ":" : "");
}

static void put_perfdata(struct ob_buf *buf, const struct threshold thresholds[THRESHOLDS], const struct ob_look *look)
{
    static const char *const units[] = {"s", "", "%"};
    for (int i = 0; i < THRESHOLDS; i++) {
        ob_buf_printf(buf, "%s%s=%.15g%s", i ? " " : "", thresholds[i].name, floor(thresholds[i].value * 10) / 10,
                      units[thresholds[i].form]);
        put_level(buf, &thresholds[i], thresholds[i].warning);
        put_level(buf, &thresholds[i], thresholds[i].critical);
        ob_buf_puts(buf, thresholds[i].form == PERCENT ? ";0;100" : ";0");
    }
    ob_buf_printf(buf, " pending=%lld;;;0 processing=%lld;;;0", (long long)look->total.pending,
                  (long long)look->total.processing);
}

static void put_number(struct ob_json *json, const char *key, double value)
{
    ob_json_key(json, key);
    ob_json_double(json, value); /* NAN: null */
}

static void say_json(struct ob_cli *cli, enum ob_check status, const char *text, const struct threshold *thresholds)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "status", level_names[status]);
    ob_json_text(&json, "text", text);
    ob_json_key(&json, "checks");
    ob_json_array(&json);
    for (int i = 0; thresholds && i < THRESHOLDS; i++) {
        ob_json_object(&json);
        ob_json_text(&json, "name", thresholds[i].name);
        ob_json_text(&json, "status", level_names[thresholds[i].level]);
        put_number(&json, "value", thresholds[i].value);
        put_number(&json, "warning", thresholds[i].warning);
        put_number(&json, "critical", thresholds[i].critical);
        ob_json_text(&json, "todo", thresholds[i].level ? thresholds[i].todo : NULL);
        ob_json_end(&json);
    }
    ob_json_end(&json);
    ob_json_end(&json);
    ob_say_json(&buf);
    (void)cli;
}

static int report(struct ob_cli *cli, enum ob_check status, const char *text, const struct threshold *thresholds,
                  const struct ob_look *look)
{
    const char *store = cli->config && cli->config->store_count ? cli->config->stores[0].name : "default";
    if (cli->args.prometheus &&
        !ob_check_write(cli->args.prometheus, store ? store : "default", look, status, &cli->err)) {
        ob_say_error(&cli->args, &cli->err);
        status = status == OB_CHECK_OK ? OB_CHECK_UNKNOWN : status;
    }
    if (cli->args.json) {
        say_json(cli, status, text, thresholds);
        return (int)status;
    }
    printf("OUTBOX %s - ", level_words[status]);
    ob_say_text(cli, text, 0, OB_COLOR_NONE);
    if (look) {
        struct ob_buf data = OB_BUF_INIT;
        put_perfdata(&data, thresholds, look);
        printf(" | %s", ob_buf_text(&data));
        ob_buf_fini(&data);
    }
    putchar('\n');
    return (int)status;
}

/* A store that does not answer is critical; one that cannot be judged is unknown. */
static int report_error(struct ob_cli *cli)
{
    char text[sizeof cli->err.text];
    enum ob_check status = ob_code_class(cli->err.code) == OUTBOX_CLASS_RETRY && cli->err.code != OUTBOX_NOMEM
                               ? OB_CHECK_CRITICAL
                               : OB_CHECK_UNKNOWN;
    memcpy(text, cli->err.text, sizeof text);
    for (char *c = text; *c; c++)
        *c = (char)(*c == '\n' ? ' ' : *c == '|' ? '/' : *c); /* a bar would begin the performance data */
    return report(cli, status, text, NULL, NULL);
}

/* ---- time ---- */

static bool alarm_json;

/* Only what may be called in a signal handler. */
static void give_up(int signal)
{
    static const char line[] = "OUTBOX CRITICAL - the store did not answer in time\n";
    static const char document[] =
        "{\"status\":\"critical\",\"text\":\"the store did not answer in time\",\"checks\":[]}\n";
    ssize_t ignored =
        alarm_json ? write(STDOUT_FILENO, document, sizeof document - 1) : write(STDOUT_FILENO, line, sizeof line - 1);
    (void)ignored;
    (void)signal;
    _exit(OB_CHECK_CRITICAL);
}

static bool limit_time(struct ob_cli *cli)
{
    int64_t us = (int64_t)TIMEOUT_S * 1000000;
    if (cli->args.timeout &&
        (!ob_value_duration(cli->args.timeout, &us) || us < 100000 || us > (int64_t)TIMEOUT_MOST_S * 1000000)) {
        ob_error_set(&cli->err, OUTBOX_INVALID, "--timeout takes 100ms to %d min, such as 10s; not \"%.60s\"",
                     TIMEOUT_MOST_S / 60, cli->args.timeout);
        return false;
    }
    struct sigaction action = {.sa_handler = give_up};
    alarm_json = cli->args.json;
    sigaction(SIGALRM, &action, NULL);
    int64_t last = us + us / 10; /* the server is to cancel first, and say why */
    struct itimerval timer = {.it_value = {last / 1000000, last % 1000000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    cli->limit_us = us;
    return true;
}

int cmd_check(struct ob_cli *cli)
{
    struct threshold thresholds[THRESHOLDS];
    struct ob_look look = {0};
    struct ob_buf text = OB_BUF_INIT;
    if (!set_up(cli, thresholds) || !limit_time(cli) || !ob_cli_open(cli))
        return report_error(cli);
    if (ob_look_read(cli->store, cli->args.name_space, cli->args.topic, &look, &cli->err)) {
        ob_look_fini(&look);
        return report_error(cli);
    }
    enum ob_check status = judge(thresholds, &look);
    put_text(&text, thresholds, &look);
    int exit_status = report(cli, status, ob_buf_text(&text), thresholds, &look);
    ob_buf_fini(&text);
    ob_look_fini(&look);
    return exit_status;
}

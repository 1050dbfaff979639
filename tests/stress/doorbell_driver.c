/* doorbell_driver.c - a relay that does as it is told, for tests/system/test_doorbell.py: it has the doorbell of a relay, and
 * no claims of its own. One command per line, one answer per line.
 *
 *   doorbell_driver CONNINFO [NAME=NUMBER...]     busy, window_ms, debounce_ms, fallback_ms, beat_ms, doorbell
 *
 *   wait MS                          -> LOOK STATE MS      sleeps so long at most
 *   claimed COUNT full|part all|some -> ok STATE           says that a claim brought so much; some: it had a filter
 *   until STATE MS                   -> STATE LOOK,LOOK... goes on, taking every look, until it is in that state
 *
 * A failed wait answers `error TEXT`. The log goes to stderr. */
#include "base/clock.h"
#include "store/pg/doorbell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t number(int argc, char **argv, const char *name)
{
    size_t len = strlen(name);
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=')
            return atoll(argv[i] + len + 1);
    return 0;
}

static const char *state_of(const struct ob_pg_doorbell *doorbell)
{
    return ob_doorbell_state_name(ob_pg_doorbell_state(doorbell));
}

static void do_wait(struct ob_pg_doorbell *doorbell, int64_t ms)
{
    struct outbox_error err;
    enum ob_doorbell_reason look;
    int64_t start = ob_clock_mono_us();
    if (ob_pg_doorbell_wait(doorbell, ms * 1000, &look, &err))
        printf("error %s\n", err.text);
    else
        printf("%s %s %lld\n", ob_doorbell_reason_name(look), state_of(doorbell),
               (long long)(ob_clock_mono_us() - start) / 1000);
}

static void do_until(struct ob_pg_doorbell *doorbell, const char *state, int64_t ms)
{
    int64_t end = ob_clock_mono_us() + ms * 1000;
    char looks[4096] = "";
    do {
        struct outbox_error err;
        enum ob_doorbell_reason look;
        if (ob_pg_doorbell_wait(doorbell, 10000, &look, &err)) {
            printf("error %s\n", err.text);
            return;
        }
        if (look != OB_WAKE_NOT && strlen(looks) < sizeof looks - 16) {
            strcat(looks, *looks ? "," : "");
            strcat(looks, ob_doorbell_reason_name(look));
        }
    } while (strcmp(state, state_of(doorbell)) != 0 && ob_clock_mono_us() < end);
    printf("%s %s\n", state_of(doorbell), looks);
}

int main(int argc, char **argv)
{
    struct ob_log log = {.level = OB_LOG_DEBUG, .file = stderr};
    struct ob_pg_doorbell_options options = {
        .conninfo = argc > 1 ? argv[1] : "",
        .application = "doorbell_driver",
        .schema = "outbox",
        .number = (int)number(argc, argv, "doorbell"),
        .settings = {.busy_per_s = (int)number(argc, argv, "busy"),
                     .sample_us = number(argc, argv, "window_ms") * 1000,
                     .debounce_us = number(argc, argv, "debounce_ms") * 1000,
                     .fallback_us = number(argc, argv, "fallback_ms") * 1000,
                     .beat_us = number(argc, argv, "beat_ms") * 1000},
        .log = &log,
    };
    struct ob_pg_doorbell *doorbell;
    struct outbox_error err;
    if (ob_pg_doorbell_new(&options, &doorbell, &err))
        return 1;
    for (char line[256]; fgets(line, sizeof line, stdin); fflush(stdout)) {
        char word[4][32] = {"", "", "", ""};
        sscanf(line, "%31s %31s %31s %31s", word[0], word[1], word[2], word[3]);
        if (strcmp(word[0], "wait") == 0) {
            do_wait(doorbell, atoll(word[1]));
        } else if (strcmp(word[0], "until") == 0) {
            do_until(doorbell, word[1], atoll(word[2]));
        } else if (strcmp(word[0], "claimed") == 0) {
            ob_pg_doorbell_claimed(doorbell, (size_t)atoll(word[1]), strcmp(word[2], "full") == 0,
                                   strcmp(word[3], "some") == 0);
            printf("ok %s\n", state_of(doorbell));
        } else {
            printf("error no such command\n");
        }
    }
    ob_pg_doorbell_free(doorbell);
    return 0;
}

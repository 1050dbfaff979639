/* async_store_driver.c - the helper of test_async_store.py: keeps an async store busy until its input ends.
 *
 *     async_store_driver URL TIMEOUT_MS
 *
 * It claims, settles what came, and extends what is being settled, over and over: one ask of each kind is out nearly
 * always. It says "ok" or "CODE text" whenever that changes, and at the end a line "claims N settles N extends N
 * delivered N polling N". An answer that nobody asked for ends it with a failure. */
#include "base/clock.h"
#include "core/batch.h"
#include "lib/open.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { CLAIM, SETTLE, EXTEND, KINDS };
enum { BATCH = 20, PAUSE_US = 20000 };

struct driver {
    struct ob_async_store *line;
    int64_t timeout_us, next_us;
    bool out[KINDS];
    long answers[KINDS], delivered;
    struct outbox_settle settles[BATCH], extends[BATCH];
    size_t held; /* claimed, not settled yet */
    char said[600];
};

static void say(struct driver *driver, const char *text)
{
    if (strcmp(driver->said, text) == 0)
        return;
    snprintf(driver->said, sizeof driver->said, "%s", text);
    printf("%s\n", text);
    fflush(stdout);
}

static void answered(struct driver *driver, enum kind kind, enum outbox_code code, const struct outbox_error *err)
{
    char text[600];
    if (!driver->out[kind]) {
        printf("an answer of kind %d that nobody asked for\n", kind);
        exit(1);
    }
    driver->out[kind] = false;
    driver->answers[kind]++;
    snprintf(text, sizeof text, "%s %s", outbox_code_name(code), code ? err->text : "");
    say(driver, code ? text : "ok");
}

static void on_claimed(void *ctx, enum outbox_code code, const struct outbox_error *err, struct outbox_batch *batch)
{
    struct driver *driver = ctx;
    answered(driver, CLAIM, code, err);
    for (size_t i = 0; batch && i < batch->size; i++)
        driver->settles[driver->held++] = (struct outbox_settle){.id = batch->items[i].id,
                                                                 .token = batch->items[i].token,
                                                                 .outcome = OUTBOX_DELIVERED,
                                                                 .delay_us = -1,
                                                                 .latency_us = -1};
    if (batch)
        batch->free(batch);
}

/* After a failure nobody knows what became of it: leases end, and it comes again. */
static void on_settled(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    struct driver *driver = ctx;
    answered(driver, SETTLE, code, err);
    for (size_t i = 0; i < driver->held && !code; i++)
        driver->delivered += driver->settles[i].result == OUTBOX_SETTLED;
    driver->held = 0;
}

static void on_extended(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    answered(ctx, EXTEND, code, err);
}

static void on_woken(void *ctx)
{
    (void)ctx;
}

static void ask(struct driver *driver)
{
    struct ob_async_store *line = driver->line;
    if (driver->held && !driver->out[SETTLE]) {
        if (!driver->out[EXTEND]) {
            memcpy(driver->extends, driver->settles, sizeof driver->extends);
            driver->out[EXTEND] = true;
            line->ops->extend(line, driver->extends, driver->held, 2000000, driver->timeout_us);
        }
        driver->out[SETTLE] = true;
        line->ops->settle(line, driver->settles, driver->held, driver->timeout_us);
    }
    if (!driver->held && !driver->out[CLAIM] && ob_clock_boot_us() >= driver->next_us) {
        struct outbox_claim want = OUTBOX_CLAIM_INIT;
        want.worker = "driver";
        want.limit = BATCH;
        want.lease_us = 2000000;
        driver->next_us = ob_clock_boot_us() + PAUSE_US;
        driver->out[CLAIM] = true;
        line->ops->claim(line, &want, driver->timeout_us);
    }
}

/* False when the input has ended. */
static bool turn(struct driver *driver)
{
    int64_t due = driver->line->ops->due_us(driver->line), left = (due - ob_clock_boot_us()) / 1000;
    struct pollfd fds[] = {{.fd = driver->line->ops->fd(driver->line), .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    poll(fds, 2, left < 0 ? 0 : left < 10 ? (int)left + 1 : 10);
    driver->line->ops->step(driver->line);
    return !fds[1].revents;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct driver driver = {.timeout_us = strtol(argv[2], NULL, 10) * 1000};
    struct outbox_error err;
    struct ob_async_store_options options = {
        .url = argv[1],
        .application = "line",
        .host = {&driver, on_claimed, on_settled, on_extended, on_woken},
    };
    if (ob_async_store_open(&options, &driver.line, &err)) {
        printf("%s\n", err.text);
        return 1;
    }
    for (bool more = true; more;) {
        ask(&driver);
        more = turn(&driver);
    }
    while (driver.out[CLAIM] || driver.out[SETTLE] || driver.out[EXTEND])
        turn(&driver);
    struct ob_async_store_state state;
    driver.line->ops->state(driver.line, &state);
    printf("claims %ld settles %ld extends %ld delivered %ld polling %d\n", driver.answers[CLAIM],
           driver.answers[SETTLE], driver.answers[EXTEND], driver.delivered, state.polling);
    driver.line->ops->close(driver.line);
    return 0;
}

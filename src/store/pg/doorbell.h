/* doorbell.h - the doorbell on PostgreSQL: drives core/doorbell.h over a connection of its own.
 *
 * Nothing here blocks except ob_pg_doorbell_wait, and cancelling a request, which takes a round trip (libpq before 17 has no
 * other way). An event loop (the relay's) calls pump when fd is ready or the due time has come, and then look; wait does the
 * same with poll(2). */
#ifndef OB_STORE_PG_DOORBELL_H
#define OB_STORE_PG_DOORBELL_H

#include "base/log.h"
#include "core/doorbell.h"

#include <outbox/outbox.h>

struct ob_pg_doorbell;

struct ob_pg_doorbell_options {
    const char *conninfo, *application, *schema; /* borrowed until the doorbell is freed */
    int number;                                  /* of the doorbell; 0 is the common one */
    struct ob_doorbell_settings settings;
    const struct ob_log *log; /* NULL: none. Borrowed. */
};

/* Does not connect yet. The caller owns *out. */
enum outbox_code ob_pg_doorbell_new(const struct ob_pg_doorbell_options *options, struct ob_pg_doorbell **out,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_pg_doorbell_free(struct ob_pg_doorbell *doorbell);

/* A claim goes out; see ob_doorbell_claiming. doorbell may be NULL: there was no wait yet. */
void ob_pg_doorbell_claiming(struct ob_pg_doorbell *doorbell);
/* A claim returned count messages; see ob_doorbell_claimed. doorbell may be NULL. */
void ob_pg_doorbell_claimed(struct ob_pg_doorbell *doorbell, size_t count, bool full, bool filtered);

/* Does what can be done without blocking. */
void ob_pg_doorbell_pump(struct ob_pg_doorbell *doorbell);
/* What to wait for: a file descriptor with events of poll(2), -1 when there is none, and a time of the boot-time clock. */
int ob_pg_doorbell_fd(const struct ob_pg_doorbell *doorbell, short *events);
int64_t ob_pg_doorbell_due_us(const struct ob_pg_doorbell *doorbell);
enum ob_doorbell_reason ob_pg_doorbell_wake(struct ob_pg_doorbell *doorbell);
/* Reports once what an operator must fix (a missing right, a missing schema); OUTBOX_OK: nothing. Connection failures are only
 * logged, and the doorbell polls until it is connected again. */
enum outbox_code ob_pg_doorbell_fault(struct ob_pg_doorbell *doorbell, struct outbox_error *err);
enum ob_doorbell_state ob_pg_doorbell_state(const struct ob_pg_doorbell *doorbell);
void ob_pg_doorbell_pace(struct ob_pg_doorbell *doorbell,
                         int64_t fallback_us); /* between polls while rings cannot be heard */

/* Blocks until there is a reason to claim, at most timeout_us; *look is OB_WAKE_NOT after the timeout and after a signal. The
 * timeout is the fallback poll of a calm doorbell: the caller claims after every wait. */
enum outbox_code ob_pg_doorbell_wait(struct ob_pg_doorbell *doorbell, int64_t timeout_us, enum ob_doorbell_reason *look,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif

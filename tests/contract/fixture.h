/* fixture.h - what the contract suite needs to know of a store besides struct ob_store_ops.
 *
 * One file per store implements it; one binary per store links it with the very same tests. A place is a string that is
 * enough to open the outbox from any process. The back doors run with the rights of the database's owner: they move
 * time or look; they never make a state that the outbox could not come to by itself. */
#ifndef CONTRACT_FIXTURE_H
#define CONTRACT_FIXTURE_H

#include "core/store.h"

enum { PLACE_MAX = 1024, TEXT_MAX = 4096 };

/* What a test may need and a store may lack. */
enum ability {
    NEEDS_NOTHING = 0,
    NEEDS_FAILED_TRANSACTION = 1, /* an error fails the whole transaction */
    NEEDS_MANY_WRITERS = 2,       /* two transactions can have written at the same time */
    NEEDS_CONNECTION = 4,         /* a server, and a way to it that can be cut */
};

/* Look-ups that must be served by an index (M20). The expired leases of fill have a topic of their own. */
enum lookup { LOOKUP_DUE, LOOKUP_EXPIRED, LOOKUP_TENANT_DUE, LOOKUP_TENANT, LOOKUP_SUBJECT, LOOKUP_COUNT };

struct lack {
    enum ability ability;
    const char *why; /* the reason of the SKIP */
};

struct fixture {
    const char *name;         /* of the binary */
    const struct lack *lacks; /* what the store cannot have; ends with NEEDS_NOTHING, NULL for nothing */

    void (*setup)(void); /* once a binary; leaves the process on failure, saying why */
    void (*teardown)(void);

    /* A fresh, empty, migrated outbox. */
    void (*create)(char place[PLACE_MAX]);
    void (*destroy)(const char *place);
    /* NULL and err on failure. */
    struct ob_store *(*open)(const char *place, struct outbox_error *err);
    /* What a line is opened with; and one that leads to no store. */
    void (*url)(const char *place, char url[PLACE_MAX]);
    const char *nowhere;

    /* Back doors. id is uuid text; NULL means all. */
    void (*expire)(const char *place, const char *id);     /* leases end a second ago */
    void (*make_due)(const char *place, const char *id);   /* a message that waits for its time waits no more */
    void (*age)(const char *place, char id[37], int days); /* it all was so long ago; the id changes with it */
    /* Lines (their application is "line") get no answer any more, or get them again. */
    void (*freeze)(const char *place, bool frozen);
    void (*sever)(const char *place); /* their connections end; only with NEEDS_CONNECTION */
    void (*scalar)(const char *place, const char *sql, char text[TEXT_MAX]);
    void (*digest)(const char *place, char text[TEXT_MAX]); /* equal texts: no table has changed */
    /* So many messages at once, of a thousand tenants, all due, and a few whose worker is gone. */
    void (*fill)(const char *place, long rows);
    /* "" when an index serves the look-up; otherwise how the database goes about it. */
    void (*plan)(const char *place, enum lookup what, char text[TEXT_MAX]);
};

extern const struct fixture fixture;

/* Why the store lacks one of these abilities; NULL when it lacks none. */
const char *fixture_lacks(unsigned abilities);

#endif

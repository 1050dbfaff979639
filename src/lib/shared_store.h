/* shared_store.h - one async store (core/async_store.h) used by several engines.
 *
 * A reload starts a new engine while the old one finishes its deliveries. Both use the same store, and there is no reason to
 * connect twice; an SQLite file allows only one. Each engine gets an async store of its own, whose requests are passed on one
 * after the other, in the order in which they were made.
 *
 * One thread. */
#ifndef OB_LIB_SHARED_STORE_H
#define OB_LIB_SHARED_STORE_H

#include "core/async_store.h"

struct ob_shared_store;

/* The host in the options is not used: every user has its own. No request is made yet. */
enum outbox_code ob_shared_store_open(const struct ob_async_store_options *options, struct ob_shared_store **out,
                                      struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The async store is closed with the last reference; every user holds one. Both functions accept NULL. */
struct ob_shared_store *ob_shared_store_ref(struct ob_shared_store *shared);
void ob_shared_store_unref(struct ob_shared_store *shared);

/* An async store that passes its requests on to the shared one. Close it with its ops->close. */
enum outbox_code ob_shared_store_use(struct ob_shared_store *shared, const struct ob_async_store_host *host,
                                     struct ob_async_store **async, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif

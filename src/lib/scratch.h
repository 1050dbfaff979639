/* scratch.h - an outbox for a moment beside the one that a URL names: in a schema or a file of its own, removed afterwards.
 *
 * One that was left behind by a process that was killed is found by its name, and removed by the next. */
#ifndef OB_LIB_SCRATCH_H
#define OB_LIB_SCRATCH_H

#include "lib/open.h"

struct ob_scratch {
    char *url;       /* where it is */
    char schema[64]; /* PostgreSQL; also the name of its sessions */
    struct ob_open open;
};

/* Removes what killed processes left; *removed: how many. */
ob_code ob_scratch_sweep(const char *url, int *removed, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Creates it, migrated. Call drop in any case. */
ob_code ob_scratch_create(const char *url, struct ob_scratch *scratch, struct outbox_error *err) OUTBOX_MUST_CHECK;
ob_code ob_scratch_drop(const char *url, struct ob_scratch *scratch, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Bytes written for it so far: WAL of the server, or the size of the file. */
ob_code ob_scratch_bytes(const struct ob_scratch *scratch, int64_t *bytes, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif

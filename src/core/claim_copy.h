/* claim_copy.h - a copy of a claim with all its texts, in an arena, for claims that have to wait. */
#ifndef OB_CORE_CLAIM_COPY_H
#define OB_CORE_CLAIM_COPY_H

#include <outbox/outbox.h>

#include "base/arena.h"

/* False when out of memory; what was copied by then stays in the arena. */
bool ob_claim_copy(struct ob_arena *arena, const struct outbox_claim *want, struct outbox_claim *copy)
    __attribute__((warn_unused_result));

#endif

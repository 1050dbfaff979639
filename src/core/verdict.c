/* verdict.c - see verdict.h. */
#include "core/verdict.h"

#include "base/versioned.h"

static struct outbox_verdict not_understood(const char *code, const char *text)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_UNKNOWN;
    verdict.code = code;
    verdict.text = text;
    return verdict;
}

struct outbox_verdict ob_verdict_take(const struct outbox_verdict *from)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    if (!from)
        return verdict;
    if (!ob_take_versioned(&verdict, sizeof verdict, from))
        return not_understood("bad_verdict", "the verdict has no size; initialise it with OUTBOX_VERDICT_INIT");
    if ((unsigned)verdict.outcome > OUTBOX_SINK_NOT_SENT)
        return not_understood("bad_verdict", "the outcome in the verdict is not known to this version of Outbox");
    if ((unsigned)verdict.scope > OUTBOX_SCOPE_SINK)
        verdict.scope = OUTBOX_SCOPE_MESSAGE; /* the narrowest: an unknown value must not hold up other messages */
    return verdict;
}

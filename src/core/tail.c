/* tail.c - see tail.h. */
#include "core/tail.h"

#include "base/alloc.h"
#include "base/glob.h"
#include "core/fingerprint.h"

#include <string.h>

void ob_tail_free(struct ob_tail *tail)
{
    if (!tail)
        return;
    ob_buf_fini(&tail->before);
    ob_buf_fini(&tail->upto);
    ob_free(tail);
}

const char *ob_transition_event(const struct ob_transition_row *row)
{
    static const char *const outcomes[] = {
        "processing", "delivered", "retry",   "failed",   "lost",
        "limited",    "blocked",   "unknown", "released", "interrupted",
    };
    switch (row->kind) {
    case OB_TRANSITION_ENQUEUED: return "enqueued";
    case OB_TRANSITION_DEAD: return "dead";
    case OB_TRANSITION_ACT: return row->action ? row->action : "act";
    default: return (size_t)row->outcome < sizeof outcomes / sizeof outcomes[0] ? outcomes[row->outcome] : "unknown";
    }
}

static int act_status(const char *action)
{
    if (!action)
        return 0;
    return strcmp(action, "retry") == 0 ? OB_PENDING + 1 : strcmp(action, "discard") == 0 ? OB_DISCARDED + 1 : 0;
}

int ob_transition_status(const struct ob_transition_row *row)
{
    switch (row->kind) {
    case OB_TRANSITION_ENQUEUED: return OB_PENDING + 1;
    case OB_TRANSITION_DEAD: return OB_DEAD + 1;
    case OB_TRANSITION_ACT: return act_status(row->action);
    default:
        /* "failed" is final: its dead letter follows. */
        return row->outcome == OUTBOX_DELIVERED ? OB_STATUS_DELIVERED + 1
               : row->outcome == OUTBOX_FAILED  ? OB_DEAD + 1
                                                : OB_PENDING + 1;
    }
}

static bool same(const char *wanted, const char *text)
{
    return !wanted || (text && strcmp(wanted, text) == 0);
}

static bool named(const char *pattern, const char *text)
{
    return !pattern || (text && ob_glob_names(pattern, text));
}

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c + 'a' - 'A');
    return c;
}

static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && lower(text[i]) == lower(part[i]))
            i++;
        if (!part[i])
            return true;
    }
    return false;
}

static bool id_matches(const struct ob_transition_row *row, const struct ob_filter *filter)
{
    bool found = !filter->ids;
    for (size_t i = 0; !found && i < filter->id_count; i++)
        found = row->has_id && memcmp(&filter->ids[i], &row->id, sizeof row->id) == 0;
    return found && (!filter->id_range || (row->has_id && memcmp(&row->id, &filter->id_first, sizeof row->id) >= 0 &&
                                           memcmp(&row->id, &filter->id_last, sizeof row->id) <= 0));
}

/* The same tenant may be written in capitals. */
static bool tenant_matches(const char *wanted, const char *tenant)
{
    struct outbox_uuid a, b;
    return !wanted ||
           (tenant && outbox_uuid_parse(wanted, &a) && outbox_uuid_parse(tenant, &b) && memcmp(&a, &b, sizeof a) == 0);
}

/* Only a failure is of a group. */
static bool group_matches(const char *group, const struct ob_transition_row *row)
{
    bool failure =
        row->kind == OB_TRANSITION_DEAD || (row->kind == OB_TRANSITION_ATTEMPT && row->outcome != OUTBOX_DELIVERED);
    return !group || (failure && ob_fingerprint(row->code, row->error) == ob_fingerprint_of(group));
}

bool ob_transition_matches(const struct ob_transition_row *row, const struct ob_filter *filter)
{
    return id_matches(row, filter) && named(filter->name_space, row->name_space) && named(filter->topic, row->topic) &&
           named(filter->code, row->code) && group_matches(filter->group, row) &&
           tenant_matches(filter->tenant_id, row->tenant_id) && same(filter->key, row->key) &&
           same(filter->subject, row->subject) && same(filter->recipient, row->recipient) &&
           same(filter->correlation_id, row->correlation_id) &&
           (!filter->error || (row->error && contains(row->error, filter->error))) &&
           (!filter->status_plus_1 || filter->status_plus_1 == ob_transition_status(row)) &&
           (!filter->before_us || (row->created_at_us && row->created_at_us < filter->before_us)) &&
           (!filter->since_us || row->created_at_us >= filter->since_us) &&
           (!filter->attempts_least || row->attempt >= filter->attempts_least) &&
           (!filter->attempts_below || row->attempt < filter->attempts_below);
}

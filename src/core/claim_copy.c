/* claim_copy.c - see claim_copy.h. */
#include "core/claim_copy.h"

/* NULL stays NULL; *ok becomes false when out of memory. */
static const char *keep(struct ob_arena *arena, const char *text, bool *ok)
{
    const char *copy = text && *ok ? ob_arena_strdup(arena, text) : NULL;
    *ok = *ok && (copy || !text);
    return copy;
}

static const struct outbox_lane *keep_lanes(struct ob_arena *arena, const struct outbox_lane *lanes, size_t count,
                                            bool *ok)
{
    if (!lanes || !*ok)
        return NULL;
    struct outbox_lane *copy = ob_arena_calloc(arena, count + 1, sizeof *copy);
    *ok = copy != NULL;
    for (size_t i = 0; i < count && *ok; i++) {
        copy[i].name_space = keep(arena, lanes[i].name_space, ok);
        copy[i].topic = keep(arena, lanes[i].topic, ok);
    }
    return copy;
}

static const char *const *keep_topics(struct ob_arena *arena, const char *const *topics, size_t count, bool *ok)
{
    if (!topics || !*ok)
        return NULL;
    const char **copy = ob_arena_calloc(arena, count + 1, sizeof *copy);
    *ok = copy != NULL;
    for (size_t i = 0; i < count && *ok; i++)
        copy[i] = keep(arena, topics[i], ok);
    return copy;
}

static const struct outbox_lane_rule *keep_rules(struct ob_arena *arena, const struct outbox_lane_rule *rules,
                                                 size_t count, bool *ok)
{
    if (!count || !*ok)
        return NULL;
    struct outbox_lane_rule *copy = ob_arena_calloc(arena, count, sizeof *copy);
    *ok = copy != NULL;
    for (size_t i = 0; i < count && *ok; i++) {
        copy[i].name_space = keep(arena, rules[i].name_space, ok);
        copy[i].topic = keep(arena, rules[i].topic, ok);
        copy[i].skip = rules[i].skip;
    }
    return copy;
}

bool ob_claim_copy(struct ob_arena *arena, const struct outbox_claim *want, struct outbox_claim *copy)
{
    bool ok = true;
    *copy = *want;
    copy->worker = keep(arena, want->worker, &ok);
    copy->name_space = keep(arena, want->name_space, &ok);
    copy->tenant_id = keep(arena, want->tenant_id, &ok);
    copy->only = keep_lanes(arena, want->only, want->only_count, &ok);
    copy->skip = keep_lanes(arena, want->skip, want->skip_count, &ok);
    copy->rules = keep_rules(arena, want->rules, want->rule_count, &ok);
    copy->topics = keep_topics(arena, want->topics, want->topic_count, &ok);
    return ok;
}

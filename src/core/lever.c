/* lever.c - see lever.h. */
#include "core/lever.h"

#include "base/error.h"
#include "base/glob.h"
#include "core/names.h"

#include <string.h>

#define IN(status) (1U << (status))

static const struct {
    const char *name;
    enum ob_status usual;
    unsigned takes;
} levers[] = {
    [OB_LEVER_RETRY] = {"retry", OB_DEAD, IN(OB_DEAD) | IN(OB_PENDING)},
    [OB_LEVER_DISCARD] = {"discard", OB_DEAD, IN(OB_DEAD) | IN(OB_PENDING)},
    [OB_LEVER_SKIP] = {"skip", OB_DEAD, IN(OB_DEAD) | IN(OB_PENDING)},
    [OB_LEVER_REDELIVER] = {"redeliver", OB_STATUS_DELIVERED, IN(OB_STATUS_DELIVERED) | IN(OB_DISCARDED)},
    [OB_LEVER_EXPIRE] = {"expire", OB_PENDING, IN(OB_PENDING)},
    [OB_LEVER_MOVE] = {"move", OB_DEAD, IN(OB_DEAD) | IN(OB_PENDING)},
};

const char *ob_lever_name(enum ob_lever lever)
{
    return levers[lever].name;
}

int ob_lever_find(const char *name)
{
    for (int i = 0; i < OB_LEVER_COUNT; i++)
        if (strcmp(levers[i].name, name) == 0)
            return i + 1;
    return 0;
}

enum ob_status ob_lever_status(enum ob_lever lever)
{
    return levers[lever].usual;
}

bool ob_lever_takes(enum ob_lever lever, enum ob_status status)
{
    return (levers[lever].takes & IN(status)) != 0;
}

ob_code ob_operation_check(const struct ob_operation *operation, struct outbox_error *err)
{
    if ((int)operation->lever < 0 || operation->lever >= OB_LEVER_COUNT)
        return ob_error_set(err, OUTBOX_INVALID, "%d is not an act", (int)operation->lever);
    if (operation->id_count == 0 || operation->id_count > OB_OPERATE_IDS)
        return ob_error_set(err, OUTBOX_INVALID, "an act takes 1 to %d ids, not %zu", OB_OPERATE_IDS,
                            operation->id_count);
    if (operation->status_plus_1 < 0 || operation->status_plus_1 > OB_STATUS_COUNT)
        return ob_error_set(err, OUTBOX_INVALID, "%d is not a status", operation->status_plus_1);
    if (operation->lever != OB_LEVER_MOVE)
        return operation->topic || operation->name_space
                   ? ob_error_set(err, OUTBOX_INVALID, "only a move takes a topic")
                   : OUTBOX_OK;
    if (!operation->topic)
        return ob_error_set(err, OUTBOX_INVALID, "a move needs the topic to move to");
    if (ob_glob_is(operation->topic) || (operation->name_space && ob_glob_is(operation->name_space)))
        return ob_error_set(err, OUTBOX_INVALID, "messages move to one topic, not to a pattern such as \"%.64s\"",
                            operation->topic);
    return ob_names_check(operation->name_space, operation->topic, NULL, err);
}

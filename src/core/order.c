/* order.c - see order.h. */
#include "core/order.h"

#include "base/alloc.h"
#include "core/mutant.h"

#include <assert.h>

bool ob_keys_init(struct ob_keys *keys, int max_messages)
{
    size_t count = 2 * (size_t)max_messages, buckets = 16;
    while (buckets < count)
        buckets *= 2;
    *keys = (struct ob_keys){.mask = buckets - 1};
    ob_list_init(&keys->tombs);
    keys->all = ob_calloc(count, sizeof *keys->all);
    keys->buckets = ob_calloc(buckets, sizeof(struct ob_key *));
    if (!keys->all || !keys->buckets)
        return false;
    for (size_t i = 0; i < count; i++) {
        ob_list_init(&keys->all[i].flights);
        ob_list_init(&keys->all[i].blockers);
        ob_list_init(&keys->all[i].tomb);
        keys->all[i].next = keys->free;
        keys->free = &keys->all[i];
    }
    return true;
}

void ob_keys_fini(struct ob_keys *keys)
{
    if (!keys)
        return;
    ob_free(keys->all);
    ob_free(keys->buckets);
    *keys = (struct ob_keys){0};
}

static struct ob_key **bucket_of(const struct ob_keys *keys, int64_t stream)
{
    uint64_t hash = (uint64_t)stream;
    return &keys->buckets[ob_random_next(&hash) & keys->mask];
}

static struct ob_key *find_or_make(struct ob_keys *keys, int64_t stream)
{
    struct ob_key **bucket = bucket_of(keys, stream);
    for (struct ob_key *key = *bucket; key; key = key->next) {
        if (key->stream == stream)
            return key;
    }
    struct ob_key *key = keys->free;
    assert(key); /* there are enough keys for all entries and tombs */
    keys->free = key->next;
    key->stream = stream;
    key->next = *bucket;
    key->tomb_low = key->tomb_high = key->accepted_seq = 0;
    *bucket = key;
    keys->used++;
    return key;
}

static void drop(struct ob_keys *keys, struct ob_key *key)
{
    assert(key->live == 0 && key->in_flight == 0 && ob_list_empty(&key->flights) && ob_list_empty(&key->blockers));
    struct ob_key **link = bucket_of(keys, key->stream);
    while (*link != key)
        link = &(*link)->next;
    *link = key->next;
    ob_list_remove(&key->tomb);
    key->next = keys->free;
    keys->free = key;
    keys->used--;
}

void ob_keys_join(struct ob_keys *keys, struct ob_flight *flight, int64_t stream)
{
    struct ob_key *key = find_or_make(keys, stream);
    flight->key = key;
    key->live++;
    struct ob_list *after = key->flights.prev;
    while (after != &key->flights && OB_CONTAINER(after, struct ob_flight, key_node)->seq > flight->seq)
        after = after->prev;
    ob_list_insert_between(&flight->key_node, after, after->next);
}

void ob_key_accepted(struct ob_flight *flight)
{
    if (!flight->key)
        return;
    ob_list_remove(&flight->key_node);
    if (flight->seq > flight->key->accepted_seq)
        flight->key->accepted_seq = flight->seq;
}

void ob_key_blocks(struct ob_flight *flight)
{
    if (!flight->key)
        return;
    ob_list_remove(&flight->key_node);
    ob_list_push(&flight->key->blockers, &flight->key_node);
}

static bool held_back(const struct ob_key *key, int64_t seq)
{
    OB_LIST_EACH (it, &key->blockers) {
        int64_t blocker = OB_CONTAINER(it, struct ob_flight, key_node)->seq;
        if (blocker < seq && blocker > key->accepted_seq && !OB_MUTANT(RUN_GOES_ON))
            return true;
    }
    return false;
}

bool ob_key_blocked(const struct ob_key *key, int64_t seq)
{
    /* Only the range of tombs is kept: the seq right after the last accepted one may be a tomb. */
    int64_t low = key->tomb_low > key->accepted_seq ? key->tomb_low : key->accepted_seq + 1;
    if (key->tomb_high > key->accepted_seq && low < seq)
        return true;
    return held_back(key, seq);
}

bool ob_key_uncertain(const struct ob_flight *flight)
{
    if (!flight->key)
        return false;
    OB_LIST_EACH (it, &flight->key->flights) {
        const struct ob_flight *other = OB_CONTAINER(it, struct ob_flight, key_node);
        if (other->seq < flight->seq)
            return true;
    }
    return ob_key_blocked(flight->key, flight->seq);
}

void ob_keys_leave(struct ob_keys *keys, struct ob_flight *flight, bool claim_out)
{
    struct ob_key *key = flight->key;
    if (!key)
        return;
    bool blocker = flight->outcome != OUTBOX_DELIVERED; /* or no outcome: given up while in flight */
    ob_list_remove(&flight->key_node);
    flight->key = NULL;
    key->live--;
    if (blocker && claim_out && !OB_MUTANT(NO_TOMBS)) {
        if (ob_list_empty(&key->tomb))
            ob_list_push(&keys->tombs, &key->tomb);
        if (key->tomb_high == 0 || flight->seq < key->tomb_low)
            key->tomb_low = flight->seq;
        if (flight->seq > key->tomb_high)
            key->tomb_high = flight->seq;
    }
    if (key->live == 0 && ob_list_empty(&key->tomb))
        drop(keys, key);
}

struct ob_key *ob_keys_bury(struct ob_keys *keys)
{
    struct ob_list *tomb;
    while ((tomb = ob_list_shift(&keys->tombs))) {
        struct ob_key *key = OB_CONTAINER(tomb, struct ob_key, tomb);
        key->tomb_low = key->tomb_high = 0;
        if (key->live > 0)
            return key;
        drop(keys, key);
    }
    return NULL;
}

struct ob_flight *ob_key_head(const struct ob_key *key)
{
    if (key->in_flight > 0 || ob_list_empty(&key->flights))
        return NULL;
    struct ob_flight *head = OB_CONTAINER(key->flights.next, struct ob_flight, key_node);
    return ob_key_blocked(key, head->seq) ? NULL : head;
}

static const char *check_key(const struct ob_key *key)
{
    int out = 0, listed = 0;
    int64_t last = INT64_MIN;
    OB_LIST_EACH (it, &key->flights) {
        const struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, key_node);
        listed++;
        if (flight->key != key)
            return "an entry is in the list of another key";
        if (flight->seq < last)
            return "the entries of a key are out of order";
        last = flight->seq;
        if (flight->state == OB_FLIGHT_SENT)
            out++;
        else if (flight->state != OB_FLIGHT_WAITING && flight->state != OB_FLIGHT_READY)
            return "an entry that is over stands in its key's way";
        else if (held_back(key, flight->seq))
            return "a message is queued behind one that was not accepted";
        if (flight->state == OB_FLIGHT_READY && (key->in_flight > 0 || it != key->flights.next))
            return "a message is ready before its turn";
    }
    OB_LIST_EACH (it, &key->blockers) {
        const struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, key_node);
        listed++;
        if (flight->state != OB_FLIGHT_DONE && flight->state != OB_FLIGHT_SETTLING)
            return "a message blocks its key before it has ended";
    }
    if (out != key->in_flight)
        return "the messages of a key in flight are miscounted";
    if (listed > key->live)
        return "a key has more entries than live ones";
    return NULL;
}

const char *ob_keys_check(const struct ob_keys *keys, int max_messages)
{
    int used = 0;
    for (size_t i = 0; i <= keys->mask; i++) {
        for (const struct ob_key *key = keys->buckets[i]; key; key = key->next) {
            used++;
            if (key->live == 0 && ob_list_empty(&key->tomb))
                return "a key outlived its messages";
            const char *wrong = check_key(key);
            if (wrong)
                return wrong;
        }
    }
    return used == keys->used && used <= 2 * max_messages ? NULL : "the keys are miscounted";
}

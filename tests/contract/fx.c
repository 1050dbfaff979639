/* fx.c - the frame of a contract test: its handles, what it keeps, whom it blames, and time.
 *
 * cmocka leaves a failing test by longjmp, so nothing here may rely on the caller's own clean-up. */
#include "suite.h"

#include <time.h>

struct kept {
    void *ptr;
    void (*release)(void *);
    struct kept *next;
};

struct fx *fx_at(struct fx *fx, const char *file, int line)
{
    fx->file = file;
    fx->line = line;
    return fx;
}

void blame(struct fx *fx, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    FILE *out = fx->is_child ? stderr : stdout;
    fprintf(out, "# %s:%d:\n", fx->file, fx->line);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        fprintf(out, "#   %s\n", line); /* a comment in TAP, however long it is */
    fflush(out);
    if (fx->is_child)
        _Exit(1);
    _fail(fx->file, fx->line);
    abort();
}

void *keep(struct fx *fx, void *ptr, void (*release)(void *))
{
    struct kept *item = malloc(sizeof(*item));
    if (!item)
        abort();
    *item = (struct kept){ptr, release, *fx->kept};
    *fx->kept = item;
    return ptr;
}

char *repeat_text(struct fx *fx, char c, size_t n)
{
    char *text = keep(fx, malloc(n + 1), free);
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

char *keep_text(struct fx *fx, const char *text)
{
    return text ? keep(fx, strdup(text), free) : NULL;
}

void fx_fini(struct fx *fx)
{
    while (*fx->kept) {
        struct kept *item = *fx->kept;
        *fx->kept = item->next;
        item->release(item->ptr);
        free(item);
    }
}

static unsigned back_door_epoch;

static void store_close(void *ptr)
{
    struct fx *fx = ptr;
    if (fx->store)
        fx->store->ops->close(fx->store);
    fx->store = NULL;
}

static void store_open(struct fx *fx)
{
    fx->store = fixture.open(fx->place, &fx->err);
    if (!fx->store)
        blame(fx, "open: %s", fx->err.text);
    fx->epoch = back_door_epoch;
}

void fx_open(struct fx *fx)
{
    store_open(fx);
    keep(fx, fx, store_close);
}

void fx_refresh(struct fx *fx)
{
    if (fx->epoch == back_door_epoch)
        return;
    store_close(fx);
    store_open(fx);
}

struct fx *another_(struct fx *fx)
{
    struct fx *other = keep(fx, malloc(sizeof(*other)), free);
    *other = *fx;
    fx_open(other);
    return other;
}

void check_(struct fx *fx, enum outbox_code code, enum outbox_code wanted, const char *what)
{
    if (code == wanted)
        return;
    blame(fx, "%s: got %s, wanted %s: %s", what, outbox_code_name(code), outbox_code_name(wanted),
          code ? fx->err.text : "");
}

void expect_unchanged_(struct fx *fx, const char *before, const char *what)
{
    const char *after = digest(fx);
    if (strcmp(before, after) != 0)
        blame(fx, "%s changed something\n  before %s\n  after  %s", what, before, after);
}

const char *digest(struct fx *fx)
{
    char *text = keep(fx, calloc(1, TEXT_MAX), free);
    fixture.digest(fx->place, text);
    return text;
}

const char *scalar(struct fx *fx, const char *sql)
{
    char *text = keep(fx, calloc(1, TEXT_MAX), free);
    fixture.scalar(fx->place, sql, text);
    return text;
}

const char *uuid_text(struct fx *fx, struct outbox_uuid id)
{
    char text[37];
    outbox_uuid_format(&id, text);
    return keep_text(fx, text);
}

bool uuid_equal(struct outbox_uuid a, struct outbox_uuid b)
{
    return memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

void expire(struct fx *fx, struct outbox_uuid id)
{
    back_door_epoch++;
    fixture.expire(fx->place, uuid_text(fx, id));
}

void expire_all(struct fx *fx)
{
    back_door_epoch++;
    fixture.expire(fx->place, NULL);
}

void make_due(struct fx *fx, struct outbox_uuid id)
{
    back_door_epoch++;
    fixture.make_due(fx->place, uuid_text(fx, id));
}

void make_old(struct fx *fx, struct outbox_uuid *id, int days)
{
    char text[37];
    back_door_epoch++;
    outbox_uuid_format(id, text);
    fixture.age(fx->place, text, days);
    if (!outbox_uuid_parse(text, id))
        blame(fx, "age: \"%s\" is no id", text);
}

int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND + now.tv_nsec / 1000;
}

void until_us(int64_t when)
{
    for (int64_t left; (left = when - now_us()) > 0;) {
        struct timespec pause = {left / SECOND, left % SECOND * 1000};
        nanosleep(&pause, NULL);
    }
}

void tick(void)
{
    until_us(now_us() + 2000);
}

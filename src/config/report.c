/* report.c - collects problems and formats them as text; and the memory helpers of the reader. */
#include "config/config_int.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *ob_loader_calloc(struct ob_loader *ld, size_t count, size_t size)
{
    void *block = ob_arena_calloc(ld->arena, count ? count : 1, size);
    if (!block)
        ld->nomem = true;
    return block;
}

const char *ob_loader_dup(struct ob_loader *ld, const char *text)
{
    char *copy = ob_arena_strdup(ld->arena, text);
    if (!copy)
        ld->nomem = true;
    return copy ? copy : "";
}

static const char *print(struct ob_arena *arena, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

static const char *print(struct ob_arena *arena, const char *format, va_list list)
{
    struct ob_buf buf = OB_BUF_INIT;
    ob_buf_vprintf(&buf, format, list);
    const char *text = ob_buf_ok(&buf) ? ob_arena_strdup(arena, ob_buf_text(&buf)) : NULL;
    ob_buf_fini(&buf);
    return text;
}

const char *ob_loader_printf(struct ob_loader *ld, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = print(ld->arena, format, list);
    va_end(list);
    if (!text)
        ld->nomem = true;
    return text ? text : "";
}

bool ob_loader_grow(struct ob_loader *ld, void *items, size_t count, size_t *cap, size_t size)
{
    void **vector = items, *more;
    if (count < *cap)
        return true;
    size_t room = *cap ? 2 * *cap : 16;
    more = ob_loader_calloc(ld, room, size);
    if (!more)
        return false;
    if (count)
        memcpy(more, *vector, count * size);
    *vector = more;
    *cap = room;
    return true;
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

void ob_config_report_init(struct ob_config_report *report)
{
    *report = (struct ob_config_report){0};
    ob_arena_init(&report->arena, 4096);
}

void ob_config_report_fini(struct ob_config_report *report)
{
    ob_arena_fini(&report->arena);
    *report = (struct ob_config_report){0};
}

static const char *keep(struct ob_loader *ld, const char *text)
{
    char *copy = text ? ob_arena_strdup(&ld->report->arena, text) : NULL;
    if (text && !copy)
        ld->nomem = true;
    return copy;
}

/* By line; problems outside of the file come last. */
static int order_of(const struct ob_config_problem *problem)
{
    return problem->place.source == OB_CONFIG_FILE ? problem->place.line : INT_MAX;
}

static void insert(struct ob_config_report *report, struct ob_config_problem *problem)
{
    struct ob_config_problem **at = &report->first;
    if (report->last && order_of(report->last) <= order_of(problem))
        at = &report->last->next;
    while (*at && order_of(*at) <= order_of(problem))
        at = &(*at)->next;
    problem->next = *at;
    *at = problem;
    if (!problem->next)
        report->last = problem;
}

void ob_loader_problem(struct ob_loader *ld, bool error, const struct ob_config_place *place, const char *key,
                       const char *value, const char *nearest, const char *format, ...)
{
    static const struct ob_config_place nowhere = {.source = OB_CONFIG_DEFAULT};
    struct ob_config_report *report = ld->report;
    struct ob_config_problem *problem = ob_arena_calloc(&report->arena, 1, sizeof *problem);
    va_list list;
    if (error)
        report->errors++;
    else
        report->warnings++;
    if (!problem) {
        ld->nomem = true;
        return;
    }
    problem->error = error;
    problem->place = place ? *place : nowhere;
    problem->place.from = keep(ld, problem->place.from);
    problem->key = keep(ld, key);
    problem->value = keep(ld, value);
    problem->nearest = keep(ld, nearest);
    va_start(list, format);
    problem->text = print(&report->arena, format, list);
    va_end(list);
    if (!problem->text)
        problem->text = "out of memory";
    insert(report, problem);
}

bool ob_config_report_error(struct ob_config_report *report, const struct ob_config_place *place, const char *key,
                            const char *text)
{
    struct ob_loader ld = {.report = report};
    ob_loader_problem(&ld, true, place, key, NULL, NULL, "%s", text);
    return !ld.nomem;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

void ob_config_place_text(const struct ob_config_place *place, struct ob_buf *buf)
{
    switch (place->source) {
    case OB_CONFIG_DEFAULT: ob_buf_puts(buf, "default"); return;
    case OB_CONFIG_ENV: ob_buf_printf(buf, "env %s", place->from); return;
    case OB_CONFIG_FLAG: ob_buf_printf(buf, "flag %s", place->from); return;
    case OB_CONFIG_FILE:
        ob_buf_puts(buf, place->from);
        if (place->line)
            ob_buf_printf(buf, ":%d", place->line);
        return;
    }
}

void ob_config_problem_text(const struct ob_config_problem *problem, struct ob_buf *buf)
{
    const struct ob_config_place *place = &problem->place;
    if (place->source == OB_CONFIG_FILE)
        ob_config_place_text(place, buf);
    else
        ob_buf_puts(buf, place->from ? place->from : "outbox");
    ob_buf_printf(buf, ": %s: ", problem->error ? "error" : "warning");
    if (problem->key)
        ob_buf_printf(buf, "%s: ", problem->key);
    ob_buf_puts(buf, problem->text);
    if (problem->nearest)
        ob_buf_printf(buf, "; did you mean \"%s\"?", problem->nearest);
}

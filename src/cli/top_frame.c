/* top_frame.c - a frame of `outbox top`: head, topics, sinks, failures by group. Texts of others are escaped and cut. */
#include "cli/top.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 3, PART_ALL = 20 };

struct frame {
    FILE *file;
    int columns, left; /* of the line */
    bool ansi;
};

/* ---- cells ---- */

static const char *color_of(enum ob_color color)
{
    switch (color) {
    case OB_COLOR_RED: return "\033[31m";
    case OB_COLOR_GREEN: return "\033[32m";
    case OB_COLOR_YELLOW: return "\033[33m";
    case OB_COLOR_BOLD: return "\033[1m";
    case OB_COLOR_DIM: return "\033[2m";
    default: return "";
    }
}

/* Text in so many columns, cut or filled up; width 0: to the end of the line, not filled up. right: aligned there. */
static void cell(struct frame *frame, const char *text, int width, bool right, enum ob_color color)
{
    char *safe = NULL;
    size_t len = 0, bytes = 0;
    FILE *memory = open_memstream(&safe, &len);
    if (!memory)
        return;
    int shown = ob_print_safe(memory, text ? text : "-", text ? strlen(text) : 1), room = width ? width : frame->left;
    if (fclose(memory) != 0 || !safe)
        return;
    room = room < frame->left ? room : frame->left;
    int count = shown < room ? shown : room;
    for (int i = 0; i < count; i++) {
        size_t one = ob_utf8_width(safe + bytes, len - bytes);
        bytes += one ? one : 1;
    }
    int fill = width ? room - count : 0;
    if (right)
        fprintf(frame->file, "%*s", fill, "");
    if (frame->ansi && color != OB_COLOR_NONE)
        fputs(color_of(color), frame->file);
    fwrite(safe, 1, bytes, frame->file);
    if (frame->ansi && color != OB_COLOR_NONE)
        fputs("\033[0m", frame->file);
    if (!right)
        fprintf(frame->file, "%*s", fill, "");
    frame->left -= count + fill;
    free(safe);
}

static void number(struct frame *frame, int64_t value, int width, enum ob_color color)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    cell(frame, text, width, true, value ? color : OB_COLOR_NONE);
}

static void age(struct frame *frame, double seconds, int width)
{
    char text[32] = "-";
    if (seconds > 0)
        ob_age_text(seconds, text);
    cell(frame, text, width, true, OB_COLOR_NONE);
}

static void end_line(struct frame *frame)
{
    fputs(frame->ansi ? "\n\033[K" : "\n",
          frame->file); /* cleared first: at the last column it would take the last letter */
    frame->left = frame->columns;
}

static void words(struct frame *frame, enum ob_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void words(struct frame *frame, enum ob_color color, const char *format, ...)
{
    struct ob_buf buf = OB_BUF_INIT;
    va_list list;
    va_start(list, format);
    ob_buf_vprintf(&buf, format, list);
    va_end(list);
    cell(frame, ob_buf_text(&buf), 0, false, color);
    ob_buf_fini(&buf);
}

/* ---- parts ---- */

static void rate_text(double rate, char text[32])
{
    if (rate < 0)
        snprintf(text, 32, "-");
    else
        snprintf(text, 32, rate < 10 ? "%.1f/s" : "%.0f/s", rate);
}

static void draw_head(struct frame *frame, const struct ob_top *top, const char *place)
{
    const struct ob_status_row *total = &top->look.total;
    char at[OB_CLOCK_TEXT] = "", in[32], out[32], oldest[32] = "-";
    if (top->look.at_us)
        ob_clock_format(top->look.at_us, at);
    rate_text(top->in_rate, in);
    rate_text(top->out_rate, out);
    if (total->oldest_undelivered_s > 0)
        ob_age_text(total->oldest_undelivered_s, oldest);
    words(frame, OB_COLOR_BOLD, "outbox top  %.19s%s", at, *at ? "Z" : "");
    if (top->paused)
        words(frame, OB_COLOR_YELLOW, "  display paused");
    words(frame, OB_COLOR_DIM, "  %s", place);
    end_line(frame);
    size_t alive = top->look.relays ? ob_relays_alive(top->look.relays) : 0;
    words(frame, OB_COLOR_NONE, "in %s  out %s  oldest %s  ", in, out, oldest);
    words(frame, alive ? OB_COLOR_NONE : OB_COLOR_RED, "relays %zu  ", alive);
    words(frame, total->dead ? OB_COLOR_RED : OB_COLOR_NONE, "dead %lld (%lld in the last hour)  ",
          (long long)total->dead, (long long)total->dead_last_hour);
    words(frame, OB_COLOR_NONE, "pending %lld (due %lld, retrying %lld)  processing %lld", (long long)total->pending,
          (long long)total->due, (long long)total->retrying, (long long)total->processing);
    if (top->look.pauses.count)
        words(frame, OB_COLOR_YELLOW, "  pauses %zu", top->look.pauses.count);
    if (total->estimated)
        words(frame, OB_COLOR_DIM, "  (estimates)");
    end_line(frame);
    if (top->trouble)
        words(frame, OB_COLOR_RED, "%s", top->trouble);
    end_line(frame);
}

static enum ob_top_sort sort_by; /* qsort has no argument for it */

static int compare(const void *a, const void *b)
{
    const struct ob_status_row *x = a, *y = b;
    double less = 0;
    switch (sort_by) {
    case OB_TOP_OLDEST: less = y->oldest_undelivered_s - x->oldest_undelivered_s; break;
    case OB_TOP_PENDING: less = (double)(y->pending - x->pending); break;
    case OB_TOP_DEAD: less = (double)(y->dead - x->dead); break;
    default: break;
    }
    if (less < 0 || less > 0)
        return less < 0 ? -1 : 1;
    int order = strcmp(x->name_space, y->name_space);
    return order ? order : strcmp(x->topic, y->topic);
}

static void draw_topics(struct frame *frame, const struct ob_top *top, int lines)
{
    static const char *const names[OB_TOP_SORTS] = {"oldest", "pending", "dead", "name"};
    char title[64], name[400];
    sort_by = top->sort;
    qsort(top->look.topics, top->look.count, sizeof *top->look.topics, compare);
    snprintf(title, sizeof title, "TOPIC (%zu, by %s)", top->look.count, names[top->sort]);
    cell(frame, title, 32, false, OB_COLOR_BOLD);
    words(frame, OB_COLOR_BOLD, " %9s %9s %9s %9s %8s  %s", "PENDING", "RETRYING", "IN FLIGHT", "DEAD", "OLDEST",
          "LAST ERROR");
    end_line(frame);
    for (int i = 0; i < lines && (size_t)i < top->look.count; i++) {
        const struct ob_status_row *row = &top->look.topics[i];
        snprintf(name, sizeof name, "%s/%s", row->name_space, row->topic);
        cell(frame, name, 32, false, row->paused ? OB_COLOR_YELLOW : OB_COLOR_NONE);
        number(frame, row->pending, 10, OB_COLOR_NONE);
        number(frame, row->retrying, 10, OB_COLOR_YELLOW);
        number(frame, row->processing, 10, OB_COLOR_NONE);
        number(frame, row->dead, 10, OB_COLOR_RED);
        age(frame, row->oldest_undelivered_s, 9);
        if (row->paused)
            words(frame, OB_COLOR_YELLOW, "  paused");
        if (row->last_code || row->last_error)
            words(frame, OB_COLOR_DIM, "  %s%s%s", row->last_code ? row->last_code : "",
                  row->last_code && row->last_error ? ": " : "", row->last_error ? row->last_error : "");
        end_line(frame);
    }
}

struct sinks {
    struct frame *frame;
    int left;
};

static void draw_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct sinks *sinks = ctx;
    struct frame *frame = sinks->frame;
    char rate[32];
    bool closed = strcmp(sink->breaker, "closed") == 0;
    if (sinks->left-- <= 0)
        return;
    rate_text(sink->rate, rate);
    cell(frame, sink->name, 32, false, OB_COLOR_NONE);
    cell(frame, " ", 1, false, OB_COLOR_NONE);
    cell(frame, sink->paused ? "paused" : sink->breaker, 10, false,
         closed && !sink->paused ? OB_COLOR_GREEN : OB_COLOR_RED);
    cell(frame, rate, 9, true, OB_COLOR_NONE);
    number(frame, sink->in_flight, 10, OB_COLOR_NONE);
    number(frame, sink->failed, 10, OB_COLOR_YELLOW);
    if (sink->code || sink->error)
        words(frame, OB_COLOR_DIM, "  %s%s%s", sink->code ? sink->code : "", sink->code && sink->error ? ": " : "",
              sink->error ? sink->error : "");
    end_line(frame);
}

static void draw_sinks(struct frame *frame, const struct ob_top *top, int lines)
{
    struct sinks sinks = {.frame = frame, .left = lines};
    cell(frame, "SINK", 32, false, OB_COLOR_BOLD);
    words(frame, OB_COLOR_BOLD, " %-10s%9s %9s %9s  %s", "BREAKER", "RATE", "IN FLIGHT", "FAILED", "LAST ERROR");
    end_line(frame);
    if (top->look.relays)
        ob_relays_sinks(top->look.relays, draw_sink, &sinks);
}

static void draw_groups(struct frame *frame, const struct ob_top *top, int lines)
{
    cell(frame, "FAILURES", 18, false, OB_COLOR_BOLD);
    words(frame, OB_COLOR_BOLD, "%9s %9s %9s %8s  %s", "MESSAGES", "RETRYING", "DEAD", "LAST", "ERROR");
    end_line(frame);
    for (int i = 0; i < lines && i < top->group_count; i++) {
        const struct ob_top_group *group = &top->groups[i];
        cell(frame, group->fingerprint, 17, false, OB_COLOR_DIM);
        number(frame, group->count, 10, OB_COLOR_NONE);
        number(frame, group->retrying, 10, OB_COLOR_YELLOW);
        number(frame, group->dead, 10, OB_COLOR_RED);
        age(frame, (double)(top->look.at_us - group->last_seen_us) / 1e6, 9);
        words(frame, OB_COLOR_NONE, "  %s%s%s", group->code ? group->code : "",
              group->code && group->sample ? ": " : "", group->sample ? group->sample : "");
        end_line(frame);
    }
}

static int least(size_t a, int b)
{
    return (size_t)b < a ? b : (int)a;
}

void ob_top_draw(FILE *file, const struct ob_top *top, const char *place, int columns, int rows, bool ansi)
{
    struct frame frame = {.file = file, .columns = columns, .left = columns, .ansi = ansi};
    int room = rows ? rows - HEAD - 3 - 3 : 3 * PART_ALL; /* titles, blank lines and the keys */
    room = room > 3 ? room : 3;
    int groups = least((size_t)top->group_count, rows ? room / 4 + 1 : PART_ALL);
    int sinks = least(top->look.sinks, rows ? room / 4 + 1 : PART_ALL);
    int topics = rows ? room - groups - sinks : PART_ALL;
    if (ansi)
        fputs("\033[H\033[K", file);
    draw_head(&frame, top, place);
    draw_topics(&frame, top, topics > 1 ? topics : 1);
    end_line(&frame);
    draw_sinks(&frame, top, sinks);
    end_line(&frame);
    draw_groups(&frame, top, groups);
    if (ansi) {
        words(&frame, OB_COLOR_DIM, "q quit  p pause  s sort  r refresh");
        fputs("\033[J", file);
    }
}

/* ---- JSON ---- */

static void put_topic(struct ob_json *json, const struct ob_status_row *row)
{
    ob_json_object(json);
    ob_json_text(json, "namespace", row->name_space);
    ob_json_text(json, "topic", row->topic);
    ob_json_count(json, "pending", row->pending);
    ob_json_count(json, "retrying", row->retrying);
    ob_json_count(json, "processing", row->processing);
    ob_json_count(json, "dead", row->dead);
    ob_json_key(json, "oldest_undelivered_s");
    ob_json_double(json, row->oldest_undelivered_s);
    ob_json_key(json, "paused");
    ob_json_bool(json, row->paused);
    ob_json_text(json, "last_code", row->last_code);
    ob_json_text(json, "last_error", row->last_error);
    ob_json_end(json);
}

static void put_group(struct ob_json *json, const struct ob_top_group *group)
{
    ob_json_object(json);
    ob_json_text(json, "fingerprint", group->fingerprint);
    ob_json_text(json, "code", group->code);
    ob_json_text(json, "sample", group->sample);
    ob_json_count(json, "count", group->count);
    ob_json_count(json, "dead", group->dead);
    ob_json_count(json, "retrying", group->retrying);
    ob_json_time(json, "last_seen", group->last_seen_us);
    ob_json_end(json);
}

void ob_top_json(const struct ob_top *top)
{
    const struct ob_status_row *total = &top->look.total;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_time(&json, "at", top->look.at_us);
    ob_json_key(&json, "out_rate");
    ob_json_double(&json, top->out_rate);
    ob_json_count(&json, "pending", total->pending);
    ob_json_count(&json, "due", total->due);
    ob_json_count(&json, "retrying", total->retrying);
    ob_json_count(&json, "processing", total->processing);
    ob_json_count(&json, "dead", total->dead);
    ob_json_count(&json, "dead_last_hour", total->dead_last_hour);
    ob_json_key(&json, "oldest_undelivered_s");
    ob_json_double(&json, total->oldest_undelivered_s);
    ob_json_key(&json, "estimated");
    ob_json_bool(&json, total->estimated);
    ob_json_count(&json, "pauses", (int64_t)top->look.pauses.count);
    ob_json_key(&json, "topics");
    ob_json_array(&json);
    sort_by = top->sort;
    qsort(top->look.topics, top->look.count, sizeof *top->look.topics, compare);
    for (size_t i = 0; i < top->look.count; i++)
        put_topic(&json, &top->look.topics[i]);
    ob_json_end(&json);
    ob_relays_json(&json, top->look.relays);
    ob_json_key(&json, "failures");
    ob_json_array(&json);
    for (int i = 0; i < top->group_count; i++)
        put_group(&json, &top->groups[i]);
    ob_json_end(&json);
    ob_json_end(&json);
    ob_say_json(&buf);
}

/* top.h - what the files of `outbox top` share. */
#ifndef OB_CLI_TOP_H
#define OB_CLI_TOP_H

#include "cli/cli.h"

/* A group of failures. */
struct ob_top_group {
    const char *fingerprint, *code, *sample;
    int64_t count, dead, retrying, last_seen_us;
};

enum { OB_TOP_GROUPS = 20 };
enum ob_top_sort { OB_TOP_OLDEST, OB_TOP_PENDING, OB_TOP_DEAD, OB_TOP_NAME, OB_TOP_SORTS };

/* What one frame shows. */
struct ob_top {
    struct ob_look look;
    struct ob_top_group groups[OB_TOP_GROUPS];
    int group_count;
    struct ob_arena arena;    /* of the groups */
    double out_rate, in_rate; /* messages a second; in_rate is negative while it is not known */
    enum ob_top_sort sort;
    bool paused;
    const char *trouble; /* why there is nothing newer; NULL: all is well */
};

/* ---- frame.c: what is shown ---- */

/* Writes a frame of so many columns and lines to file; ansi: with colours, and every line cleared to its end. rows 0: as many lines as
 * there is to show. */
void ob_top_draw(FILE *file, const struct ob_top *top, const char *place, int columns, int rows, bool ansi);
/* The same as a JSON document. */
void ob_top_json(const struct ob_top *top);

/* ---- terminal.c: a screen of our own, and back ---- */

/* Takes the terminal over; what it was is restored by ob_terminal_leave, at exit, and by signals that end or stop the process. */
bool ob_terminal_enter(void);
void ob_terminal_leave(void);
void ob_terminal_size(int *columns, int *rows);
/* Waits so long for a key. Returns it, 0 when the time is over or the size has changed, or -1 when there is no terminal any more. */
int ob_terminal_key(int timeout_ms);

#endif

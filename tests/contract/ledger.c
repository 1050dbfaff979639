/* ledger.c - see ledger.h. One write(2) per line on an O_APPEND descriptor: lines never mix. */
#include "ledger.h"

#include <fcntl.h>
#include <unistd.h>

int ledger_open(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

void ledger_write(int fd, const struct ledger_line *line)
{
    char text[128];
    int n = snprintf(text, sizeof(text), "%c %s %s %lld %d\n", line->deed, line->id, line->key[0] ? line->key : "-",
                     line->seq, line->ghost);
    if (write(fd, text, (size_t)n) != n)
        abort();
}

struct ledger_line *ledger_read(struct fx *fx, const char *path, size_t *n)
{
    struct ledger_line *lines = NULL, line;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        blame(fx, "there is no ledger");
    *n = 0;
    while (fscanf(file, " %c %36s %31s %lld %d", &line.deed, line.id, line.key, &line.seq, &line.ghost) == 5) {
        if (*n == room)
            lines = realloc(lines, (room = room * 2 + 1024) * sizeof(*lines));
        lines[(*n)++] = line;
    }
    fclose(file);
    return lines ? keep(fx, lines, free) : NULL;
}

uint32_t dice_roll(struct dice *dice, uint32_t sides)
{
    dice->state ^= dice->state << 13;
    dice->state ^= dice->state >> 7;
    dice->state ^= dice->state << 17;
    return (uint32_t)(dice->state >> 20) % sides;
}

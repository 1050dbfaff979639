/* top_terminal.c - the terminal of `outbox top`: plain ANSI sequences and termios, so it needs no terminal database.
 *
 * Signals that end the process restore the terminal first and then have their usual effect. Stopping (Ctrl-Z) restores it as well,
 * and continuing takes it over again. Handlers call only what may be called there: tcsetattr, write, sigaction, raise. */
#include "cli/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char enter_text[] = "\033[?1049h\033[?25l\033[2J"; /* the other screen, no cursor, empty */
static const char leave_text[] = "\033[0m\033[?25h\033[?1049l";

static struct termios saved;
static volatile sig_atomic_t inside, resized;

static void say(const char *text, size_t len)
{
    ssize_t ignored = write(STDOUT_FILENO, text, len);
    (void)ignored;
}

static void take(void)
{
    struct termios raw = saved;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C and Ctrl-Z are signals */
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    say(enter_text, sizeof enter_text - 1);
    inside = 1;
}

static void give_back(void)
{
    if (!inside)
        return;
    inside = 0;
    say(leave_text, sizeof leave_text - 1);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
}

static void on_end(int number)
{
    give_back();
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(number, &usual, NULL);
    raise(number);
}

static void on_change(int number)
{
    (void)number;
    resized = 1;
}

static void on_continue(int number);

static void on_stop(int number)
{
    int was = errno;
    give_back();
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(number, &usual, NULL);
    raise(number); /* takes effect when this handler has returned */
    errno = was;
}

static void watch(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(number, &action, NULL);
}

static void on_continue(int number)
{
    int was = errno;
    (void)number;
    watch(SIGTSTP, on_stop);
    if (!inside)
        take();
    resized = 1;
    errno = was;
}

bool ob_terminal_enter(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    if (tcgetattr(STDIN_FILENO, &saved) != 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        watch(ends[i], on_end);
    watch(SIGTSTP, on_stop);
    watch(SIGCONT, on_continue);
    watch(SIGWINCH, on_change);
    atexit(give_back);
    take();
    return true;
}

void ob_terminal_leave(void)
{
    give_back();
}

void ob_terminal_size(int *columns, int *rows)
{
    struct winsize size;
    *columns = 80;
    *rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        *columns = size.ws_col;
        *rows = size.ws_row;
    }
}

int ob_terminal_key(int timeout_ms)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char key;
    if (resized) {
        resized = 0;
        return 0;
    }
    int ready = poll(&wait, 1, timeout_ms);
    if (ready < 0)
        resized = 0; /* interrupted: draw again */
    if (ready <= 0)
        return ready == 0 || errno == EINTR ? 0 : -1;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    return got == 1 ? key : -1;
}

/* proc.c - starting, hearing, telling and killing the processes of a test; see proc.h. */
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 16, LINE_SIZE = 512, PATIENCE_MS = 30000 };

struct proc {
    pid_t pid; /* 0 once it has been waited for */
    int to, from;
    char buffer[LINE_SIZE];
    size_t filled;
};

static void proc_close(void *ptr)
{
    struct proc *proc = ptr;
    proc_kill(proc);
    close(proc->to);
    close(proc->from);
    free(proc);
}

struct proc *proc_start_(struct fx *fx, const char *role, ...)
{
    char *argv[ARGS_MAX] = {(char *)fixture.name, (char *)"--role", (char *)role, fx->place};
    size_t argc = 4;
    va_list args;
    va_start(args, role);
    while ((argv[argc] = va_arg(args, char *)) && argc + 1 < ARGS_MAX)
        argc++;
    va_end(args);

    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        blame(fx, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    if (pid < 0)
        blame(fx, "fork: %s", strerror(errno));
    struct proc *proc = calloc(1, sizeof(*proc));
    *proc = (struct proc){.pid = pid, .to = to[1], .from = from[0]};
    return keep(fx, proc, proc_close);
}

void proc_tell(struct fx *fx, struct proc *proc, const char *line)
{
    if (dprintf(proc->to, "%s\n", line) < 0)
        blame(fx, "tell \"%s\": %s", line, strerror(errno));
}

const char *proc_hear_(struct fx *fx, struct proc *proc)
{
    char *end;
    while (!(end = memchr(proc->buffer, '\n', proc->filled))) {
        struct pollfd ready = {.fd = proc->from, .events = POLLIN};
        if (poll(&ready, 1, PATIENCE_MS) == 0)
            blame(fx, "a process said nothing for %d s", PATIENCE_MS / 1000);
        ssize_t n = read(proc->from, proc->buffer + proc->filled, LINE_SIZE - proc->filled);
        if (n <= 0)
            blame(fx, "a process went away in silence");
        proc->filled += (size_t)n;
    }
    *end = '\0';
    const char *line = keep_text(fx, proc->buffer);
    proc->filled -= (size_t)(end + 1 - proc->buffer);
    memmove(proc->buffer, end + 1, proc->filled);
    return line;
}

void proc_expect_(struct fx *fx, struct proc *proc, const char *line)
{
    const char *said = proc_hear_(fx, proc);
    if (strcmp(said, line) != 0)
        blame(fx, "a process said \"%s\", wanted \"%s\"", said, line);
}

void proc_kill(struct proc *proc)
{
    if (proc->pid == 0)
        return;
    kill(proc->pid, SIGKILL);
    waitpid(proc->pid, NULL, 0);
    proc->pid = 0;
}

void proc_join_(struct fx *fx, struct proc *proc)
{
    int status = 0;
    for (int64_t end = now_us() + PATIENCE_MS * 1000LL; proc->pid;) {
        pid_t gone = waitpid(proc->pid, &status, WNOHANG);
        if (gone == proc->pid)
            proc->pid = 0;
        else if (now_us() > end)
            blame(fx, "a process does not end");
        else
            tick();
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        blame(fx, "a process ended with status %x", (unsigned)status);
}

bool proc_gone(struct proc *proc)
{
    if (proc->pid && waitpid(proc->pid, NULL, WNOHANG) == proc->pid)
        proc->pid = 0;
    return proc->pid == 0;
}

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

bool hear(char *line, size_t size)
{
    if (!fgets(line, (int)size, stdin))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

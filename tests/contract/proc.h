/* proc.h - real processes for tests that need somebody else: producers and workers that race, hang and get killed.
 *
 * A process is this very program started anew (never a bare fork: no store's handle survives one), playing a role from
 * the table in roles.c. The two talk in lines; every wait has an end. */
#ifndef CONTRACT_PROC_H
#define CONTRACT_PROC_H

#include "suite.h"

struct proc;

/* Arguments end with NULL. The process is killed when the test ends. */
struct proc *proc_start_(struct fx *fx, const char *role, ...) __attribute__((sentinel));
#define proc_start(fx, ...) proc_start_(AT(fx), __VA_ARGS__, (char *)NULL)
void proc_tell(struct fx *fx, struct proc *proc, const char *line);
/* The next line it says; kept. */
const char *proc_hear_(struct fx *fx, struct proc *proc);
#define proc_hear(fx, proc) proc_hear_(AT(fx), proc)
void proc_expect_(struct fx *fx, struct proc *proc, const char *line);
#define proc_expect(fx, proc, line) proc_expect_(AT(fx), proc, line)
void proc_kill(struct proc *proc); /* SIGKILL, and it is gone when this returns */
/* It must end by itself, well. */
void proc_join_(struct fx *fx, struct proc *proc);
#define proc_join(fx, proc) proc_join_(AT(fx), proc)
/* False while it runs; true once it is gone, however it went. */
bool proc_gone(struct proc *proc);

/* The other side, for roles. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* False when the test has gone away. */
bool hear(char *line, size_t size);

struct role {
    const char *name;
    int (*play)(struct fx *fx, int argc, char **argv);
};
extern const struct role roles[];                        /* ends with a NULL name */
int load_producer(struct fx *fx, int argc, char **argv); /* of load_roles.c */
int load_worker(struct fx *fx, int argc, char **argv);

#endif

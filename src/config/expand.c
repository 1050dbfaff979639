/* expand.c - references in values: ${VAR}, ${VAR:-default}, and file:PATH for secrets.
 *
 * A dollar sign is literal, as in a shell's $$ and $HOME, unless a brace follows: there $$ is one dollar sign, so that
 * $${VAR} is not a reference.
 *
 * References are resolved in scalar values after the YAML was parsed, never in the text of the file, so that the value of
 * a variable cannot become structure. Inserted text is not expanded again. */
#include "config/config_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MOST = 64 * 1024 };

const char *ob_loader_env(const struct ob_loader *ld, const char *name)
{
    size_t len = strlen(name);
    for (char *const *at = ld->in->env; at && *at; at++)
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
            return (*at)[len + 1] ? *at + len + 1 : NULL;
    return NULL;
}

/* One "${...}"; *at points after the opening brace, and is moved past the closing one. */
static bool expand_one(struct ob_loader *ld, const char **at, const struct ob_config_place *place, const char *key,
                       struct ob_buf *out)
{
    const char *name = *at, *close = strchr(name, '}');
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    if (!close || len == 0 || (name[len] != '}' && strncmp(name + len, ":-", 2) != 0)) {
        ob_loader_problem(ld, true, place, key, NULL, NULL,
                          "write a reference as ${NAME} or ${NAME:-default}, and a literal ${ as $${");
        return false;
    }
    const char *variable = ob_loader_printf(ld, "%.*s", (int)len, name);
    const char *value = ob_loader_env(ld, variable);
    *at = close + 1;
    if (value)
        ob_buf_puts(out, value);
    else if (name[len] == ':')
        ob_buf_put(out, name + len + 2, (size_t)(close - name) - len - 2);
    else {
        ob_loader_problem(ld, true, place, key, NULL, NULL,
                          "environment variable %s is not set; set it, or write ${%s:-default}, or $${%s} for the "
                          "literal text",
                          variable, variable, variable);
        return false;
    }
    return true;
}

bool ob_config_expand(struct ob_loader *ld, const char *raw, const struct ob_config_place *place, const char *key,
                      const char **text, bool *changed)
{
    struct ob_buf out = OB_BUF_INIT;
    bool ok = true;
    *text = raw;
    *changed = false;
    if (!strchr(raw, '$'))
        return true;
    for (const char *at = raw; *at && ok;) {
        size_t plain = strcspn(at, "$"), dollars = strspn(at + plain, "$");
        bool brace = at[plain + dollars] == '{';
        ob_buf_put(&out, at, plain + (brace ? dollars / 2 : dollars));
        at += plain + dollars;
        if (brace && dollars % 2) {
            at++;
            *changed = true;
            ok = expand_one(ld, &at, place, key, &out);
        }
    }
    if (!ob_buf_ok(&out))
        ld->nomem = true;
    *text = ob_loader_dup(ld, ob_buf_text(&out));
    ob_buf_fini(&out);
    return ok;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

const char *ob_config_beside(struct ob_loader *ld, const char *path)
{
    const char *slash = ld->file ? strrchr(ld->file, '/') : NULL;
    if (*path == '/' || !slash)
        return path;
    return ob_loader_printf(ld, "%.*s/%s", (int)(slash - ld->file), ld->file, path);
}

/* Reads everything into the buffer; returns NULL, or the error text. */
static const char *read_all(int fd, size_t most, struct ob_buf *buf)
{
    enum { CHUNK = 16 * 1024 };
    while (buf->len <= most) {
        char *room = ob_buf_reserve(buf, CHUNK);
        if (!room)
            return "out of memory";
        ssize_t got = read(fd, room, CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return strerror(errno);
        if (got == 0)
            return NULL;
        ob_buf_added(buf, (size_t)got);
    }
    return "file too large";
}

char *ob_config_slurp(struct ob_loader *ld, const char *path, size_t most, size_t *len, struct stat *stat,
                      const char **wrong)
{
    struct ob_buf buf = OB_BUF_INIT;
    char *kept = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    *wrong = NULL;
    if (fd < 0 || fstat(fd, stat) != 0)
        *wrong = strerror(errno);
    else if (S_ISDIR(stat->st_mode))
        *wrong = "is a directory";
    else
        *wrong = read_all(fd, most, &buf);
    if (!*wrong) {
        *len = buf.len;
        kept = ob_arena_memdup(ld->arena, ob_buf_text(&buf), buf.len);
        if (!kept)
            *wrong = "out of memory";
    }
    ld->nomem = ld->nomem || buf.failed || (!*wrong && !kept);
    ob_buf_fini(&buf);
    if (fd >= 0)
        close(fd);
    return kept;
}

bool ob_config_file_ref(struct ob_loader *ld, const char *written, const struct ob_config_place *place, const char *key,
                        const char **text)
{
    const char *path = ob_config_beside(ld, written + strlen("file:")), *wrong;
    size_t len;
    struct stat stat = {0};
    char *content = ob_config_slurp(ld, path, SECRET_MOST, &len, &stat, &wrong);
    if (!content) {
        ob_loader_problem(ld, true, place, key, NULL, NULL, "cannot read %s: %s", path, wrong);
        return false;
    }
    if (strlen(content) != len) {
        ob_loader_problem(ld, true, place, key, NULL, NULL, "%s contains a NUL character", path);
        return false;
    }
    if (S_ISREG(stat.st_mode) && (stat.st_mode & S_IROTH))
        ob_loader_problem(ld, false, place, key, NULL, NULL, "%s is readable by every user; run: chmod 600 %s", path,
                          path);
    if (len && content[len - 1] == '\n')
        content[--len] = '\0';
    if (len && content[len - 1] == '\r')
        content[--len] = '\0';
    *text = content;
    return true;
}

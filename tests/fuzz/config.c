/* config.c - fuzzes the configuration: any file is a configuration, or a list of errors, never both. */
#include "fuzz.h"

#include "config/config.h"
#include "sink/registry.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz.yaml", 0);
    char path[64];
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    char *env[] = {(char *)"TOKEN=secret", NULL};
    struct ob_config_input input = {.path = path, .env = env, .load = ob_sink_load, .at = ob_sink_at};
    struct ob_config_report report;
    struct ob_config *config = NULL;
    ob_config_report_init(&report);
    enum outbox_code code = ob_config_load(&input, &config, &report);
    if ((code == OUTBOX_OK) != (config != NULL) || (code == OUTBOX_CONFIG && !report.errors))
        abort();
    struct ob_buf buf = OB_BUF_INIT;
    for (const struct ob_config_problem *problem = report.first; problem; problem = problem->next)
        ob_config_problem_text(problem, &buf);
    ob_buf_fini(&buf);
    ob_config_free(config);
    ob_config_report_fini(&report);
    close(fd);
    return 0;
}

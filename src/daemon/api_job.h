/* api_job.h - jobs of the API: acts on many messages, done by a thread of their own. */
#ifndef OB_DAEMON_API_JOB_H
#define OB_DAEMON_API_JOB_H

#include "core/filter.h"
#include "daemon/api.h"

struct ob_jobs;
struct job;

/* What the callbacks of a job's bulk act need. */
struct ob_api_job_run {
    struct ob_jobs *jobs;
    struct job *job;
};

/* NULL: no memory, or no thread. */
struct ob_jobs *ob_jobs_start(void);
/* A job under way ends after its step; what it has not done is not done. Frees it; accepts NULL. */
void ob_jobs_stop(struct ob_jobs *jobs);

#endif

/* tuning.h - the settings that an operator changes while relays run, as names and texts in the store.
 *
 *   poll                          10ms to 1h       how often to look without a wake-up
 *   batch                         1 to 10000       most messages claimed at once
 *   enabled                       on, off          off: claim nothing
 *   sink.NAME.rate                100/s, 600/m, 5000/h, off
 *   sink.NAME.concurrency         1 to 100000      messages at the sink at once */
#ifndef OB_CORE_TUNING_H
#define OB_CORE_TUNING_H

#include <outbox/outbox.h>

enum ob_tuning_kind { OB_TUNE_POLL, OB_TUNE_BATCH, OB_TUNE_ENABLED, OB_TUNE_RATE, OB_TUNE_CONCURRENCY };

enum { OB_TUNING_TEXT = 32, OB_TUNING_SINK = 65 };

struct ob_tuning {
    enum ob_tuning_kind kind;
    char sink[OB_TUNING_SINK];  /* RATE, CONCURRENCY; otherwise "" */
    int64_t number;             /* POLL: microseconds. ENABLED: 0, 1. RATE: so many; 0: no limit */
    int64_t period_us;          /* RATE: in so much time */
    char value[OB_TUNING_TEXT]; /* the one way to write it */
};

/* OUTBOX_INVALID for a name that there is not, or a value that it does not take. value may be NULL: the name only. */
enum outbox_code ob_tuning_parse(const char *name, const char *value, struct ob_tuning *tuning,
                                 struct outbox_error *err);

#endif

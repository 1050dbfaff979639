/* tuning.h - the settings that an operator can change while relays run, stored as names and texts.
 *
 *   poll                          10ms to 1h       how often to claim without a wake-up
 *   batch                         1 to 10000       maximum number of messages per claim
 *   enabled                       on, off          off: claim nothing
 *   sink.NAME.rate                100/s, 600/m, 5000/h, off
 *   sink.NAME.concurrency         1 to 100000      maximum number of messages in flight */
#ifndef OB_CORE_TUNING_H
#define OB_CORE_TUNING_H

#include <outbox/outbox.h>

enum ob_tuning_kind { OB_TUNE_POLL, OB_TUNE_BATCH, OB_TUNE_ENABLED, OB_TUNE_RATE, OB_TUNE_CONCURRENCY };

enum { OB_TUNING_TEXT = 32, OB_TUNING_SINK = 65 };

struct ob_tuning {
    enum ob_tuning_kind kind;
    char sink[OB_TUNING_SINK];  /* RATE, CONCURRENCY; otherwise "" */
    int64_t number;             /* POLL: microseconds. ENABLED: 0, 1. RATE: messages per period; 0: no limit */
    int64_t period_us;          /* RATE: the period */
    char value[OB_TUNING_TEXT]; /* in its canonical form */
};

/* OUTBOX_INVALID for an unknown name or an invalid value. If value is NULL only the name is parsed. */
enum outbox_code ob_tuning_parse(const char *name, const char *value, struct ob_tuning *tuning,
                                 struct outbox_error *err);

#endif

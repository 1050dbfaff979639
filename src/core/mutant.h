/* mutant.h - planted bugs, for the test of the tests. In every build but that of tests/sim/mutants they are false, and
 * the compiler drops them. Each must be caught by the simulator; see tests/sim/mutants.c for what it is meant to break. */
#ifndef OB_CORE_MUTANT_H
#define OB_CORE_MUTANT_H

enum ob_mutant {
    OB_MUTANT_NONE,
    OB_MUTANT_ACK_BEFORE_SEND,
    OB_MUTANT_TIMEOUT_IS_SUCCESS,
    OB_MUTANT_DROPPED_ROW,
    OB_MUTANT_NO_ORDER,
    OB_MUTANT_RUN_GOES_ON,
    OB_MUTANT_LEASE_IGNORED,
    OB_MUTANT_NO_RENEWAL,
    OB_MUTANT_EXPIRED_NACK,
    OB_MUTANT_BREAKER_SPENDS,
    OB_MUTANT_BREAKER_CLAIMS,
    OB_MUTANT_BREAKER_FLOODS,
    OB_MUTANT_BREAKER_GULLIBLE,
    OB_MUTANT_LOCAL_ANSWERS,
    OB_MUTANT_NO_RATE,
    OB_MUTANT_ONE_TOO_MANY,
    OB_MUTANT_NO_TOMBS,
    OB_MUTANT_ONE_WORKER_NAME,
    OB_MUTANT_UNKNOWN_RELEASED,
    OB_MUTANT_RELEASE_SPENDS,
    OB_MUTANT_LATE_REPLY,
    OB_MUTANT_RETRY_AFTER_IGNORED,
    OB_MUTANT_DIES_OUT_OF_TURN,
    OB_MUTANT_STOP_HOLDS,
    OB_MUTANT_INTERRUPTED_SPENDS,
    OB_MUTANT_SETTLE_FORGOTTEN,
    OB_MUTANT_WAKE_LOST,
    OB_MUTANT_NO_FENCING,
    OB_MUTANT_STORE_DROPS_ROW,
    OB_MUTANT_STORE_FORGETS_KEY,
    OB_MUTANT_COUNT
};

#ifdef OB_MUTANTS
extern enum ob_mutant ob_mutant;
#define OB_MUTANT(name) (ob_mutant == OB_MUTANT_##name)
#else
#define OB_MUTANT(name) 0
#endif

#endif

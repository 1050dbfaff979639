/* plans.c - whatever is looked up among a million messages comes from an index. */
#include "suite.h"

static void served_by_an_index(struct fx *fx)
{
    static const char *const names[LOOKUP_COUNT] = {"due", "expired leases", "due of a tenant", "of a tenant",
                                                    "of a subject"};
    char text[TEXT_MAX];
    fixture.fill(fx->place, 1000000);
    for (int what = 0; what < LOOKUP_COUNT; what++) {
        fixture.plan(fx->place, what, text);
        if (text[0])
            blame(AT(fx), "%s: %s", names[what], text);
    }
}

const struct contract_test plans_tests[] = {
    {"M20 V15: what is due, expired, of a tenant or about a subject is found by an index at a million messages",
     served_by_an_index},
    {NULL, NULL, 0},
};

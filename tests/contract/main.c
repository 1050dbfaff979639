/* main.c - one program per store: runs every contract test, each on a fresh outbox, and reports in TAP.
 *
 *     contract_pg                 all of it
 *     contract_pg 'M10'           the tests whose name contains M10
 *     contract_pg --role ...      a process of a test; see proc.h
 *
 * A test that cannot apply to a store is reported as such with its reason; none is left out in silence. */
#include "proc.h"

#include <signal.h>

#ifdef HAVE_ZSTD
#define COMPRESS(theme) theme(compress)
#else
#define COMPRESS(theme)
#endif
#define THEMES(theme) \
    theme(enqueue) theme(enqueue_many) theme(dedupe) theme(sequence) theme(claim) theme(scope) theme(lease) \
        theme(fencing) theme(settle) theme(retry) theme(order) theme(dead_key) theme(order_load) theme(views) \
            theme(operators) theme(levers) theme(filters) theme(tails) theme(groups) theme(history) theme(keys) \
                theme(pause) theme(retention) theme(tenant) theme(status) theme(bad_message) theme(bad_call) \
                    theme(limits) theme(wake) theme(async_store) theme(async_log) theme(plans) theme(relays) \
                        theme(fair) theme(bounds) COMPRESS(theme)

#define DECLARE(theme) extern const struct contract_test theme##_tests[];
THEMES(DECLARE)
#define LIST(theme) theme##_tests,
static const struct contract_test *const themes[] = {THEMES(LIST)};

static int test_setup(void **state)
{
    struct fx *fx = calloc(1, sizeof(*fx));
    fx->test = *state;
    fx->kept = calloc(1, sizeof(*fx->kept));
    fx_at(fx, __FILE__, __LINE__);
    *state = fx;
    fixture.create(fx->place);
    fx_open(fx);
    return 0;
}

static int test_teardown(void **state)
{
    struct fx *fx = *state;
    fx_fini(fx);
    fixture.destroy(fx->place);
    free(fx->kept);
    free(fx);
    return 0;
}

static void test_run(void **state)
{
    struct fx *fx = *state;
    fx->test->run(fx);
}

const char *fixture_lacks(unsigned abilities)
{
    for (const struct lack *lack = fixture.lacks; lack && lack->ability; lack++)
        if (lack->ability & abilities)
            return lack->why;
    return NULL;
}

static void test_not_applicable(void **state)
{
    (void)state;
}

/* A TAP directive is part of the test's line, and cmocka prints the name there as it is. */
static char *skip_name(const struct contract_test *test)
{
    char *name = NULL;
    if (asprintf(&name, "%s # SKIP not applicable: %s", test->name, fixture_lacks(test->needs)) < 0)
        abort();
    return name;
}

static int play(int argc, char **argv)
{
    for (const struct role *role = roles; role->name; role++) {
        if (strcmp(role->name, argv[2]) != 0)
            continue;
        struct kept *kept = NULL;
        struct fx fx = {.is_child = true, .kept = &kept};
        snprintf(fx.place, sizeof(fx.place), "%s", argv[3]);
        fx_open(AT(&fx));
        int status = role->play(&fx, argc - 4, argv + 4);
        fx_fini(&fx);
        return status;
    }
    fprintf(stderr, "no role %s\n", argv[2]);
    return 2;
}

static int run_all(const char *pattern)
{
    struct CMUnitTest *tests = NULL;
    char **names = NULL;
    size_t n = 0, named = 0;
    for (size_t i = 0; i < sizeof(themes) / sizeof(themes[0]); i++) {
        for (const struct contract_test *test = themes[i]; test->name; test++) {
            if (pattern && !strstr(test->name, pattern))
                continue;
            tests = realloc(tests, (n + 1) * sizeof(*tests));
            if (fixture_lacks(test->needs)) {
                names = realloc(names, (named + 1) * sizeof(*names));
                names[named] = skip_name(test);
                tests[n++] = (struct CMUnitTest){names[named++], test_not_applicable, NULL, NULL, NULL};
            } else {
                tests[n++] = (struct CMUnitTest){test->name, test_run, test_setup, test_teardown, (void *)test};
            }
        }
    }
    fixture.setup();
    int failed = _cmocka_run_group_tests(fixture.name, tests, n, NULL, NULL);
    fixture.teardown();
    for (size_t i = 0; i < named; i++)
        free(names[i]);
    free(names);
    free(tests);
    return failed != 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 4 && strcmp(argv[1], "--role") == 0)
        return play(argc, argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (getenv("OUTBOX_TEST_FILTER"))
        cmocka_set_test_filter(getenv("OUTBOX_TEST_FILTER"));
    return run_all(argc > 1 ? argv[1] : NULL);
}

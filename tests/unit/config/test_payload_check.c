/* test_payload_check.c - payloads by the schema of their route. Proves: S12: what fails is told with path and rule. */
#include "base/utf8.h"
#include "config/payload_check.h"
#include "config_fixture.h"

#define HEAD "store: sqlite:a.db\nsinks: {a: {kind: null}}\n"
#define ROUTES "routes:\n- {topic: 'orders.*', sink: a, schema: schema.json}\n- {sink: a}\n"

static const char schema[] = "{\"properties\":{\"amount\":{\"exclusiveMinimum\":0}}}";

static const struct ob_config *load(struct fixture *fx, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/schema.json", fx->folder);
    fx_write(path, text, strlen(text), 0600);
    fx_load(fx, HEAD ROUTES);
    assert_int_equal(fx->code, OUTBOX_OK);
    return fx->config;
}

static struct outbox_delivery message(const char *topic, const char *payload)
{
    return (struct outbox_delivery){
        .name_space = "default", .topic = topic, .payload = payload, .payload_len = strlen(payload)};
}

static void a_fault_names_path_and_rule(void **state)
{
    const struct ob_config *config = load(*state, schema);
    struct outbox_delivery good = message("orders.paid", "{\"amount\":1}"),
                           bad = message("orders.paid", "{\"amount\":0}");
    struct outbox_delivery other = message("mail", "{\"amount\":0}"), bytes = message("orders.paid", "hello");
    char why[400];
    assert_int_equal(ob_payload_check(config, &good, why, sizeof why), OUTBOX_OK);
    assert_int_equal(ob_payload_check(config, &bad, why, sizeof why), OUTBOX_INVALID);
    assert_string_equal(why, "/amount: must be > 0 (exclusiveMinimum) "
                             "[schema.json#/properties/amount/exclusiveMinimum]");
    assert_int_equal(ob_payload_check(config, &other, why, sizeof why), OUTBOX_OK);
    assert_int_equal(ob_payload_check(config, &bytes, why, sizeof why), OUTBOX_INVALID);
    assert_string_equal(why, "payload: 1:1: not a JSON value [schema.json]");
}

static void the_text_is_cut_between_characters(void **state)
{
    const struct ob_config *config = load(*state, "{\"additionalProperties\":false}");
    struct outbox_delivery bad = message("orders.paid", "{\"\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\":0}");
    for (size_t size = 1; size < 20; size++) {
        char why[20];
        assert_int_equal(ob_payload_check(config, &bad, why, size), OUTBOX_INVALID);
        assert_true(strlen(why) < size && ob_utf8_valid(why, strlen(why)));
        assert_true(strlen(why) + 3 >= size);
    }
}

static void without_memory_nothing_is_judged(void **state)
{
    const struct ob_config *config = load(*state, schema);
    struct outbox_delivery good = message("orders.paid", "{\"amount\":1}");
    char why[400];
    ob_fail_alloc(0);
    enum outbox_code code = ob_payload_check(config, &good, why, sizeof why);
    assert_true(ob_fail_alloc_end());
    assert_int_equal(code, OUTBOX_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fault_names_path_and_rule, fx_setup, fx_teardown),
        cmocka_unit_test_setup_teardown(the_text_is_cut_between_characters, fx_setup, fx_teardown),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_judged, fx_setup, fx_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

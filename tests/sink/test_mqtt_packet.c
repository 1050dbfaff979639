/* test_mqtt_packet.c - packets of MQTT, good ones and anything else. Proves: S13 (answers by their codes). */
#include "ob_test.h"
#include "sink/broker/mqtt/packet.h"

#include <string.h>

static ssize_t decode(const char *data, size_t len, struct ob_mqtt_packet *packet)
{
    const char *why = NULL;
    ssize_t used = ob_mqtt_decode(data, len, packet, &why);
    assert_true((used < 0) == (why != NULL));
    return used;
}
#define DECODE(text, packet) decode(text, sizeof(text) - 1, packet)

static void a_greeting_says_what_is_allowed(void **state)
{
    (void)state;
    struct ob_mqtt_packet packet;
    assert_int_equal(DECODE("\x20\x03\x00\x00\x00", &packet), 5);
    assert_int_equal(packet.type, OB_MQTT_CONNACK);
    assert_int_equal(packet.receive_maximum, 65535);
    assert_int_equal(packet.qos_maximum, 2);
    assert_true(packet.retains);
    assert_int_equal(DECODE("\x20\x18\x00\x87\x15"
                            "\x21\x00\x14\x27\x00\x00\x07\xd0\x24\x01\x25\x00\x13\x00\x09\x1f\x00\x03why",
                            &packet),
                     26);
    assert_int_equal(packet.reason, 0x87);
    assert_int_equal(packet.receive_maximum, 20);
    assert_int_equal(packet.packet_maximum, 2000);
    assert_int_equal(packet.qos_maximum, 1);
    assert_false(packet.retains);
    assert_int_equal(packet.keepalive, 9);
    assert_string_equal(packet.said, "why");
    assert_int_equal(DECODE("\x20\x02\x00\x01", &packet), 4); /* of MQTT 3 */
    assert_int_equal(packet.reason, 1);
}

static void an_answer_names_its_message(void **state)
{
    (void)state;
    struct ob_mqtt_packet packet;
    assert_int_equal(DECODE("\x40\x02\x01\x02\x40", &packet), 4); /* and the next has begun */
    assert_int_equal(packet.id, 0x102);
    assert_int_equal(packet.reason, 0);
    assert_int_equal(DECODE("\x40\x03\x01\x02\x97", &packet), 5);
    assert_int_equal(packet.reason, 0x97);
    assert_int_equal(DECODE("\xd0\x00", &packet), 2);
    assert_int_equal(DECODE("\xe0\x01\x8b", &packet), 3);
    assert_int_equal(packet.reason, 0x8b);
}

/* However it is cut, the rest is waited for. */
static void what_is_not_whole_is_waited_for(void **state)
{
    (void)state;
    static const char whole[] = "\x40\x0a\x01\x02\x97\x06\x1f\x00\x03why";
    struct ob_mqtt_packet packet;
    for (size_t len = 0; len + 1 < sizeof whole; len++)
        assert_int_equal(decode(whole, len, &packet), 0);
    assert_int_equal(decode(whole, sizeof whole - 1, &packet), sizeof whole - 1);
}

static void what_is_no_answer_is_refused(void **state)
{
    (void)state;
    struct ob_mqtt_packet packet;
    assert_int_equal(DECODE("H", &packet), -1);                                /* text */
    assert_int_equal(DECODE("\x41\x02\x00\x01", &packet), -1);                 /* flags */
    assert_int_equal(DECODE("\x30\x02\x00\x01", &packet), -1);                 /* a message for us */
    assert_int_equal(DECODE("\x40\xff\xff\xff\x7f", &packet), -1);             /* 256 MB */
    assert_int_equal(DECODE("\x40\xff\xff\xff\xff\x01", &packet), -1);         /* no length */
    assert_int_equal(DECODE("\x40\x02\x00\x00", &packet), -1);                 /* no message */
    assert_int_equal(DECODE("\x40\x01\x00", &packet), -1);                     /* half a number */
    assert_int_equal(DECODE("\x20\x05\x00\x00\x02\x7f\x00", &packet), -1);     /* an unknown property */
    assert_int_equal(DECODE("\x20\x06\x00\x00\x03\x1f\xff\xff", &packet), -1); /* a text longer than its packet */
    assert_int_equal(DECODE("\x20\x04\x00\x00\x7f\x00", &packet), -1);         /* properties longer than theirs */
    assert_int_equal(DECODE("\xd0\x01\x00", &packet), -1);
}

/* Nothing that comes makes it read beyond the end, which the sanitizers watch, or claim more than there is. */
static void anything_may_come(void **state)
{
    (void)state;
    static const char seeds[][32] = {
        "\x20\x18\x00\x87\x15\x21\x00\x14\x27\x00\x00\x07\xd0\x24\x01\x25\x00\x13\x00\x09\x1f\x00\x03why",
        "\x40\x0a\x01\x02\x97\x06\x1f\x00\x03why", "\xe0\x0a\x8b\x08\x26\x00\x01k\x00\x02vv"};
    uint32_t chance = 1;
    for (int i = 0; i < 200000; i++) {
        struct ob_mqtt_packet packet;
        size_t len = (size_t)(chance >> 8) % sizeof seeds[0] + 1;
        char *bytes = malloc(len);
        memcpy(bytes, seeds[i % 3], len);
        for (int changes = i % 4; changes; changes--) {
            chance = chance * 1664525u + 1013904223u;
            bytes[(chance >> 8) % len] = (char)(chance >> 24);
        }
        chance = chance * 1664525u + 1013904223u;
        assert_true(decode(bytes, len, &packet) <= (ssize_t)len);
        free(bytes);
    }
}

static void a_message_is_written_as_the_standard_says(void **state)
{
    (void)state;
    static const struct ob_mqtt_property properties[] = {{"k", "vv"}};
    struct ob_mqtt_publish publish = {.topic = "a/b",
                                      .topic_len = 3,
                                      .content_type = "t",
                                      .body = "xyz",
                                      .body_len = 3,
                                      .id = 0x102,
                                      .qos = 1,
                                      .retain = true,
                                      .expires_s = 60,
                                      .properties = properties,
                                      .property_count = 1};
    static const char wanted[] = "\x33\x1c\x00\x03"
                                 "a/b\x01\x02\x11\x03\x00\x01t\x02\x00\x00\x00\x3c\x26\x00\x01k\x00\x02vvxyz";
    struct ob_buf buf = OB_BUF_INIT;
    ob_mqtt_put_publish(&buf, &publish);
    assert_int_equal(buf.len, ob_mqtt_publish_size(&publish));
    assert_int_equal(buf.len, sizeof wanted - 1);
    assert_memory_equal(buf.data, wanted, buf.len);
    ob_buf_reset(&buf);
    ob_mqtt_put_connect(&buf, &(struct ob_mqtt_login){.username = "u", .password = "p", .keepalive = 30});
    static const char hello[] =
        "\x10\x18\x00\x04MQTT\x05\xc2\x00\x1e\x05\x27\x00\x01\x00\x00\x00\x00\x00\x01u\x00\x01p";
    assert_int_equal(buf.len, sizeof hello - 1);
    assert_memory_equal(buf.data, hello, buf.len);
    ob_buf_fini(&buf);
}

static void texts(void **state)
{
    (void)state;
    assert_true(ob_mqtt_text_ok("röd \xf0\x9f\x98\x80", 9));
    assert_false(ob_mqtt_text_ok("a\x01", 2));
    assert_false(ob_mqtt_text_ok("\xc2\x85", 2));     /* a control character */
    assert_false(ob_mqtt_text_ok("\xef\xbf\xbf", 3)); /* no character */
    assert_false(ob_mqtt_text_ok("\xc3", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greeting_says_what_is_allowed),
        cmocka_unit_test(an_answer_names_its_message),
        cmocka_unit_test(what_is_not_whole_is_waited_for),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(anything_may_come),
        cmocka_unit_test(a_message_is_written_as_the_standard_says),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

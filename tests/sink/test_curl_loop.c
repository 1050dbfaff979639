/* test_curl_loop.c - connections that do not come about in time: what libcurl then closes without a word.
 *
 * Proves: N3, N5. */
#include "ob_test.h"

#include "sink/curl/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { CONNECT_US = 1000000 };

/* A port of two addresses. The first does not answer, since its backlog is full; the second does. */
struct place {
    int silent, callers[4], open;
    uint16_t port;
    uv_loop_t uv;
    struct ob_net_guard guard;
    ob_curl_loop *loop;
};

struct outcome {
    struct ob_curl_call call; /* first: on_done knows it by that */
    struct curl_slist *addresses;
    CURLcode result;
};

static int listen_at(const char *address, uint16_t *port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int place_open(void **state)
{
    static struct place place;
    static const struct ob_curl_limits limits = {
        .idle_us = 60000000, .connect_us = CONNECT_US, .total_us = 10 * CONNECT_US};
    struct outbox_error err;
    place = (struct place){.port = 0};
    place.silent = listen_at("127.0.0.1", &place.port, 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(place.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    for (size_t n = 0; n < OB_COUNT(place.callers); n++) {
        place.callers[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(place.callers[n], (struct sockaddr *)&at, sizeof at);
    }
    place.open = listen_at("127.0.0.2", &place.port, 8);
    uv_loop_init(&place.uv);
    ob_net_guard_init(&place.guard);
    assert_int_equal(ob_net_guard_allow(&place.guard, "127.0.0.0/8", &err), OUTBOX_OK);
    assert_int_equal(ob_curl_loop_new(&place.uv, &place.guard, &limits, &place.loop, &err), OUTBOX_OK);
    *state = &place;
    return 0;
}

static int place_close(void **state)
{
    struct place *place = *state;
    ob_curl_loop_free(place->loop);
    uv_run(&place->uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&place->uv), 0);
    ob_net_guard_fini(&place->guard);
    for (size_t n = 0; n < OB_COUNT(place->callers); n++)
        close(place->callers[n]);
    close(place->silent);
    close(place->open);
    return 0;
}

static void on_done(struct ob_curl_call *call, CURLcode result)
{
    ((struct outcome *)call)->result = result;
}

/* A connection to the addresses in turn, and nothing sent. */
static void begin(struct place *place, struct outcome *outcome, const char *addresses)
{
    char text[80];
    assert_true(ob_curl_call_init(&outcome->call, place->loop, on_done));
    snprintf(text, sizeof text, "two.test:%d:%s", place->port, addresses);
    outcome->addresses = curl_slist_append(NULL, text);
    snprintf(text, sizeof text, "http://two.test:%d/", place->port);
    curl_easy_setopt(outcome->call.easy, CURLOPT_RESOLVE, outcome->addresses);
    curl_easy_setopt(outcome->call.easy, CURLOPT_URL, text);
    curl_easy_setopt(outcome->call.easy, CURLOPT_CONNECT_ONLY, 1L);
    assert_true(ob_curl_start(&outcome->call));
    ob_curl_go(place->loop);
}

static CURLcode end(struct place *place, struct outcome *outcome)
{
    while (outcome->call.out)
        uv_run(&place->uv, UV_RUN_ONCE);
    ob_curl_call_fini(&outcome->call);
    curl_slist_free_all(outcome->addresses);
    return outcome->result;
}

static void the_next_address_is_tried(void **state)
{
    struct place *place = *state;
    struct outcome outcome;
    begin(place, &outcome, "127.0.0.1,127.0.0.2");
    assert_int_equal(end(place, &outcome), CURLE_OK);
    assert_false(outcome.call.starved);
}

/* A socket that was closed unannounced gives its number to the next one. */
static void a_new_connection_takes_the_number_of_one_that_failed(void **state)
{
    struct place *place = *state;
    for (int round = 0; round < 2; round++) {
        struct outcome failed, good;
        begin(place, &failed, "127.0.0.1");
        assert_int_equal(end(place, &failed), CURLE_OPERATION_TIMEDOUT);
        begin(place, &good, "127.0.0.2");
        assert_int_equal(end(place, &good), CURLE_OK);
    }
}

/* The loop comes round so late that the time is over before the socket is watched. */
static void a_late_loop_watches_no_closed_socket(void **state)
{
    struct place *place = *state;
    struct outcome outcome;
    begin(place, &outcome, "127.0.0.1");
    usleep(CONNECT_US + 100000);
    assert_int_equal(end(place, &outcome), CURLE_OPERATION_TIMEDOUT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_address_is_tried, place_open, place_close),
        cmocka_unit_test_setup_teardown(a_new_connection_takes_the_number_of_one_that_failed, place_open, place_close),
        cmocka_unit_test_setup_teardown(a_late_loop_watches_no_closed_socket, place_open, place_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_curl_guard.c - the address is checked before each request, also on a connection that was made when it was allowed.
 *
 * Proves: N3 (the guard against requests forged through a URL). */
#include "ob_test.h"

#include "sink/curl/loop.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* ---- a server: one thread, one connection after the other, an empty answer to every request ---- */

struct server {
    int fd, port;
    atomic_int connections, requests;
    pthread_t thread;
};

static void serve(struct server *server, int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char bytes[4096];
    while (read(fd, bytes, sizeof bytes) > 0) { /* a request of ours comes in one piece */
        server->requests++;
        if (write(fd, answer, sizeof answer - 1) < 0)
            break;
    }
    close(fd);
}

static void *run_server(void *arg)
{
    struct server *server = arg;
    for (int fd; (fd = accept(server->fd, NULL, NULL)) >= 0;) {
        server->connections++;
        serve(server, fd);
    }
    return NULL;
}

static void server_open(struct server *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server->fd, 8), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&at, &len), 0);
    server->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, run_server, server), 0);
}

static void server_close(struct server *server)
{
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->fd);
}

/* ---- the test ---- */

struct ended {
    struct ob_curl_call call;
    CURLcode result;
    uv_loop_t *uv;
};

static void on_done(struct ob_curl_call *call, CURLcode result)
{
    struct ended *ended = (struct ended *)call;
    ended->result = result;
    uv_stop(ended->uv);
}

static CURLcode request(struct ended *ended)
{
    assert_true(ob_curl_start(&ended->call));
    while (ended->call.out)
        uv_run(ended->uv, UV_RUN_DEFAULT);
    return ended->result;
}

static void a_used_connection_is_checked_again(void **state)
{
    (void)state;
    struct server server = {0};
    struct ob_net_guard guard;
    struct ob_curl_limits limits = {.idle_us = 45000000, .connect_us = 5000000, .total_us = 10000000};
    struct outbox_error err;
    struct ended ended = {0};
    ob_curl_loop *loop = NULL;
    uv_loop_t uv;
    char url[64];
    server_open(&server);
    ob_net_guard_init(&guard);
    assert_int_equal(ob_net_guard_allow(&guard, "127.0.0.1", &err), OUTBOX_OK);
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_int_equal(ob_curl_loop_new(&uv, &guard, &limits, &loop, &err), OUTBOX_OK);
    assert_true(ob_curl_call_init(&ended.call, loop, on_done));
    ended.uv = &uv;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", server.port);
    assert_int_equal(curl_easy_setopt(ended.call.easy, CURLOPT_URL, url), CURLE_OK);

    for (int i = 1; i <= 2; i++) {
        assert_int_equal(request(&ended), CURLE_OK);
        assert_int_equal(server.requests, i);
    }
    ob_net_guard_fini(&guard); /* nothing is allowed any more, and the connection is still there */
    ob_net_guard_init(&guard);
    assert_int_equal(request(&ended), CURLE_ABORTED_BY_CALLBACK);
    assert_int_equal(ended.call.refused, 1);
    assert_false(ended.call.sent);
    assert_int_equal(ended.call.dialled, 0);

    ob_curl_call_fini(&ended.call);
    ob_curl_loop_free(loop);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&uv), 0);
    server_close(&server);
    assert_int_equal(server.requests, 2);
    assert_int_equal(server.connections, 1);
    ob_net_guard_fini(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_used_connection_is_checked_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

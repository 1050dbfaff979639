/* Proves: the relay runs as a service, with notify and watchdog (design, the relay). What the service manager is told, over
 * a socket like its own. */
#include "ob_test.h"

#include "daemon/systemd.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int manager;
static char heard[1024];

static int setup(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    (void)state;
    /* The abstract namespace leaves no file behind. */
    snprintf(name, sizeof name, "@outbox-test-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setenv("NOTIFY_SOCKET", name, 1);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    return bind(manager, (struct sockaddr *)&address, size);
}

static int teardown(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    return close(manager);
}

static const char *hear(void)
{
    ssize_t len = recv(manager, heard, sizeof heard - 1, 0);
    heard[len > 0 ? len : 0] = '\0';
    return heard;
}

/* Ready, status, reload, stop, watchdog, each as one datagram. */
static void test_tells(void **state)
{
    (void)state;
    assert_true(ob_systemd_ready("2 stores"));
    assert_string_equal(hear(), "READY=1\nSTATUS=2 stores");
    assert_true(ob_systemd_status("10 held"));
    assert_string_equal(hear(), "STATUS=10 held");
    assert_true(ob_systemd_reloading(NULL));
    assert_int_equal(strncmp(hear(), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
    assert_true(ob_systemd_stopping("giving back\nREADY=1"));
    assert_string_equal(hear(), "STOPPING=1\nSTATUS=giving back");
    assert_true(ob_systemd_watchdog());
    assert_string_equal(hear(), "WATCHDOG=1\n");
}

/* Without a manager nothing happens; how often it wants to hear comes from the environment, for this process only. */
static void test_no_manager(void **state)
{
    char pid[16];
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    assert_false(ob_systemd_ready("x"));
    setenv("NOTIFY_SOCKET", "relative", 1);
    assert_false(ob_systemd_ready("x"));
    assert_int_equal(ob_systemd_watchdog_us(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(ob_systemd_watchdog_us(), 15000000);
    snprintf(pid, sizeof pid, "%d", (int)getpid() + 1);
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(ob_systemd_watchdog_us(), 0);
    setenv("WATCHDOG_PID", "", 1);
    setenv("WATCHDOG_USEC", "soon", 1);
    assert_int_equal(ob_systemd_watchdog_us(), 0);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tells, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_manager, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

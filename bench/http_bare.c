/* http_bare.c - the most that libcurl can do: a bare multi loop that posts the same request over and over.
 *
 *     http_bare URL MESSAGES CONNECTIONS PAYLOAD_BYTES
 *
 * One easy handle per connection, each started again as soon as it is done; the header lines are those of a webhook,
 * made once. Prints {"messages": n, "seconds": s, "per_second": r, "connections": c, "cpu_seconds": u}. What the relay
 * does beside is measured against this. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void die(const char *what, const char *why)
{
    fprintf(stderr, "http_bare: %s: %s\n", what, why);
    exit(1);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t swallow(char *bytes, size_t size, size_t count, void *data)
{
    (void)bytes;
    (void)data;
    return size * count;
}

static struct curl_slist *header_lines(void)
{
    static const char *const lines[] = {
        "Idempotency-Key: \"01890a5d-ac96-774b-bcce-b302099a8057\"",
        "webhook-id: 01890a5d-ac96-774b-bcce-b302099a8057",
        "webhook-timestamp: 1700000000",
        "Content-Type: application/json",
        "outbox-id: 01890a5d-ac96-774b-bcce-b302099a8057",
        "outbox-topic: bench",
        "outbox-namespace: default",
        "outbox-attempt: 1",
        "Expect:",
    };
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!(list = curl_slist_append(list, lines[i])))
            die("header", "out of memory");
    return list;
}

static CURL *handle_new(const char *url, const char *body, long len, struct curl_slist *lines)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        die("handle", "out of memory");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, len);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "outbox");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, swallow);
    return easy;
}

static void check(CURL *easy, CURLcode result)
{
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (result != CURLE_OK || status / 100 != 2)
        die("request", result ? curl_easy_strerror(result) : "the answer was no 2xx");
}

/* Sends until so many are answered; returns how many were. */
static long run(CURLM *multi, long messages, long out)
{
    long started = out, done = 0;
    while (done < messages) {
        int running, left;
        CURLMsg *msg;
        curl_multi_perform(multi, &running);
        while ((msg = curl_multi_info_read(multi, &left))) {
            CURL *easy = msg->easy_handle;
            check(easy, msg->data.result);
            done++;
            curl_multi_remove_handle(multi, easy);
            if (started < messages) {
                curl_multi_add_handle(multi, easy);
                started++;
            }
        }
        if (done < messages)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    return done;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("usage", "http_bare URL MESSAGES CONNECTIONS PAYLOAD_BYTES");
    long messages = atol(argv[2]), connections = atol(argv[3]), len = atol(argv[4]);
    if (messages < 1 || connections < 1 || connections > 10000 || len < 2)
        die("usage", "numbers must be positive");
    if (connections > messages)
        connections = messages;
    char *body = malloc((size_t)len + 1);
    CURL **handles = calloc((size_t)connections, sizeof *handles);
    if (!body || !handles || curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        die("start", "out of memory");
    memset(body, 'x', (size_t)len);
    body[0] = body[len - 1] = '"';
    body[len] = '\0';
    struct curl_slist *lines = header_lines();
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, connections);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections);
    for (long i = 0; i < connections; i++) {
        handles[i] = handle_new(argv[1], body, len, lines);
        curl_multi_add_handle(multi, handles[i]);
    }
    double began = seconds_of(CLOCK_MONOTONIC);
    long done = run(multi, messages, connections);
    double took = seconds_of(CLOCK_MONOTONIC) - began;
    printf(
        "{\"messages\": %ld, \"seconds\": %.6f, \"per_second\": %.1f, \"connections\": %ld, \"cpu_seconds\": %.6f}\n",
        done, took, (double)done / took, connections, seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    for (long i = 0; i < connections; i++)
        curl_easy_cleanup(handles[i]);
    curl_multi_cleanup(multi);
    curl_slist_free_all(lines);
    free(handles);
    free(body);
    return 0;
}

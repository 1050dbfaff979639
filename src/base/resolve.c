/* resolve.c - see resolve.h.
 *
 * A question is a name that is being resolved; its askers are the lookups that wait for it. One mutex guards everything. A
 * question is in `questions` until it is answered, even when all its askers have left: the thread that is resolving it frees
 * it.
 *
 * Invariants: threads <= OB_LOOKUP_THREADS; doubtful <= half of that; a question without a thread has an asker. */
#include "base/resolve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { QUICK_US = 1000000, MEMORIES = 4096, STACK = 512 * 1024 };

struct question {
    struct ob_list node, askers;
    char *name;
    uint32_t hash;
    bool running, doubtful;
    int64_t since_us; /* when its thread started, if running */
};

struct ob_lookup {
    struct ob_list node;       /* in the question's askers */
    struct question *question; /* NULL: answered */
    void (*done)(void *ctx);
    void *ctx;
    struct ob_addresses found;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ob_list questions = {&questions, &questions};
static unsigned threads, doubtful;
static uint32_t good_names[MEMORIES]; /* hashes of names resolved quickly; in a collision one loses its priority */

static void set_clock(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&answered, &attr);
    pthread_condattr_destroy(&attr);
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash ? hash : 1;
}

/* ---- asking the system ---- */

static bool has(const struct ob_addresses *found, const char *text)
{
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->text[i], text) == 0)
            return true;
    return false;
}

static void keep(struct ob_addresses *found, const struct addrinfo *list)
{
    for (; list && found->count < OB_ADDRESSES_MAX; list = list->ai_next) {
        char *text = found->text[found->count];
        if (getnameinfo(list->ai_addr, list->ai_addrlen, text, OB_ADDRESS_TEXT, NULL, 0, NI_NUMERICHOST) == 0 &&
            !has(found, text))
            found->count++;
    }
}

static void refuse(struct ob_addresses *found, int error)
{
    found->error = error;
    snprintf(found->reason, sizeof found->reason, "%s", gai_strerror(error));
}

static void look_up(const char *name, int flags, struct ob_addresses *found)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *list = NULL;
    memset(found, 0, sizeof *found);
    int error = getaddrinfo(name, NULL, &hints, &list);
    if (!error) {
        keep(found, list);
        freeaddrinfo(list);
    }
    if (!found->count)
        refuse(found, error ? error : EAI_NONAME);
}

/* ---- threads: called with the mutex held ---- */

static void question_free(struct question *question)
{
    ob_list_remove(&question->node);
    ob_free(question->name);
    ob_free(question);
}

static void remember(const struct question *question)
{
    uint32_t *memory = &good_names[question->hash % MEMORIES];
    if (ob_clock_mono_us() - question->since_us < QUICK_US)
        *memory = question->hash;
    else if (*memory == question->hash)
        *memory = 0;
}

static void answer(struct question *question, const struct ob_addresses *found)
{
    struct ob_list *node;
    while ((node = ob_list_shift(&question->askers))) {
        struct ob_lookup *lookup = OB_CONTAINER(node, struct ob_lookup, node);
        lookup->found = *found;
        lookup->question = NULL;
        if (lookup->done)
            lookup->done(lookup->ctx);
    }
    pthread_cond_broadcast(&answered);
}

static struct question *next_question(void)
{
    OB_LIST_EACH (it, &questions) {
        struct question *question = OB_CONTAINER(it, struct question, node);
        if (!question->running && (!question->doubtful || doubtful < OB_LOOKUP_THREADS / 2))
            return question;
    }
    return NULL;
}

static void *work(void *arg)
{
    struct question *question;
    struct ob_addresses found;
    (void)arg;
    pthread_mutex_lock(&mutex);
    while ((question = next_question())) {
        question->running = true;
        question->since_us = ob_clock_mono_us();
        doubtful += question->doubtful;
        pthread_mutex_unlock(&mutex);
        look_up(question->name, 0, &found);
        pthread_mutex_lock(&mutex);
        doubtful -= question->doubtful;
        remember(question);
        answer(question, &found);
        question_free(question);
    }
    threads--;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* Signals are left to the program's own threads. */
static bool start_thread(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&thread, &attr, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    threads += started;
    return started;
}

/* ---- for callers ---- */

static struct question *find(const char *name)
{
    OB_LIST_EACH (it, &questions) {
        struct question *question = OB_CONTAINER(it, struct question, node);
        if (strcmp(question->name, name) == 0)
            return question;
    }
    return NULL;
}

static struct question *ask(const char *name)
{
    struct question *question = ob_calloc(1, sizeof *question);
    if (!question || !(question->name = ob_strdup(name))) {
        ob_free(question);
        return NULL;
    }
    question->hash = hash_of(name);
    question->doubtful = good_names[question->hash % MEMORIES] != question->hash;
    ob_list_init(&question->askers);
    ob_list_push(&questions, &question->node);
    return question;
}

static bool join(struct ob_lookup *lookup, const char *name)
{
    struct question *question = find(name);
    if (!question && !(question = ask(name)))
        return false;
    lookup->question = question;
    ob_list_push(&question->askers, &lookup->node);
    if (!question->running && threads < OB_LOOKUP_THREADS && next_question() && !start_thread() && !threads) {
        struct ob_addresses found = {0};
        refuse(&found, EAI_AGAIN);
        answer(question, &found);
        question_free(question);
    }
    return true;
}

struct ob_lookup *ob_lookup_start(const char *name, void (*done)(void *ctx), void *ctx)
{
    struct ob_lookup *lookup = ob_calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    pthread_once(&once, set_clock);
    ob_list_init(&lookup->node);
    lookup->done = done;
    lookup->ctx = ctx;
    look_up(name, AI_NUMERICHOST, &lookup->found);
    if (!lookup->found.error) {
        if (done)
            done(ctx);
        return lookup;
    }
    pthread_mutex_lock(&mutex);
    bool joined = join(lookup, name);
    pthread_mutex_unlock(&mutex);
    if (!joined) {
        ob_free(lookup);
        return NULL;
    }
    return lookup;
}

bool ob_lookup_poll(const struct ob_lookup *lookup, struct ob_addresses *found)
{
    return ob_lookup_wait(lookup, 0, found);
}

bool ob_lookup_wait(const struct ob_lookup *lookup, int64_t timeout_us, struct ob_addresses *found)
{
    int64_t until_us = ob_clock_mono_us() + timeout_us;
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    int waited = 0;
    pthread_mutex_lock(&mutex);
    while (lookup->question && timeout_us > 0 && !waited)
        waited = pthread_cond_timedwait(&answered, &mutex, &until);
    bool finished = !lookup->question;
    pthread_mutex_unlock(&mutex);
    if (finished)
        *found = lookup->found;
    return finished;
}

void ob_lookup_free(struct ob_lookup *lookup)
{
    if (!lookup)
        return;
    pthread_mutex_lock(&mutex);
    struct question *question = lookup->question;
    ob_list_remove(&lookup->node);
    if (question && !question->running && ob_list_empty(&question->askers))
        question_free(question);
    pthread_mutex_unlock(&mutex);
    ob_free(lookup);
}

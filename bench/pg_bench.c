/* pg_bench.c - the hot loops of bench/run: drains, claims and enqueues against PostgreSQL.
 *
 *   pg_bench drain        --side log|queue|floor --count N --batch B [--run R] [--workers W]
 *                         [--parts P] [--one-tx]
 *   pg_bench claims       --place A [--place B] --count CALLS --batch B [--run R] [--ack]
 *   pg_bench enqueue-cost --count TRANSACTIONS --rounds R [--keys K]
 *   pg_bench enqueue-calls --rounds R
 *   pg_bench enqueue-many --side ours|floor --count N --batch B [--keys K]
 *
 * --place is a conninfo. What is drained or read has been put there by bench/run, which also makes the floor's tables.
 * Our sides go through the store interfaces, the log's as the relay does; the others through libpq with prepared statements and
 * binary values, which is the best they can get. */
#include "pg_bench.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(const struct bench_options *options);
} commands[] = {
    {"drain", command_drain},
    {"claims", command_claims},
    {"enqueue-cost", command_enqueue_cost},
    {"enqueue-calls", command_enqueue_calls},
    {"enqueue-many", command_enqueue_many},
};

static int number_of(const char *name, const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || end == text || value < 0 || value > 100000000)
        die(name, "takes a number from 0 to 100000000");
    return (int)value;
}

static void parse(int argc, char **argv, struct bench_options *options)
{
    static const struct option known[] = {
        {"place", required_argument, NULL, 'p'},  {"side", required_argument, NULL, 's'},
        {"count", required_argument, NULL, 'n'},  {"batch", required_argument, NULL, 'b'},
        {"run", required_argument, NULL, 'r'},    {"workers", required_argument, NULL, 'w'},
        {"parts", required_argument, NULL, 'q'},  {"keys", required_argument, NULL, 'k'},
        {"rounds", required_argument, NULL, 'o'}, {"one-tx", no_argument, NULL, 't'},
        {"ack", no_argument, NULL, 'a'},          {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'p':
            if (options->place_count == PLACES_MAX)
                die("--place", "too many");
            options->places[options->place_count++] = optarg;
            break;
        case 's': options->side = optarg; break;
        case 'n': options->count = number_of("--count", optarg); break;
        case 'b': options->batch = number_of("--batch", optarg); break;
        case 'r': options->run = number_of("--run", optarg); break;
        case 'w': options->workers = number_of("--workers", optarg); break;
        case 'q': options->parts = number_of("--parts", optarg); break;
        case 'k': options->keys = number_of("--keys", optarg); break;
        case 'o': options->rounds = number_of("--rounds", optarg); break;
        case 't': options->one_tx = true; break;
        case 'a': options->ack = true; break;
        default: exit(2);
        }
    }
    if (options->place_count == 0)
        die("--place", "is missing");
    if (options->batch < 1 || options->batch > 10000)
        die("--batch", "takes 1 to 10000");
    if (options->workers < 1 || options->workers > WORKERS_MAX)
        die("--workers", "takes 1 to 64");
    if (options->parts < 1 || options->parts > PARTS_MAX)
        die("--parts", "takes 1 to 16");
}

int main(int argc, char **argv)
{
    struct bench_options options = {
        .side = "log", .count = 1000, .batch = 500, .run = 1, .workers = 1, .parts = 1, .rounds = 1};
    if (argc > 1) {
        parse(argc - 1, argv + 1, &options);
        for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
            if (strcmp(argv[1], commands[i].name) == 0) {
                commands[i].run(&options);
                return 0;
            }
        }
    }
    die("usage", "pg_bench drain|claims|enqueue-cost|enqueue-calls|enqueue-many --place CONNINFO ...");
}

/* pg_raw.c - libpq without ceremony, and the clocks. */
#include "pg_bench.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INT8_OID = 20 };

void die(const char *what, const char *why)
{
    size_t len = strlen(why);
    fprintf(stderr, "pg_bench: %s: %s%s", what, why, len && why[len - 1] == '\n' ? "" : "\n");
    exit(1);
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double cpu_of(int pid)
{
    char path[64];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%llu", &ns) != 1)
        die(path, "cannot be read");
    fclose(file);
    return (double)ns / 1e9;
}

PGconn *raw_open(const char *conninfo)
{
    PGconn *conn = PQconnectdb(conninfo);
    if (PQstatus(conn) != CONNECTION_OK)
        die("connect", PQerrorMessage(conn));
    raw_run(conn, "set client_min_messages = error");
    return conn;
}

PGresult *raw_exec(PGconn *conn, const char *sql)
{
    PGresult *res = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die(sql, PQerrorMessage(conn));
    return res;
}

void raw_run(PGconn *conn, const char *sql)
{
    PQclear(raw_exec(conn, sql));
}

void raw_prepare(PGconn *conn, const char *name, const char *sql)
{
    PGresult *res = PQprepare(conn, name, sql, 0, NULL);
    if (PQresultStatus(res) != PGRES_COMMAND_OK)
        die(sql, PQerrorMessage(conn));
    PQclear(res);
}

double raw_number(PGconn *conn, const char *sql)
{
    PGresult *res = raw_exec(conn, sql);
    if (PQntuples(res) < 1 || PQgetisnull(res, 0, 0))
        die(sql, "returned nothing");
    double value = strtod(PQgetvalue(res, 0, 0), NULL);
    PQclear(res);
    return value;
}

int backends_of(const char *conninfo, const char *application, int *pids, int room)
{
    PGconn *conn = raw_open(conninfo);
    const char *values[] = {application};
    PGresult *res = PQexecParams(conn, "select pid from pg_stat_activity where application_name = $1", 1, NULL, values,
                                 NULL, NULL, 0);
    int count = PQntuples(res);
    if (PQresultStatus(res) != PGRES_TUPLES_OK || count < 1 || count > room)
        die(application, "has no sessions of its own, or too many");
    for (int i = 0; i < count; i++)
        pids[i] = atoi(PQgetvalue(res, i, 0));
    PQclear(res);
    PQfinish(conn);
    return count;
}

int backend_of(const char *conninfo, const char *application)
{
    int pid;
    backends_of(conninfo, application, &pid, 1);
    return pid;
}

static char *put_int4(char *at, int32_t value)
{
    uint32_t wire = htonl((uint32_t)value);
    memcpy(at, &wire, sizeof wire);
    return at + sizeof wire;
}

size_t int8_array(char *bytes, const int64_t *values, int count)
{
    char *at = put_int4(bytes, 1); /* dimensions */
    at = put_int4(at, 0);          /* no nulls */
    at = put_int4(at, INT8_OID);
    at = put_int4(at, count);
    at = put_int4(at, 1); /* lower bound */
    for (int i = 0; i < count; i++) {
        uint64_t wire = htobe64((uint64_t)values[i]);
        at = put_int4(at, sizeof wire);
        memcpy(at, &wire, sizeof wire);
        at += sizeof wire;
    }
    return (size_t)(at - bytes);
}

int64_t int8_at(const PGresult *res, int row, int column)
{
    uint64_t wire;
    memcpy(&wire, PQgetvalue(res, row, column), sizeof wire);
    return (int64_t)be64toh(wire);
}

void payload_make(char payload[PAYLOAD + 1], int64_t number)
{
    int head = snprintf(payload, PAYLOAD + 1, "{\"i\": %lld, \"pad\": \"", (long long)number);
    memset(payload + head, 'x', (size_t)(PAYLOAD - head - 2));
    memcpy(payload + PAYLOAD - 2, "\"}", 3);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof values[0], compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

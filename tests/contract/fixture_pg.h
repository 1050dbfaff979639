/* fixture_pg.h - what the two files of the PostgreSQL fixture share. */
#ifndef CONTRACT_FIXTURE_PG_H
#define CONTRACT_FIXTURE_PG_H

#include "fixture.h"

#include <libpq-fe.h>

/* The machinery of the tests itself failed: says so and ends the program. */
void pg_give_up(const char *what, const char *why) __attribute__((noreturn));
/* A superuser's connection to a place; ours until another place is asked for. */
PGconn *pg_back_door(const char *place);
/* Runs one statement. text (may be NULL) gets the first column of the first row, "" when there is none. */
void pg_query(PGconn *conn, const char *sql, const char *const *params, int n, char text[TEXT_MAX]);

/* plans_pg.c */
void pg_fill(const char *place, long rows);
void pg_plan(const char *place, enum lookup what, char text[TEXT_MAX]);

#endif

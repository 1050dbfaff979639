/* enqueue_pq.c - an order is paid, and the message about it is sent, or neither: both are one transaction.
 *
 *     outbox migrate --store postgresql:///shop
 *     cc enqueue_pq.c $(pkg-config --cflags --libs outbox libpq) -o enqueue_pq
 *     ./enqueue_pq postgresql:///shop 42
 *
 * Run it twice: the second time the dedupe key is there already, and no second message is made. */
#include <outbox/pq.h>
#include <stdio.h>
#include <stdlib.h>

static void check(PGconn *conn, PGresult *res)
{
    ExecStatusType status = PQresultStatus(res);
    PQclear(res);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return;
    fprintf(stderr, "%s", PQerrorMessage(conn));
    PQfinish(conn); /* the server rolls back */
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s CONNINFO ORDER\n", argv[0]);
        return 2;
    }
    PGconn *conn = PQconnectdb(argv[1]);
    if (PQstatus(conn) != CONNECTION_OK)
        check(conn, NULL);
    check(conn, PQexec(conn, "CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, state text NOT NULL)"));
    check(conn, PQexec(conn, "BEGIN"));
    const char *order = argv[2];
    check(conn,
          PQexecParams(conn, "INSERT INTO orders VALUES ($1, 'paid') ON CONFLICT (id) DO UPDATE SET state = 'paid'", 1,
                       NULL, &order, NULL, NULL, 0));
    long number = strtol(order, NULL, 10);
    char payload[64], key[64];
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    msg.topic = "orders.paid";
    msg.payload = payload;
    msg.payload_len = (size_t)snprintf(payload, sizeof payload, "{\"order\": %ld}", number);
    msg.key = order; /* events of one order are delivered in order */
    snprintf(key, sizeof key, "paid-%ld", number);
    msg.dedupe_key = key;
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    struct outbox_error err;
    if (outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err)) {
        fprintf(stderr, "%s: %s\n", outbox_code_name(err.code), err.text);
        PQfinish(conn);
        return 1;
    }
    check(conn, PQexec(conn, "COMMIT"));
    char id[37];
    outbox_uuid_format(&receipt.id, id);
    printf("%s %s, seq %lld\n", receipt.created ? "enqueued" : "was enqueued before:", id, (long long)receipt.seq);
    PQfinish(conn);
    return 0;
}

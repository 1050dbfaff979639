// An order is paid and the message about it is sent, or neither: both are one transaction.
//
//     java -cp postgresql.jar Orders.java "jdbc:postgresql://localhost/shop?user=app"
import java.sql.*;
import java.util.Set;

public class Orders {
    interface Work<T> { T run() throws Exception; }

    // Runs work in a transaction; after a conflict with another one, the whole of it again.
    static <T> T inTransaction(Connection conn, Work<T> work) throws Exception {
        conn.setAutoCommit(false);
        for (int tries = 5;; ) {
            try {
                T result = work.run();
                conn.commit();
                return result;
            } catch (Exception e) {
                conn.rollback();
                boolean conflict = e instanceof SQLException s && Set.of("40001", "40P01").contains(s.getSQLState());
                if (!conflict || --tries == 0) throw e;
            }
        }
    }

    static String pay(Connection conn, int order) throws SQLException {
        try (var insert = conn.prepareStatement("insert into orders values (?, 'paid') on conflict do nothing");
             var enqueue = conn.prepareStatement(
                 "select id, created, seq from outbox.enqueue(?, ?::jsonb, key => ?, dedupe_key => ?)")) {
            insert.setInt(1, order);
            insert.execute();
            enqueue.setString(1, "orders.paid");
            enqueue.setString(2, "{\"order\": " + order + "}");
            enqueue.setString(3, "order-" + order); // events of one order are delivered in order
            enqueue.setString(4, "paid-" + order);  // sent once, however often this runs
            ResultSet row = enqueue.executeQuery();
            row.next();
            return "message " + row.getString("id") + ", created " + row.getBoolean("created") + ", seq "
                + row.getLong("seq");
        }
    }

    public static void main(String[] args) throws Exception {
        try (var conn = DriverManager.getConnection(args[0])) {
            conn.createStatement().execute(
                "create table if not exists orders (id int primary key, state text not null)");
            for (int i = 0; i < 2; i++) // the second call finds the same message
                System.out.println("paid 42: " + inTransaction(conn, () -> pay(conn, 42)));
            try {
                inTransaction(conn, () -> { pay(conn, 43); throw new IllegalStateException("the card was refused"); });
            } catch (IllegalStateException e) {
                System.out.println("rolled back 43"); // no order, no message, the dedupe key is unused
            }
        }
    }
}

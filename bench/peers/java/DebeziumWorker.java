import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.connect.source.SourceRecord;

/** Debezium's embedded engine with the outbox event router, on a slot that the harness made. The protocol is in ../README.md. */
public final class DebeziumWorker {
    private static final long COUNT = Long.parseLong(System.getenv().getOrDefault("PEER_COUNT", "0"));
    private static final String STAMPS = System.getenv("PEER_STAMPS");
    private static final CountDownLatch started = new CountDownLatch(1), go = new CountDownLatch(1), all = new CountDownLatch(1);
    private static final StringBuilder lines = new StringBuilder();
    private static long handled;

    private static Properties settings() {
        Properties p = new Properties();
        p.setProperty("name", "bench");
        p.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        p.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        p.setProperty("offset.flush.interval.ms", "1000");
        p.setProperty("topic.prefix", "bench");
        p.setProperty("database.hostname", "127.0.0.1");
        p.setProperty("database.port", System.getenv("PGPORT"));
        p.setProperty("database.user", System.getenv("PGUSER"));
        p.setProperty("database.password", "none");
        p.setProperty("database.dbname", System.getenv("PGDATABASE"));
        p.setProperty("plugin.name", "pgoutput");
        p.setProperty("slot.name", System.getenv("PGDATABASE"));
        p.setProperty("publication.name", "bench");
        p.setProperty("publication.autocreate.mode", "disabled");
        p.setProperty("table.include.list", "public.outboxevent");
        p.setProperty("snapshot.mode", "no_data");
        p.setProperty("poll.interval.ms", "5");
        p.setProperty("max.batch.size", "4096");
        p.setProperty("max.queue.size", "8192");
        p.setProperty("transforms", "outbox");
        p.setProperty("transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter");
        return p;
    }

    private static synchronized void handle(SourceRecord record) {
        if (!(record.value() instanceof String payload))
            return; // a heartbeat
        if (STAMPS != null) {
            int from = payload.indexOf("\"i\":") + 4;
            long us = java.time.temporal.ChronoUnit.MICROS.between(java.time.Instant.EPOCH, java.time.Instant.now());
            lines.append(payload, from, payload.indexOf(',', from)).append(' ').append(us).append('\n');
        }
        if (++handled == COUNT)
            all.countDown();
    }

    public static void main(String[] args) throws Exception {
        if (COUNT == 0)
            go.countDown(); // there is nothing that could be handled too early
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine
            .create(io.debezium.engine.format.ChangeEventFormat.of(Connect.class))
            .using(settings())
            .using(new DebeziumEngine.ConnectorCallback() {
                @Override
                public void taskStarted() {
                    started.countDown();
                }
            })
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println(message + " " + error);
                    System.exit(1);
                }
            })
            .notifying((events, committer) -> {
                go.await();
                for (RecordChangeEvent<SourceRecord> event : events) {
                    handle(event.record());
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
            })
            .build();
        new Thread(engine).start();
        started.await();
        System.out.println("ready");
        input.readLine();
        go.countDown();
        if (COUNT > 0)
            all.await();
        else
            while (input.readLine() != null) {
            }
        if (STAMPS != null)
            try (PrintWriter file = new PrintWriter(STAMPS)) {
                file.print(lines);
            }
        System.out.println("done " + handled);
        while (COUNT > 0 && input.readLine() != null) {
        }
        System.exit(0); // what the engine still does is not measured
    }
}

-- lane: its names. ?1 n. Columns: namespace, topic.
SELECT namespace, topic FROM outbox_lane WHERE n = ?1

-- undead: it is no dead letter any more. ?1 n.
DELETE FROM outbox_dead WHERE n = ?1

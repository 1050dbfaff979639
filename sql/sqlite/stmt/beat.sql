-- beat: a relay tells that it lives. Another process or host under the same name is another relay, which starts now.
-- ?1 worker, ?2 host, ?3 pid, ?4 version, ?5 state, ?6 now, ?7 time between beats, ?8 info.
INSERT INTO outbox_relay (worker, host, pid, version, state, started_at, seen_at, every, info)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8)
    ON CONFLICT (worker) DO UPDATE
   SET host = excluded.host, pid = excluded.pid, version = excluded.version, state = excluded.state,
       started_at = CASE WHEN pid IS excluded.pid AND host IS excluded.host THEN started_at ELSE excluded.started_at END,
       seen_at = excluded.seen_at, every = excluded.every, info = excluded.info

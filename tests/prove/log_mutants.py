"""The guards of the log, each taken out of a database's functions: what proves the log must see it.

    plant(db, "stragglers")

A mutant is a function, a piece of its text, and what stands there instead."""

MUTANTS = {
    # Place: the key's own clock.
    "ord": [("put", "greatest(s.ord, v_xid)", "v_xid"), ("enqueue_many", "greatest(s.ord, v_xid)", "v_xid")],
    # Cursor: transactions that ran at the last snapshot, and those of them whose messages are late.
    "stragglers": [("take_from", "v_running := array(select pg_snapshot_xip(w.before));", "v_running := '{}';"),
                   ("log_range", "v_running := array(select pg_snapshot_xip(w.before));", "v_running := '{}';")],
    "late": [("read_page", "m.xid = any (running) and m.xid is not null", "false"),
             ("log_range", "m.xid = any (v_running) and m.xid is not null", "false")],
    # Quiet: nobody has a number that the snapshot does not know.
    "quiet": [("look", "if pg_current_xact_id() = v_next then", "if true then")],
    # Keys left out: those with rows in the queue, those with a message that is not due or of a lane left out.
    "left_keys": [("left_keys", "where (select true from outbox.queue q where q.sid = k.sid limit 1)", "where false")],
    "denied_keys": [("left_keys", "or m.lane = any (w.denied)", "")],
    "due_keys": [("left_keys", "m.due > w.taken_at or", "")],
    "parked": [("admit_range", "and (m.due is null or m.due <= w.taken_at)", "")],
    # One open window of a shard of keys.
    "one_window": [("take_from", "if t.until > v_now or not outbox.repair_window(t) then\n                    return;\n                end if;", "null;")],
    # Repair: all that is not settled, and nothing that is.
    "repair": [("repair_window", "select i from unnest(v_ids) i where", "select i from unnest(v_ids[1:1]) i where")],
    "repair_settled": [("repair_window", "array(select i from unnest(v_ids) i where i <> all (outbox.settled_of(v_ids)))", "v_ids")],
    # The fence: a window that was repaired is nobody's.
    "fence": [("settle_window", "and k.nonce = w.nonce and k.open", "and k.nonce = w.nonce"),
              ("settle_window", "and k.nonce = nonces[i] and k.open", "and k.nonce = nonces[i]")],
    # Who takes from a shard is alone.
    "shard_lock": [("take_from", "for update skip locked", "")],
    # Rebase: the keys' clocks, and old places.
    "clocks": [("rebase", "where k.ord >= pg_snapshot_xmax(v_here)", "where false")],
    "base": [("rebase", "outbox.cluster_id(), v_pos, v_pos", "outbox.cluster_id(), 0, v_pos")],
    "high": [("rebase", "and not (m.pos <= t.high and", "and not (")],
    # A settle that is repeated looks at what is settled when the first is over.
    "again": [("settle_window", "v_settled := outbox.settled_of(ids);", "v_settled := '{}';")],
    "again_lock": [("settle_window", "order by k.shard, k.id for update of k", "")],
}


def plant(database, name):
    for function, old, new in MUTANTS[name]:
        text, = database.sql("select pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'outbox'::regnamespace "
                             "and p.proname = %s", function)[0]
        text = text.replace('"outbox".', "outbox.")
        assert old in text, "mutant %s: no such text in %s: %s" % (name, function, old)
        database.sql(text.replace(old, new))

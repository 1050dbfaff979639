-- The log: messages in the order of their commits, taken by relays a window at a time.

-- Which server's transaction numbers these are: a restored dump has those of another. Asked once a session.
create function @schema@.cluster_id() returns bigint
    language plpgsql
as $$
declare
    v_id text := current_setting('outbox.cluster', true);
begin
    if coalesce(v_id, '') = '' then
        select s.system_identifier::text into v_id from pg_control_system() s;
        v_id := set_config('outbox.cluster', v_id, false);
    end if;
    return v_id::bigint;
end
$$;

-- Each shard begins with a window of nothing.
insert into @schema@.log_window (shard, open, complete, size, remaining, id, nonce, cluster, base, high, from_ord, from_pos,
    to_ord, to_pos, before, upto, floor, purged, taken_at, swept)
select s.shard, false, true, 0, 0, 1, 0, @schema@.cluster_id(), 0, 0, '0', 0, '18446744073709551615', 9223372036854775807,
       pg_current_snapshot(), pg_current_snapshot(), 1, 1, clock_timestamp(), clock_timestamp()
  from @schema@.log_shard s;

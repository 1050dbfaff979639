-- An order is paid and the message about it is sent, or neither: both are one transaction.
--
--     psql postgresql://app@localhost/shop -f orders.sql
--
-- Run it with -v ON_ERROR_STOP=1 in scripts: an error then ends psql, and the server rolls back.
\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
\pset format unaligned
\set order 42

create table if not exists orders (id int primary key, state text not null);

begin;
insert into orders values (:order, 'paid') on conflict do nothing;
select format('paid %s: message %s, created %s, seq %s', :order, id, created::text, seq)
  from outbox.enqueue('orders.paid', jsonb_build_object('order', :order),
           key => 'order-' || :order,         -- events of one order are delivered in order
           dedupe_key => 'paid-' || :order);  -- sent once, however often this runs
commit;

-- Again: this finds the same message and adds no second one.
begin;
insert into orders values (:order, 'paid') on conflict do nothing;
select format('paid %s: message %s, created %s, seq %s', :order, id, created::text, seq)
  from outbox.enqueue('orders.paid', jsonb_build_object('order', :order), key => 'order-' || :order,
           dedupe_key => 'paid-' || :order);
commit;

-- A rollback leaves nothing: no order, no message, the dedupe key is unused.
begin;
insert into orders values (43, 'paid');
select outbox.enqueue('orders.paid', '{"order": 43}', key => 'order-43', dedupe_key => 'paid-43') \g /dev/null
rollback;
\echo rolled back 43

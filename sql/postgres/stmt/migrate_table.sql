-- migrate_table: the record of migrations, made together with the first one. Migrate writes it; who can read the outbox
-- can read it.
create table @schema@.migration (
    version    int primary key,
    name       text not null,
    checksum   text not null,
    applied_at timestamptz not null default clock_timestamp(),
    applied_by text not null default session_user
);
comment on table @schema@.migration is 'The migrations that this outbox has had; kept by outbox migrate.';
alter table @schema@.migration owner to @owner@;
revoke all on @schema@.migration from public;
grant select on @schema@.migration to @relay@, @operator@, @auditor@

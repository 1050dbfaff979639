-- session_relaxed: commits on this connection are answered before they are on disk. A crash of the server may undo the
-- last of them: messages are then delivered once more, none is lost.
select pg_catalog.set_config('synchronous_commit', 'off', false)

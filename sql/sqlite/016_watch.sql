-- What happened, in the order of commits: for `outbox tail` and the events of the admin API. There is one writer, and it reads the
-- clock when it has the write lock: so the order of times is the order of commits.
CREATE INDEX outbox_attempt_completed ON outbox_attempt (completed_at);

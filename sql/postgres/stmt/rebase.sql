-- rebase: begins the log anew after a restore into another server. Column: how many messages went to the queue; -1: no need.
-- Locks: stream and message against writers, shortly; gives up rather than wait.
select @schema@.rebase()

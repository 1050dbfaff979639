-- hooks: gives the events that wait to their hooks, those that are due. Column: how many were taken.
select @schema@.run_failed_hooks(max_count => 100, due_only => true)

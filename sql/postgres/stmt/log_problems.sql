-- log_problems: what is wrong with the log. Columns: problem, what to do.
select problem, fix from @schema@.wrong_log()

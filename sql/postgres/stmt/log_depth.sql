-- log_depth: how many messages wait in the log; more than 10,000 are counted as 10,001. Column: the number.
select d.waiting from @schema@.log_depth d

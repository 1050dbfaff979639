-- rights: what is not as the migration left it: owners, rights, row security, roles. Columns: problem, the statement that mends
-- it.
select problem, mend from @schema@.wrong_rights() order by step, problem

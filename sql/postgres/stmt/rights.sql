-- rights: what is not as the migration left it: owners, rights, row security, roles. Columns: problem, the statement that fixes
-- it.
select problem, fix from @schema@.wrong_rights() order by step, problem

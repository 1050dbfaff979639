-- session: what every connection of ours is set to, once, right after it is made.
-- Claim and settle refuse other isolation levels, so a database whose default is stricter must not stop us. JIT only
-- costs on statements this short. Warnings of the server's are errors' business: notices would go to stderr.
select set_config('default_transaction_isolation', 'read committed', false),
       set_config('client_min_messages', 'warning', false),
       set_config('jit', 'off', false)

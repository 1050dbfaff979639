-- begin: opens the caller's transaction on the store's own connection.
begin

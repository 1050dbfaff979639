-- begin: opens a write transaction at once. A deferred one could fail halfway, when somebody else has written
-- meanwhile.
BEGIN IMMEDIATE

-- session: what every connection of ours is set to, right after it is opened. Nothing here changes the file.
-- trusted_schema stays as it is: with it off, SQLite before 3.41 would refuse JSON functions in the application's
-- hooks.
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY

-- session: what every connection of ours is set to, right after it is opened. Nothing here changes the file.
PRAGMA foreign_keys = ON;
PRAGMA trusted_schema = OFF;
PRAGMA temp_store = MEMORY

-- journal: readers and one writer at the same time. Stays with the file. Column: the mode it has now.
PRAGMA journal_mode = WAL

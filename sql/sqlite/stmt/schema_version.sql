-- schema_version: a number that changes when a table or trigger does.
PRAGMA schema_version

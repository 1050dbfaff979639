-- A quote " a backslash \ and ü.
SELECT 1;

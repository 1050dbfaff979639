-- synchronous_normal: a power failure may take the last commits; the file stays sound, and a crash of the process loses
-- nothing.
PRAGMA synchronous = NORMAL

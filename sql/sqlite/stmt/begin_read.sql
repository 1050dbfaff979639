-- begin_read: one snapshot for several reads. Takes no lock that a writer would notice.
BEGIN

-- doorbell_beat: a sign of life of the one who holds the doorbell's lock.
select 1

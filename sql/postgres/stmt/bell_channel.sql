-- bell_channel: the name of the channel that enqueues ring on. Column: the name.
select @schema@.bell_channel()

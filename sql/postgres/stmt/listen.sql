-- listen: hears the doorbell; the channel is what bell_channel returned, quoted. Never in a transaction.
listen @channel@

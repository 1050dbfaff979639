-- listen: hears the doorbell; the channel is what doorbell_channel returned, quoted. Never in a transaction.
listen @channel@

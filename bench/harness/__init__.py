"""What all measurements share: a server of their own, fillings, samples, reports."""

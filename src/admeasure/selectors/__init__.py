"""Which queries to measure next."""

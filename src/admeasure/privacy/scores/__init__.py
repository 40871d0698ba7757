"""How badly queries are answered: everything that turns exact counts into scores to choose by."""

"""Tables of a warehouse, counted by SQL where they lie."""

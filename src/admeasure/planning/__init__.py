"""What a mechanism is, and how its budget, error and memory are said before it runs."""

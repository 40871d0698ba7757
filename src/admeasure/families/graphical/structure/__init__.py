"""What can be said of a model before anything is measured: junction trees, sizes, zeros."""

"""A tour of the package on a table of simulated people, bundled with its schema and questions."""

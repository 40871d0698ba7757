"""Release tables and answers about people under differential privacy."""

"""Tables in files, read by DuckDB."""

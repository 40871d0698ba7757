"""What a release says of itself, for people to read."""

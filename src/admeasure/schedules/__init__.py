"""What the next round may spend."""

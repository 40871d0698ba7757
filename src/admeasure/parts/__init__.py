"""What several mechanisms are built from: runs, oracles and passes that papers share."""

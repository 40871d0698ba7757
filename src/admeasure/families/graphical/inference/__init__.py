"""From potentials to log Z, marginals and rows; nothing here is estimated or random but rows."""

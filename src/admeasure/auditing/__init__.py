"""Attacks on the guarantee, as tools: what the tests run, for whoever adds a mechanism.

- `replay`: a mechanism on two neighbouring tables with the same randomness and the same path. Every
  released quantity must move within its declared sensitivity, everything else must be identical.
- `trials`: a mechanism run thousands of times on two neighbouring tables; lower bounds on the
  epsilon and the mu that it really has.
- `release`: the claims of a release folder recomputed from its own log.

`replay` and `trials` hold private tables and print nothing; they are for made-up tables.
"""

from __future__ import annotations

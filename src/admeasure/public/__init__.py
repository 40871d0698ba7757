"""Public tables: rows about other people, or other years, that need no protection.

`table` is the noun, `read` makes one from files or frames; `families.mixture` computes how well any
reweighting of it could do, and the verb `screen` asks that of the private table for a small budget.
"""

from admeasure.public.table import PublicTable

__all__ = ["PublicTable"]

"""Comparing mechanisms over grids of tables, workloads, options, budgets and seeds. NOT PRIVATE.

A study is for researchers and for tables that need no protection: it draws seeded noise and
compares with the true table, as `admeasure.evaluate` does, again and again. What it writes says so
in every row.

    plan.py     what a study's file says, checked before anything runs
    budgets.py  delta and rho as papers state them
    jobs.py     one run: a table, a workload, a mechanism with options, an epsilon, a seed
    process.py  one job in a process of its own, within limits
    cluster.py  the same on the machines of a Ray cluster
    lines.py    the table of results on disk
    run.py      the jobs of a plan that have no result yet
    table.py    means and deviations, and export
    reducers.py several settings in one number: best of a grid, best left out
    picture.py  the same as a picture
"""

from __future__ import annotations

STAMP = "NOT PRIVATE: seeded noise and true errors, computed from the tables. Do not publish."

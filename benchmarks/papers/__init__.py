"""The papers' tables and figures, made by our code, with the printed numbers beside ours.

    python benchmarks/papers --list               what there is, with jobs and estimated time
    python benchmarks/papers --reduced            all of it in about two hours on two cores
    python benchmarks/papers --full               the papers' own grids, seeds and budgets
    python benchmarks/papers --only 'aim/*'       a part; `--page`: only the page, of what is there

`make papers ARGS=--reduced` is the same. Every job is a process of its own and leaves one small
file, so that a run which is killed goes on where it stopped. NOT PRIVATE: seeded noise, errors
against the true tables.

    case.py         one run: all that its outcome depends on
    tables.py       the tables by short names; judges.py  what is taken of a finished run
    experiment.py   a figure or table of a paper: jobs, picture, claims
    aim.py pmw.py gem.py rap.py rap_future.py   the experiments, a file a paper
    pieces.py       outcomes on the disk; page.py, picture.py, costs.py  what is made of them
"""

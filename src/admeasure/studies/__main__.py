"""The process of one job: `python -m admeasure.studies`, with the job on standard input."""

from __future__ import annotations

from admeasure.studies.process import serve


def main() -> None:
    from admeasure.studies.jobs import run_job

    serve(run_job)


if __name__ == "__main__":
    main()

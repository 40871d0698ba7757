"""A release as a task of Airflow: a run file, retried only where that can help.

The same file, run again, goes on where it was interrupted and charges nothing twice, so a retry is
always safe; after the codes below it would end in the same way.
"""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta

from airflow.decorators import dag, task
from airflow.exceptions import AirflowException, AirflowFailException

RUN_FILE = "/srv/people/release.toml"
COMMAND = ["admeasure", "run", RUN_FILE, "--log", "json"]
COMES_AGAIN = (1, 2, 3, 4)
"""Exit codes after which a retry does not help: docs/reference/exit-codes.md."""


@dag(schedule="15 2 * * *", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def private_release() -> None:
    @task(retries=3, retry_delay=timedelta(minutes=15))
    def release() -> None:
        code = subprocess.run(COMMAND, check=False).returncode
        if code in COMES_AGAIN:
            raise AirflowFailException(f"exit code {code}: see the log of the task")
        if code:
            raise AirflowException(f"exit code {code}: tried again, from where it stopped")

    release()


private_release()

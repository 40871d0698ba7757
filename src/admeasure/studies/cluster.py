"""Jobs on the machines of a Ray cluster (`admeasure[cluster]`), each in a process of its own there.

Every machine needs the package and its extras installed, and the tables, schemas and workload files
at the same paths (a shared disk, or copies). Results come back to the machine that started the
study, which alone writes them. A job whose machine is lost is run again elsewhere by Ray.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from admeasure.errors import UsageError
from admeasure.extras import need
from admeasure.limits import MEGABYTE, Limits
from admeasure.studies.lines import JsonObject
from admeasure.studies.process import DIED, ONE_THREAD, failed, run_process

REACH_SECONDS = 10.0


def run_on_ray(
    jobs: Sequence[JsonObject],
    module: str,
    *,
    address: str,
    workers: int | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> Iterator[tuple[int, JsonObject]]:
    """Run each job as `python -m MODULE` on the cluster; positions and outcomes as they come.

    `address` is "local" (a cluster of this machine alone, for this study), "auto" (the one this
    machine belongs to), or a head node's. `workers` limits how many run at a time.
    """
    need("ray", "cluster", "Running on a cluster")
    import ray

    mine = not ray.is_initialized()
    if mine:
        _connect(ray, address, workers)
    memory = None if limits.megabytes is None else int(limits.megabytes * MEGABYTE)
    task: Any = ray.remote(_run).options(num_cpus=1, memory=memory)  # pyright: ignore
    waiting = iter(enumerate(jobs))
    at_once = workers or max(1, 2 * int(ray.cluster_resources().get("CPU", 1)))
    running: dict[Any, int] = {}

    def start() -> None:
        for position, job in waiting:
            running[task.remote(module, job, limits)] = position
            return

    try:
        for _ in range(at_once):
            start()
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            position = running.pop(done)
            start()
            yield position, _outcome(ray, done)
    finally:
        for left in running:
            ray.cancel(left, force=True)
        if mine:
            ray.shutdown()


def _connect(ray: Any, address: str, workers: int | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a study tells nobody that it runs
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _reach(address)
    size = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **size)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = (" ".join(str(error).split()) or type(error).__name__)[:200]
        raise _no_cluster(address, reason) from None


def _reach(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from None


def _no_cluster(address: str, reason: str) -> UsageError:
    return UsageError(
        f"There is no Ray cluster at {address!r} ({reason}). Start one with `ray start --head`, "
        "or use --ray local."
    )


def _run(module: str, job: JsonObject, limits: Limits) -> JsonObject | None:
    """The task: on whichever machine it runs, with the Python of that machine."""
    command = [sys.executable, "-m", module]
    return run_process(command, job, limits, environment=ONE_THREAD)


def _outcome(ray: Any, done: Any) -> JsonObject:
    try:
        return ray.get(done)
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [""]
        return failed(DIED, f"{type(error).__name__}: {lines[0]}")

"""Jobs of Spark: run one and tell how far it is; keep a frame in the executors and let it go.

What is kept is as private as what it was made from. It is gone from the executors' memory and
disks once it is let go, or when the application ends.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from admeasure.sources.kind import Progress

_POLL_SECONDS = 0.2
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNMEASURED = str(2**31 - 1)


def collect(frame: DataFrame, progress: Progress | None) -> pa.Table:
    """Run the job. With `progress` it runs in a thread, and this one asks how far it is."""
    if is_remote(frame):
        found = frame.toArrow()
    else:
        found = _run(frame) if progress is None else _watched(frame, progress)
    if progress is not None:
        progress(1.0)
    return found


def _run(frame: DataFrame) -> pa.Table:
    """Spark adds up the bytes of a whole batch for each row it puts there, which costs more than
    the row; the number of rows bounds our batches. A property of this thread says that it need not,
    so that the session's settings stay as they are, and hold where they name the limit."""
    context = frame.sparkSession.sparkContext
    before = context.getLocalProperty(_BATCH_BYTES)
    context.setLocalProperty(_BATCH_BYTES, _UNMEASURED)
    try:
        return frame.toArrow()
    finally:
        context.setLocalProperty(_BATCH_BYTES, before)  # pyright: ignore[reportArgumentType]


def is_remote(frame: DataFrame) -> bool:
    """Whether the session is one of Spark Connect."""
    return type(frame).__module__.startswith("pyspark.sql.connect")


def let_go(frame: DataFrame) -> None:
    """Drop what is kept of a frame. A session that has ended keeps nothing."""
    with contextlib.suppress(Exception):
        if is_remote(frame) or frame.sparkSession.sparkContext._jsc is not None:
            frame.unpersist()


def let_go_later(frame: DataFrame) -> None:
    """The same for a finaliser, which may run in the middle of another call to Java: a thread has
    a connection of its own."""
    with contextlib.suppress(RuntimeError):  # no thread can be started while Python ends
        threading.Thread(target=let_go, args=(frame,), daemon=True).start()


def _watched(frame: DataFrame, progress: Progress) -> pa.Table:
    from pyspark import InheritableThread

    context = frame.sparkSession.sparkContext
    group = f"admeasure-{uuid.uuid4()}"
    found: list[Any] = []

    def run() -> None:
        context.setJobGroup(group, "counting")  # of this thread alone
        try:
            found.append(_run(frame))
        except Exception as error:
            found.append(error)

    thread = InheritableThread(target=run)
    thread.start()
    tracker, furthest = context.statusTracker(), 0.0
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(s) for job in jobs if job for s in job.stageIds]
        tasks = sum(stage.numTasks for stage in stages if stage)
        done = sum(stage.numCompletedTasks for stage in stages if stage)
        furthest = max(furthest, min(done / tasks, 1.0) if tasks else 0.0)
        progress(furthest)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]

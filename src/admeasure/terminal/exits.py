"""One way out: from work to an exit code.

Every error becomes one line on stderr (more only where it lists several problems) and a code, of
which `errors.ExitCode` is the table.

An unexpected error shows its type and never its text, which may hold values of the private table;
`ADMEASURE_DEBUG=1` shows the whole trace to whoever may see them. An argument that an error repeats
is shown as far as `printable` shows it: it may be an address with a password in the wrong place.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from admeasure.errors import AdmeasureError, ExitCode
from admeasure.terminal import console

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Interrupted(Exception):
    """Ctrl-C during a run that can be continued; its text says how."""


def resumable(partial: Path) -> Interrupted | KeyboardInterrupt:
    """What to raise where Ctrl-C ended a run that keeps what it released in `partial`."""
    if not partial.exists():
        return KeyboardInterrupt()
    return Interrupted(
        f"What was released so far is kept in {partial}. Run the same command with --resume to "
        "continue; nothing is charged twice."
    )


def guarded(work: Callable[[], Any], argv: Sequence[str]) -> int:
    """Do the work and return its exit code: the one that it returns itself, or that of its error.
    `argv` are the texts that it was given."""
    _take_sigterm_for_ctrl_c()
    with warnings.catch_warnings():
        _plain_warnings()
        code = _left(work, argv)
    console.log("end", exit_code=int(code))
    return int(code)


def _left(work: Callable[[], Any], argv: Sequence[str]) -> int:
    try:
        result = work()
        sys.stdout.flush()
        if result == ExitCode.INTERRUPTED:  # the parser's own way with Ctrl-C
            return _interrupted("")
        return result if isinstance(result, int) else ExitCode.DONE
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # of a class that was being made
            return _interrupted("")
        return _failed(error, argv)
    except KeyboardInterrupt:
        return _interrupted("")
    except SystemExit as leaving:  # the parser leaves by itself when a pipe is closed
        if isinstance(leaving.__context__, BrokenPipeError):
            return _failed(leaving.__context__, argv)
        return leaving.code if isinstance(leaving.code, int) else ExitCode.UNEXPECTED


def _take_sigterm_for_ctrl_c() -> None:
    """Whoever ends a run (a scheduler, a service manager) is told how it can be continued."""
    if threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _failed(error: Exception, argv: Sequence[str]) -> int:
    from admeasure.sources.address import without_secrets

    def tell(text: str, code: ExitCode) -> int:
        console.error(without_secrets(text, argv), code)
        return code

    if os.environ.get("ADMEASURE_DEBUG") == "1":
        traceback.print_exception(error)
    match error:
        case AdmeasureError():
            return tell(str(error), error.exit_code)
        case Interrupted():
            return _interrupted(str(error))
        case BrokenPipeError():
            # Whoever read our output has seen enough. Python would complain once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.DONE
        case OSError():
            return tell(*_by_system(error))
        case MemoryError():
            return tell(
                "There is not enough memory. Use fewer columns, coarser bins or a smaller "
                "workload.",
                ExitCode.RESOURCE,
            )
    if type(error).__name__ == "Abort":
        return _interrupted("")
    if hasattr(error, "format_message"):  # the parser's own errors, whichever click it is built on
        verb = getattr(getattr(error, "ctx", None), "command_path", "admeasure")
        said = " ".join(str(error.format_message()).split()).rstrip(".")  # pyright: ignore[reportAttributeAccessIssue]
        return tell(f"{said}. See `{verb} --help`.", ExitCode.USAGE)
    return tell(
        f"unexpected {type(error).__name__}. This is a fault of admeasure, please report it. "
        "ADMEASURE_DEBUG=1 shows where it came from; what it shows may hold private values.",
        ExitCode.UNEXPECTED,
    )


def _by_system(error: OSError) -> tuple[str, ExitCode]:
    from admeasure.sources.address import printable

    where = f" ({printable(error.filename)})" if error.filename else ""
    reason = error.strerror or type(error).__name__
    if error.errno in _FULL:
        return f"{reason}{where}. Free some space, or write to another place.", ExitCode.RESOURCE
    return f"{reason}{where}. Check the path and its permissions.", ExitCode.USAGE


def _interrupted(hint: str) -> int:
    console.error(f"interrupted. {hint}".strip(), ExitCode.INTERRUPTED)
    return ExitCode.INTERRUPTED


def _plain_warnings() -> None:
    """Our warnings are advice to the user; those of libraries are for developers."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text = str(message)
        if issubclass(category, UserWarning) and text not in shown:
            shown.add(text)
            console.warn(text)

    warnings.resetwarnings()
    if os.environ.get("ADMEASURE_DEBUG") != "1":
        warnings.simplefilter("ignore")
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = show

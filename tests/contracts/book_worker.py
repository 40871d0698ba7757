"""Processes that charge one budget book at once, or are killed meanwhile.

    python book_worker.py BOOK charge PROCESSES EACH    each makes so many charges, and settles them
    python book_worker.py BOOK exhaust PROCESSES PARTS  each takes 2/PARTS of the total till refused
    python book_worker.py BOOK kill TIMES               processes that charge until they are killed

Every line says what somebody was promised: `charged NUMBER RHO`, `ended NUMBER RHO`, `refused`.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from fractions import Fraction

from admeasure.errors import BudgetError
from admeasure.privacy.book import Book

RUN = {"mechanism": "aim", "release": "r"}


def say(*words: object) -> None:
    """One write, so that lines of several processes do not mix, and nothing waits in a buffer."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def charge(book: Book, rho: Fraction, *, aloud: bool) -> None:
    number = book.reserve("adult", rho, **RUN)
    if aloud:
        say("charged", number, rho)
    book.settle(number, rho / 2)
    say("ended", number, rho / 2)


def exhaust(book: Book, rho: Fraction) -> None:
    try:
        while True:
            say("charged", book.reserve("adult", rho, **RUN), rho)
    except BudgetError as error:
        say("refused" if "is left" in str(error) else f"failed: {error}")


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def at_once(processes: int, work: Callable[[], None]) -> None:
    children = [forked(work) for _ in range(processes)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert not any(codes), codes


def killed(book: Book, rho: Fraction, times: int) -> None:
    moments = random.Random(0)

    def without_end() -> None:
        os.dup2(write, 1)
        while True:
            charge(book, rho, aloud=True)

    for _ in range(times):
        read, write = os.pipe()
        child = forked(without_end)
        os.close(write)
        select.select([read], [], [])  # it is under way
        time.sleep(moments.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while said := os.read(read, 65536):
            os.write(1, said)
        os.close(read)
        book.changes()  # readable, and sound to the last link


def main() -> None:
    book = Book.open(sys.argv[1])
    total = book.account("adult").total.rho
    match sys.argv[2:]:
        case ["charge", processes, each]:
            rho = total / 10**6

            def work() -> None:
                for _ in range(int(each)):
                    charge(book, rho, aloud=False)

            at_once(int(processes), work)
        case ["exhaust", processes, parts]:
            at_once(int(processes), lambda: exhaust(book, total * 2 / int(parts)))
        case ["kill", times]:
            killed(book, total / 10**6, int(times))


if __name__ == "__main__":
    main()

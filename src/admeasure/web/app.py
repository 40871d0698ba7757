"""The local page as an ASGI application: routes, and nothing that a page or an action could do."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from admeasure.errors import AdmeasureError, UsageError
from admeasure.files import write_private
from admeasure.reporting.html import certificate_page
from admeasure.terminal.console import finite
from admeasure.untrusted import parse_json
from admeasure.web import actions, asking, budget, commands, pages, runs
from admeasure.web.entrance import Entrance, Keys
from admeasure.web.guard import REPORT_POLICY, Guard
from admeasure.web.watching import Watched
from admeasure.web.wording import on_page
from admeasure.web.workspace import Stale, Workspace

MOST_BYTES = 8 << 20
INTERNAL = "report.NOT-PRIVATE.html"
LOOK_SECONDS = 0.25
MOST_ROWS = 10_000_000
BODY_SECONDS = 30
NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What a body that no page of ours would send causes: wrong kinds, missing parts, no end."""


def make_app(space: Workspace, *, entrance: Entrance, keys: Keys, port: int) -> Starlette:
    """The application for one workspace, which must be prepared."""
    handlers = Handlers(space, keys.root)
    page, act = handlers.page, handlers.action
    at, of = "/tables/{table}", "/tables/{table}/runs/{run}"
    routes = [
        Route("/", page(lambda _: pages.home(space))),
        Route("/static/{name}", static),
        Route("/book", page(lambda _: pages.book(space))),
        Route(f"{at}/schema", page(lambda r: pages.schema(handlers.table(r)))),
        Route(f"{at}/workload", page(lambda r: pages.workload(handlers.table(r)))),
        Route(f"{at}/budget", page(lambda r: pages.budget(space, handlers.table(r)))),
        Route(
            f"{at}/compare",
            page(lambda r: pages.compare(handlers.table(r), r.query_params.getlist("run"))),
        ),
        Route(of, page(lambda r: pages.run(handlers.table(r), handlers.run(r)))),
        Route(f"{of}/events", handlers.made(handlers.events)),
        Route(f"{of}/report", handlers.report("report.html")),
        Route(f"{of}/internal", handlers.report(INTERNAL)),
        Route(f"{of}/download/{{what}}", handlers.made(handlers.download)),
        act("/open", lambda r, b: actions.open_table(space, b)),
        act("/demo", lambda r, b: actions.open_demo(space)),
        act("/book/use", lambda r, b: actions.use_book(space, b)),
        act("/book/create", lambda r, b: actions.create_account(space, b)),
        act("/book/close", lambda r, b: actions.close_account(space, b)),
        act(f"{at}/schema/save", lambda r, b: actions.save_schema(handlers.table(r), b)),
        act(f"{at}/schema/text", lambda r, b: actions.schema_from_text(handlers.table(r), b)),
        act(f"{at}/schema/verify", lambda r, b: actions.verify_table(handlers.table(r))),
        act(f"{at}/workload/preview", lambda r, b: actions.preview_workload(handlers.table(r), b)),
        act(f"{at}/workload/save", lambda r, b: actions.save_workload(handlers.table(r), b)),
        act(f"{at}/budget/plan", lambda r, b: budget.plan(space, handlers.table(r), b)),
        act(f"{at}/start", lambda r, b: budget.start(space, handlers.table(r), b)),
        act(f"{of}/cancel", lambda r, b: handlers.cancel(r)),
        act(f"{of}/resume", lambda r, b: handlers.resume(r, b["attempt"])),
        act(f"{of}/internal/make", handlers.internal),
        act(f"{of}/ask", lambda r, b: asking.ask(handlers.run(r).release, b)),
        act(
            f"{of}/marginal",
            lambda r, b: asking.marginal(handlers.run(r).release, b["columns"], b["confidence"]),
        ),
        act(f"{of}/rows", lambda r, b: asking.rows(handlers.run(r).release)),
        act(f"{of}/conclusions", lambda r, b: asking.conclude(handlers.run(r).release, b)),
    ]
    guard = Middleware(Guard, entrance=entrance, keys=keys, port=port)
    app = Starlette(routes=routes, middleware=[guard])
    app.router.redirect_slashes = False
    return app


class Handlers:
    """Requests to functions of the workspace, and their errors to answers."""

    def __init__(self, space: Workspace, root: str) -> None:
        self._space = space
        self._root = root

    def table(self, request: Request) -> Any:
        return self._space.table(request.path_params["table"])

    def run(self, request: Request) -> runs.RunFolder:
        return runs.find_run(self.table(request), request.path_params["run"])

    def made(self, make: Callable[[Request], Response]) -> Callable[[Request], Any]:
        """What is asked for, or a page that says why it cannot be had."""

        async def endpoint(request: Request) -> Response:
            try:
                return await run_in_threadpool(make, request)
            except AdmeasureError as error:
                page = pages.problem(on_page(str(error)))
                return HTMLResponse(page.html(self._root), status_code=404)

        return endpoint

    def page(self, make: Callable[[Request], pages.Page]) -> Callable[[Request], Any]:
        return self.made(lambda request: HTMLResponse(make(request).html(self._root)))

    def action(self, path: str, work: Callable[[Request, dict[str, Any]], Any]) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                body = await _body(request)
                return JSONResponse(finite(await run_in_threadpool(work, request, body)))
            except Stale as error:
                return JSONResponse({"error": str(error)}, status_code=409)
            except AdmeasureError as error:
                return JSONResponse({"error": on_page(str(error))}, status_code=422)
            except TimeoutError:
                text = "The page did not send all of its request in time. Try again."
                return JSONResponse({"error": text}, status_code=408)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody is there to read it
            except NONSENSE:
                text = "The page sent something that this server does not understand. Reload it."
                return JSONResponse({"error": text}, status_code=400)

        return Route(path, endpoint, methods=["POST"])

    def cancel(self, request: Request) -> dict[str, Any]:
        runs.cancel(self.run(request))
        return {"ok": True}

    def resume(self, request: Request, seen: int) -> dict[str, Any]:
        run = self.run(request)
        runs.resume(run, seen)
        return {"state": run.state}

    def events(self, request: Request) -> Response:
        """A run as it goes on, as server-sent events: each is the whole state, so that a page that
        was reloaded, or opened twice, shows the same."""
        watched = Watched(self.run(request))
        return StreamingResponse(_watch(request, watched), media_type="text/event-stream")

    def report(self, name: str) -> Callable[[Request], Any]:
        """A report of the run, to be shown; the internal one is there only if it was asked for."""

        def shown(request: Request) -> Response:
            path = self.run(request).path / name
            if not path.exists():
                raise UsageError("The report is not there yet.")
            return FileResponse(
                path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY}
            )

        return self.made(shown)

    def internal(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """The internal report, by a process of its own: it reads the private table."""
        table, run = self.table(request), self.run(request)
        argv = ["report", str(run.release), "-o", str(run.path / INTERNAL)]
        commands.run([*argv, "--internal", run.settings.data, "--force"])
        at = f"/tables/{table.name}/runs/{run.number}"
        return {"next": f"{at}/download/internal.html", "shown": f"{at}/internal"}

    def download(self, request: Request) -> Response:
        run, what = self.run(request), request.path_params["what"]
        stem = f"{self.table(request).name}-run-{run.number}"
        release = asking.load(run.release)
        mark = "-NOT-PRIVATE" if release.certificate.stamp else ""
        path = run.path / what
        match what:
            case "report.html":
                name = f"{stem}-report{mark}.html"
            case "internal.html":
                path, name = run.path / INTERNAL, f"{stem}.NOT-PRIVATE.html"
            case "certificate.html":
                write_private(path, certificate_page(release))
                name = f"{stem}-certificate{mark}.html"
            case "certificate.json":
                write_private(path, json.dumps(release.certificate.to_json(), indent=1))
                name = f"{stem}-certificate{mark}.json"
            case "certificate.yaml":
                path, name = run.release / what, f"{stem}-certificate{mark}.yaml"
            case "release.zip":
                _zip(run.release, path)
                name = f"{stem}{mark}.zip"
            case "synthetic.csv" | "synthetic.parquet":
                _sample(run.release, path, request.query_params.get("rows", ""))
                name = f"{stem}-{path.stem}{mark}{path.suffix}"
            case _:
                raise UsageError("There is no such file.")
        if not path.exists():
            raise UsageError("That file is not there yet.")
        return FileResponse(path, filename=name)


def _zip(release: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(release.iterdir()):
            archive.write(file, f"release/{file.name}")


def _sample(release: Path, path: Path, rows: str) -> None:
    """Synthetic rows, by a process of its own: there may be millions."""
    argv = ["sample", str(release), "-o", str(path), "--force"]
    if rows.strip():
        if not rows.strip().isdecimal() or int(rows) > MOST_ROWS:
            raise UsageError(f"The number of rows must be a whole number up to {MOST_ROWS:,}.")
        argv += ["-n", rows.strip()]
    commands.run(argv)


async def _watch(request: Request, watched: Watched) -> AsyncIterator[str]:
    last = ""
    quiet = 0.0
    while not await request.is_disconnected():
        found = await run_in_threadpool(watched.look)
        text = json.dumps(finite(found))
        if text != last:
            yield f"data: {text}\n\n"
            last, quiet = text, 0.0
        elif quiet > 15:
            yield ": still here\n\n"
            quiet = 0.0
        if found["state"] != runs.RUNNING:
            yield "event: end\ndata: {}\n\n"
            return
        await asyncio.sleep(LOOK_SECONDS)
        quiet += LOOK_SECONDS


async def _body(request: Request) -> dict[str, Any]:
    raw = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        async for part in request.stream():
            raw += part
            if len(raw) > MOST_BYTES:
                raise UsageError("That is too much for one form.")
    return parse_json(bytes(raw) or b"{}", "What the page sent")


SCRIPTS = (
    *("page", "tools", "schema", "column", "rules", "workload"),
    *("budget", "run", "results", "conclusions"),
)
KINDS = {"page.css": "text/css", **{f"{name}.js": "text/javascript" for name in SCRIPTS}}


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in KINDS:
        return Response(status_code=404)
    return Response(_content(name), media_type=KINDS[name])


@lru_cache
def _content(name: str) -> str:
    here = files("admeasure.web") / "static" / name
    text = here.read_text(encoding="utf-8")
    if name == "page.css":  # the reports' colours and tables, so that both look alike
        shared = files("admeasure.reporting") / "templates" / "style.css"
        return shared.read_text(encoding="utf-8") + text
    return text

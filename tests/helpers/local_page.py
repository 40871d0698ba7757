"""Steps of the local page in a browser, and what axe finds there."""

from __future__ import annotations

from typing import Any


def not_recorded(page: Any, *, mechanism: str = "independent", epsilon: str = "1") -> None:
    """On the budget's page: a run that no book records, with its plan."""
    page.fill("#epsilon", epsilon)
    page.select_option("#book-choice", "")
    page.evaluate("document.querySelector('#budget-form > details').open = true")
    page.select_option("#mechanism", mechanism)
    page.wait_for_function(
        """([e, m]) => document.querySelector('#start').textContent.includes(`epsilon ${e}`)
            && document.querySelector('#code-command').textContent.includes(`mechanism ${m}`)""",
        arg=[epsilon, mechanism],
    )


def violations(page: Any) -> list[str]:
    """What axe finds that keeps somebody out: serious and critical, by rule and place."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], "iframes": False}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{v['id']} ({v['impact']}): {node['target']} {node['html'][:120]}"
        for v in found
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"]
    ]

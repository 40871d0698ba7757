"""The documentation in a browser, from the file system."""

from __future__ import annotations


def test_the_search_finds_pages_without_a_server_or_an_outside_request(chromium, site):
    page = chromium.new_page()
    page.set_default_timeout(150_000)  # the machine may be busy
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "reference" / "python.html").as_uri())
    box = page.locator("input.md-search__input")
    box.click()
    box.press_sequentially("best-mixture error")
    found = page.locator(".md-search-result__link")
    found.first.wait_for()
    assert any("public-data.html" in link.get_attribute("href") for link in found.all())
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.close()

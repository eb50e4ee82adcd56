"""A real Chromium that looks at a real Airflow, and what a test may ask of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Error, Page, Request, expect, sync_playwright

from local_stack.parts.airflow import passwords_file
from local_stack.processes.packages import find_program
from local_stack.settings import REPOSITORY_ROOT, StackSettings
from tests.support import web
from tests.support.speed import scaled

#: Pictures of the pages, for people to look at; SCREENSHOTS names another folder.
SCREENSHOTS = Path(os.environ.get("SCREENSHOTS", REPOSITORY_ROOT / ".local" / "screenshots"))
AXE = Path(__file__).parent / "vendor" / "axe.js"
WIDE, NARROW = {"width": 1360, "height": 850}, {"width": 400, "height": 850}
#: How long an idle machine may take to show what a page or an action of it is waited for; Airflow's own pages
#: take seconds.
PATIENCE_SECONDS = 30.0
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def milliseconds(seconds: float) -> float:
    """Return Playwright's timeout for what takes less than ``seconds`` on an idle machine."""
    return 1000 * scaled(seconds)


@contextmanager
def chromium() -> Iterator[Browser]:
    """
    Run the packaged Chromium, headless.

    Not for a whole test session: Playwright keeps an event loop in this thread, in which no other one can run
    meanwhile.
    """
    program = find_program("chromium") or find_program("chromium-browser")
    assert program, "the tests of pages need the program chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        expect.set_options(timeout=milliseconds(PATIENCE_SECONDS))
        browser = playwright.chromium.launch(
            executable_path=program, args=_ARGUMENTS, timeout=milliseconds(PATIENCE_SECONDS)
        )
        yield browser
        browser.close()


def new_context(browser: Browser, base_url: str) -> BrowserContext:
    """Return a context without a login, whose pages are as patient as ``expect``."""
    context = browser.new_context(base_url=base_url, viewport=WIDE)
    context.set_default_timeout(milliseconds(PATIENCE_SECONDS))
    return context


def load(page: Page, path: str) -> None:
    """
    Show ``path`` in ``page``.

    Chromium drops all requests when the machine's networks change, which each job on the engine causes.
    A page of the dashboard that lacks a script or a style reloads itself. A second reload at the same
    time would fail, so this waits. A page of Airflow's stays empty, so this reloads it.
    """
    dropped: list[str] = []

    def hear(request: Request) -> None:
        is_needed = request.resource_type in ("script", "stylesheet")
        if is_needed and "ERR_NETWORK_CHANGED" in (request.failure or ""):
            dropped.append(request.url)

    page.on("requestfailed", hear)
    try:
        page.goto(path)
    except Error as error:
        if "ERR_NETWORK_CHANGED" not in error.message:
            raise
        page.goto(path)
    if dropped and urlsplit(page.url).path.startswith("/training"):
        page.locator("html:not([aria-busy]) #live:not(:empty)").wait_for(state="attached")
        dropped.clear()
    while dropped:
        dropped.clear()
        page.reload()
    page.remove_listener("requestfailed", hear)


def token_of(user: str, settings: StackSettings) -> str:
    """Log in to the stack's Airflow; return the token."""
    password = json.loads(passwords_file(settings).read_text("utf-8"))[user]
    answer = web.post(
        f"{settings.airflow_url}/auth/token",
        json={"username": user, "password": password},
        timeout=scaled(PATIENCE_SECONDS),
    )
    token: str = answer.raise_for_status().json()["access_token"]
    return token


class Person:
    """
    Somebody who is logged in, with pages of a browser of their own.

    :param user: a name of ``airflow_users.USERS``.
    """

    def __init__(self, browser: Browser, settings: StackSettings, user: str) -> None:
        self.base_url = settings.airflow_url
        self.token = token_of(user, settings)
        self.context: BrowserContext = new_context(browser, self.base_url)
        self.context.add_cookies(
            [
                {
                    "name": "_token",
                    "value": self.token,
                    "url": self.base_url,
                    "httpOnly": True,
                    "sameSite": "Lax",
                }
            ]
        )
        #: What went wrong in any page: errors of scripts, and what the policy forbade.
        self.errors: list[str] = []
        self.requested: list[str] = []
        self.context.on("weberror", lambda error: self.errors.append(str(error.error)))
        self.context.on("console", self._hear)
        # Shown with a test that fails.
        self.context.on("requestfailed", lambda lost: print(f"{lost.method} {lost.url}: {lost.failure}"))
        self.context.on("request", lambda request: self.requested.append(request.url))

    def open(self, path: str) -> Page:
        """Return a new page that shows ``path``."""
        page = self.context.new_page()
        load(page, path)
        return page

    def _hear(self, message: Any) -> None:
        # The browser says by itself what a test wanted: that a request was refused. Airflow's own pages have
        # errors of their own.
        is_airflows = "/static/assets/" in message.location["url"]
        if message.type == "error" and not is_airflows and "Failed to load resource" not in message.text:
            self.errors.append(message.text)


def serious_violations(page: Page) -> list[str]:
    """
    Return what axe-core calls serious or critical: rule, and the elements.

    It is put in through the debugger, since the page's own policy lets no foreign script in.
    """
    page.evaluate(AXE.read_text("utf-8") + "; true")
    found = page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)"
    )
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:120] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def overflow_pixels(page: Page) -> int:
    """Return by how much the page is wider than its window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wide


def keep_picture(page: Page, name: str) -> None:
    """Write a picture of what the window shows."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")

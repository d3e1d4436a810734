"""The site, a server and a browser for its tests."""

import re
from pathlib import Path

import pytest
from site_pages import ROOT, STATIC

# It imports torch, and has no examples to try.
collect_ignore = ["torch_network.py"]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site."""
    folder = ROOT / "_build" / "html"
    if not (folder / "index.html").exists():
        pytest.fail("There is no site to test: make book builds it.", pytrace=False)
    return folder


@pytest.fixture(scope="session")
def serve():
    """Serve a folder, and a probe page with it; the address of the folder."""
    from server import Server

    servers = []

    def start(*arguments, **options) -> str:
        servers.append(Server(*arguments, **options))
        return servers[-1].start()

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


# Not for the session: Playwright keeps an event loop running in the thread of the tests, and other
# modules run loops of their own.
@pytest.fixture(scope="module")
def browser():
    """Start Chromium."""
    from browser import CHROMIUM, OPTIONS, PATIENCE
    from playwright.sync_api import expect, sync_playwright

    if CHROMIUM is None:
        pytest.fail("No Chromium is installed, and this run must have one.", pytrace=False)
    expect.set_options(timeout=PATIENCE)  # it waits no longer than it must
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """Open an empty page in a context of its own, with Playwright's options for contexts."""
    from browser import new_page

    pages = []

    def start(**options):
        pages.append(new_page(browser, **options))
        return pages[-1]

    yield start
    for page in pages:
        page.context.close()


@pytest.fixture
def probe(serve, open_page):
    """Open a page of a test's own beside the scripts and styles of the site.

    At the end of the test, nothing may have gone wrong on it.
    """
    from browser import Heard

    opened = []

    def start(body: str, head: str = "", address: str = "", **options):
        page = open_page(**options)
        base = serve(
            STATIC,
            f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>',
        )
        opened.append((Heard(page), base))
        page.goto(f"{base}probe{address}")
        return page

    yield start
    for heard, base in opened:
        assert heard.problems(base) == []


@pytest.fixture
def show(probe):
    """Open a page with figures, which have their scripts and colours there."""

    def start(body: str, address: str = "", **options):
        names = re.findall(r"<nt-(\w+)", body)
        scripts = (f'<script type="module" src="/interactive/{n}.js"></script>' for n in names)
        styles = (f'<link rel="stylesheet" href="/{one}.css">' for one in ("colours", "book"))
        head = f'<title>t</title>{"".join(styles)}<link rel="icon" href="data:,">'
        return probe(f"<main>{body}</main>{''.join(scripts)}", head, address, **options)

    return start


@pytest.fixture(scope="session")
def address(site, serve):
    """Serve the site; what a page shows late comes as late as over a network."""
    return serve(site, late=0.1)


@pytest.fixture
def visit(open_page, address):
    """Open a page of the site; at the end of the test, nothing may have gone wrong on it."""
    from browser import Heard

    heard = []

    def start(name: str, **options):
        page = open_page(**options)
        scripted = options.get("java_script_enabled", True)
        if scripted:
            heard.append(Heard(page))
        page.goto(f"{address}{name}.html")
        if scripted:
            heard[-1].until_all_is_there()
        return page

    yield start
    for one in heard:
        assert one.problems(address) == []

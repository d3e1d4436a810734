"""A browser for the tests of the site."""

import pytest


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

"""A browser for the tests of the site."""

import pytest


# Not for the session: Playwright keeps an event loop running in the thread of the tests, and other
# modules run loops of their own.
@pytest.fixture(scope="module")
def browser():
    """Start Chromium."""
    from browser import CHROMIUM, OPTIONS
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.fail("No Chromium is installed, and this run must have one.", pytrace=False)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """Open an empty page in a context of its own, with Playwright's options for contexts."""
    from browser import DESKTOP

    contexts = []

    def start(**options):
        context = browser.new_context(**{**DESKTOP, **options})
        context.set_default_timeout(20_000)
        contexts.append(context)
        return context.new_page()

    yield start
    for context in contexts:
        context.close()

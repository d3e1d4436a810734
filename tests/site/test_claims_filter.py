"""The filter of the claims ledger, on the page of the site."""

import re

from browser import DESKTOP, needs_chromium
from playwright.sync_api import expect

pytestmark = needs_chromium


def shown(page) -> list[str]:
    return page.locator("details.claim:not([hidden])").evaluate_all("all => all.map(one => one.id)")


def test_the_filter_shows_what_fits_and_counts_it(site, serve, open_page):
    from normtutor import claims

    page = open_page()
    page.goto(f"{serve(site)}book/claims.html")
    expect(page.locator("form.claims-filter")).to_be_visible()
    assert len(shown(page)) == len(claims.CLAIMS)

    page.locator("#claims-verdict").select_option("half")
    page.locator("#claims-chapter").select_option("2")
    page.locator("#claims-open").click()
    fitting = [
        f"claim-{claim.name}"
        for claim in claims.CLAIMS
        if claim.recorded == "half" and claim.place.number == 2
    ]
    assert shown(page) == fitting
    opened = page.locator("details.claim[open]").evaluate_all("all => all.map(one => one.id)")
    assert opened == fitting
    expect(page.locator("#claims-shown")).to_have_text(
        f"{len(fitting)} of {len(claims.CLAIMS)} claims shown"
    )
    expect(page.locator("#claims-open")).to_have_text("Close all")

    page.locator("#claims-verdict").select_option("")
    page.locator("#claims-chapter").select_option("")
    page.locator("#claims-words").fill("sphere radius")
    expect(page).to_have_url(re.compile("words=sphere"))
    assert "claim-unit-sphere" in shown(page) and len(shown(page)) < 5


def test_the_words_of_a_verdict_keep_off_its_frame(visit):
    rooms = visit("book/claims", **DESKTOP).evaluate(
        """() => [...document.querySelectorAll(".claim-verdict")].map(frame => {
          const words = document.createRange();
          words.selectNodeContents(frame);
          return frame.getBoundingClientRect().right - words.getBoundingClientRect().right;
        })"""
    )
    assert len(rooms) > 100 and min(rooms) >= 4

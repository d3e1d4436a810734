"""The claims ledger on the site: the overview with its filter, and the card of each claim."""

import re

import pytest
from browser import DESKTOP, PHONE, needs_chromium
from normtutor_studies import claims
from playwright.sync_api import expect
from site_pages import parsed

HEIGHT = 6_000  # pixels of the overview on a phone, folded; it once had 20,132


def shown(page) -> list[str]:
    return page.locator("p.claim:not([hidden])").evaluate_all("all => all.map(one => one.id)")


@needs_chromium
def test_the_filter_shows_what_fits_and_counts_it(site, serve, open_page):
    page = open_page()
    page.goto(f"{serve(site)}book/claims.html")
    expect(page.locator("form.claims-filter")).to_be_visible()
    assert shown(page) == [f"claim-{claim.name}" for claim in claims.CLAIMS]
    page.locator("#claims-verdict").select_option("partly")
    page.locator("#claims-chapter").select_option("2")
    fitting = [
        f"claim-{claim.name}"
        for claim in claims.CLAIMS
        if claim.recorded == "partly" and claim.place.number == 2
    ]
    assert shown(page) == fitting
    expect(page.locator("#claims-shown")).to_have_text(
        f"{len(fitting)} of {len(claims.CLAIMS)} claims shown"
    )
    expect(page).to_have_url(re.compile("verdict=partly&chapter=2"))
    page.reload()
    expect(page.locator("#claims-shown")).to_contain_text(f"{len(fitting)} of")


@needs_chromium
def test_the_overview_is_short_and_a_verdict_differs_in_colour_and_shape(visit):
    assert visit("book/claims", **PHONE).evaluate("document.body.scrollHeight") < HEIGHT
    looks = visit("book/claims", **DESKTOP).evaluate(
        """() => ["true", "false", "partly", "open"].map((verdict) => {
          const badge = document.querySelector(`.claim-${verdict}`);
          const [style, sign] = [getComputedStyle(badge), getComputedStyle(badge, "::before")];
          return [style.color, sign.content, style.borderRadius + style.borderStyle];
        })"""
    )
    for kind in zip(*looks, strict=True):
        assert len(set(kind)) == 4, kind


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.name)
def test_each_claim_has_a_card_at_its_own_address(site, claim):
    path = site / "book" / f"claim-{claim.name}.html"
    page = parsed(path)
    (title,) = page.find_all("h1")
    assert title.get_text() == f"“{claim.words}”"
    card = page.find("section", id="claim")
    badge = card.find(class_="claim-verdict").get_text()
    assert badge.split(",")[0] == claims.LABELS[claim.recorded]
    assert card.find("p", class_="claim-answer").get_text() == claim.answer
    assert f'claims.show("{claim.name}")' in card.find("pre").get_text()
    cited = card.find(class_="claim-cited").get_text()
    assert claim.answer in cited and f"claim-{claim.name}.html" in cited
    assert card.find("details").find("summary").get_text() == "All evidence"
    seen = {tag.get("property"): tag["content"] for tag in page.find_all("meta", property=True)}
    assert seen["og:title"] == f"“{claim.words}”"
    assert seen["og:description"] == f"{badge.capitalize()}: {claim.answer}"
    assert (site / "_static" / "claims" / f"{claim.name}.png").stat().st_size < 40_000
    assert seen["og:image"].endswith(f"/_static/claims/{claim.name}.png")
    assert f"book/claim-{claim.name}.html" in (site / "sitemap.xml").read_text("utf-8")


def test_a_link_to_a_claim_leads_to_its_card(site):
    links = parsed(site / "book" / "questions.html").find("article").find_all("a", href=True)
    assert "claim-unit-sphere.html" in [link["href"] for link in links]

"""The claims ledger on the site: the overview with its filter, and the card of each claim."""

import re
from pathlib import Path

import claims_page
import matplotlib
import sharing
from browser import needs_chromium
from normtutor_studies import claims
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import expect
from site_pages import parsed


@needs_chromium
def test_the_filter_shows_what_fits_and_counts_it(visit):
    page = visit("book/claims")
    shown = page.locator("p.claim:not([hidden])")
    ids = "all => all.map(one => one.id)"
    expect(page.locator("form.claims-filter")).to_be_visible()
    assert shown.evaluate_all(ids) == [f"claim-{claim.name}" for claim in claims.CLAIMS]
    page.locator("#claims-verdict").select_option("partly")
    page.locator("#claims-chapter").select_option("2")
    fitting = [
        f"claim-{claim.name}"
        for claim in claims.CLAIMS
        if claim.recorded == "partly" and claim.place.number == 2
    ]
    assert shown.evaluate_all(ids) == fitting
    count = f"{len(fitting)} of {len(claims.CLAIMS)} claims shown"
    expect(page.locator("#claims-shown")).to_have_text(count)
    expect(page).to_have_url(re.compile("verdict=partly&chapter=2"))
    page.reload()
    expect(page.locator("#claims-shown")).to_have_text(count)
    # A verdict has a sign beside its colour, for those who see no colours.
    signs = page.evaluate(
        """() => ["true", "false", "partly", "open"].map((verdict) =>
          getComputedStyle(document.querySelector(`.claim-${verdict}`), "::before").content)"""
    )
    assert len(set(signs)) == 4, signs


def card_problems(claim: claims.Claim, site) -> list[str]:
    """List what the page of a claim does not say, or not as the ledger does."""
    page = parsed(site / "book" / f"claim-{claim.name}.html")
    card = page.find("section", id="claim")
    seen = {tag.get("property"): tag["content"] for tag in page.find_all("meta", property=True)}
    badge = card.find(class_="claim-verdict").get_text()
    cited = card.find(class_="claim-cited").get_text()
    picture = f"_static/claims/{claim.name}.png"
    holds = {
        "title": [h1.get_text() for h1 in page.find_all("h1")] == [f"“{claim.words}”"],
        "verdict": badge.split(",")[0] == claims.LABELS[claim.recorded],
        "answer": card.find("p", class_="claim-answer").get_text() == claim.answer,
        "code": f'claims.show("{claim.name}")' in card.find("pre").get_text(),
        "citation": claim.answer in cited and f"claim-{claim.name}.html" in cited,
        "evidence": card.find("details").find("summary").get_text() == "All evidence",
        "og:title": seen["og:title"] == f"“{claim.words}”",
        "og:description": seen["og:description"] == f"{badge.capitalize()}: {claim.answer}",
        "og:image": seen["og:image"].endswith(f"/{picture}"),
        "weight": (site / picture).stat().st_size < 40_000,
    }
    return [f"{claim.name}: {part}" for part, is_held in holds.items() if not is_held]


def test_each_claim_has_a_card_at_its_own_address(site):
    assert [problem for claim in claims.CLAIMS for problem in card_problems(claim, site)] == []


def test_no_text_of_a_picture_reaches_the_next():
    """On nine of 72 cards the sentence once ran into the verdict."""
    font = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    canvas = ImageDraw.Draw(Image.new("RGB", sharing.SIZE))
    texts = [
        words
        for claim in claims.CLAIMS
        for words in claims_page.words_of(claim.words, claim.recorded, "", claim.answer)
    ]
    texts.append(sharing.Words("A sentence that goes on for very long, and on. " * 8, 50, 64, 290))
    for words in texts:
        size, lines = sharing.fitted(words.text, words.points, words.height, 1060)
        drawn = ImageFont.truetype(str(font), size)
        *_, right, bottom = canvas.textbbox((70, 0), lines, font=drawn, spacing=size // 3)
        assert bottom <= words.height and right <= sharing.SIZE[0] - 30, words.text

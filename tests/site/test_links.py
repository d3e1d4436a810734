"""The links of the built site in a browser: what they show, and where they lead."""

import pytest
from browser import AXE_SCRIPT, DESKTOP, PHONE, eventually, needs_chromium, resting_top, violations
from playwright.sync_api import expect

pytestmark = needs_chromium

# --- previews -------------------------------------------------------------------------------------

# Of a page, where links lead to, and words in their previews.
PREVIEWS = {
    "book/04_invariance": {
        "bibliography.html#": "arXiv",
        "#thm-inv-gradient": "The gradient before a norm",
        "#fig-inv-slow": "Ten times the weights",
    },
    "book/in_depth/01_internal_covariate_shift": {  # a long equation, on another page
        "../01_internal_covariate_shift.html#equation-eq-ics-steps": "(1.2)"
    },
    "book/in_depth/03_batch_norm_vs_layer_norm": {"#cor-seq-outlier": "One outlier"},
    "book/api": {"#normtutor.norms.batch_norm": "batch_norm("},
}
# In a table the row under the mouse has a colour of its own; a name was once an entry without its
# list.
EXAMINED = ("book/in_depth/03_batch_norm_vs_layer_norm", "book/api")
OF_THE_PREVIEW = """(preview) => {
  const inside = (one) => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
  };
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  const cut = [...preview.querySelectorAll(".katex-display")]
    .filter((one) => getComputedStyle(one).overflowX !== "visible");
  return {
    "shows all of it": preview.scrollHeight <= preview.clientHeight
      && preview.scrollWidth <= preview.clientWidth && !cut.length,
    "stands in the window": inside(preview),
    "gives no name twice": ids.length === new Set(ids).size,
  };
}"""


def link_to(page, start):
    """Find the first link of the text whose address starts so, away from the page's edges."""
    link = page.locator(f"article a.internal[href^='{start}']:not(.headerlink)").first
    link.evaluate("element => element.scrollIntoView({ block: 'center', behavior: 'instant' })")
    resting_top(page, link)
    return link


def rest_on(link):
    """Lay the mouse on a link's first line; the middle of one that runs over two is beside it."""
    link.hover(
        position=link.evaluate(
            "link => { const [line] = link.getClientRects(), box = link.getBoundingClientRect();"
            " return { x: line.x - box.x + line.width / 2, y: line.y - box.y + line.height / 2 }; }"
        )
    )


@pytest.mark.parametrize("name", PREVIEWS)
def test_a_link_shows_what_it_leads_to(visit, name):
    page = visit(name, **DESKTOP)
    preview = page.locator(".preview")
    for start, words in PREVIEWS[name].items():
        link = link_to(page, start)
        rest_on(link)
        expect(preview).to_be_visible()
        expect(preview).to_contain_text(words)
        page.wait_for_function("document.fonts.status === 'loaded'")
        assert [what for what, is_so in preview.evaluate(OF_THE_PREVIEW).items() if not is_so] == []
        box, shown = preview.bounding_box(), link.bounding_box()
        assert box["y"] >= shown["y"] or box["y"] + box["height"] <= shown["y"] + shown["height"]
        if name in EXAMINED:  # the rest of the page is as it was, and examined in test_pages.py
            page.evaluate(AXE_SCRIPT)
            around = "link.closest('table') ?? link.closest('p, li, dt, dd')"
            link.evaluate(f"link => ({around}).classList.add('examined')")
            assert violations(page, '{ include: [[".preview"], [".examined"]] }') == []
        page.mouse.move(3, 3)
        expect(preview).to_be_hidden()


def test_a_preview_opens_for_who_rests_on_a_link_alone(visit):
    page = visit("book/04_invariance", **DESKTOP)
    link, preview = link_to(page, "#thm-inv-gradient"), page.locator(".preview")
    page.clock.install()
    box = link.bounding_box()
    page.mouse.move(box["x"] - 80, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] + 5, steps=4)  # marking text
    page.clock.run_for(1000)
    expect(preview).to_be_hidden()
    page.mouse.up()
    page.mouse.move(3, 3)
    rest_on(link)
    page.clock.run_for(1000)
    expect(preview).to_be_visible()
    box = preview.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.clock.run_for(1000)
    expect(preview).to_be_visible()
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()


def test_a_preview_comes_with_the_keyboard_and_not_with_a_finger(visit):
    page = visit("book/04_invariance", **PHONE)
    link, preview = link_to(page, "#thm-inv-gradient"), page.locator(".preview")
    page.clock.install()
    link.tap()
    page.clock.run_for(1000)
    expect(preview).to_be_hidden()
    page.set_viewport_size({"width": 900, "height": 300})
    link = link_to(page, "#thm-inv-gradient")
    page.keyboard.press("Tab")
    link.focus()
    page.clock.run_for(1000)
    expect(preview).to_contain_text("The gradient before a norm")
    page.keyboard.press("ArrowDown")  # a long one can be scrolled
    eventually(preview, "box => box.scrollTop === 40")


# --- where a link leads ---------------------------------------------------------------------------

# Deep in long pages, whose sections are laid out when they come near.
DEEP = {
    "book/in_depth/04_invariance": ("where-the-norm-stands", "thm-inv-fisher"),
    "book/api": ("normtutor.moments.count", "normtutor.invariance.Subject.linear"),
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_a_link_leads_to_its_place_and_back_leads_to_the_reader_s(open_page, address, name, screen):
    page = open_page(**screen)
    targets = DEEP[name]

    def top_of(target: str) -> float:
        return resting_top(page, page.locator(f"[id='{target}']"))

    # From another page, and then from the place of another target.
    for target, other in zip(targets, (*targets[1:], targets[0]), strict=True):
        page.goto("about:blank")
        page.goto(f"{address}{name}.html#{target}")
        assert 0 <= top_of(target) < 200, target
        page.evaluate("name => { location.hash = name; }", other)
        assert 0 <= top_of(other) < 200, other
    page.evaluate("scrollBy({ top: 300, behavior: 'instant' })")
    left = top_of(other)
    page.goto("about:blank")
    page.go_back()
    assert abs(top_of(other) - left) < 40, other
    page.reload()
    assert abs(top_of(other) - left) < 40, other

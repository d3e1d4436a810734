"""The table of language models: a plain table, which its script makes sortable and filterable."""

import functools

import pytest
from browser import PHONE, needs_chromium
from normtutor_studies import current_models
from playwright.sync_api import expect


@pytest.fixture
def table_page(show):
    """Open a page with the table alone."""
    return functools.partial(show, f"<h1>Models</h1>{current_models.ModelTable()._repr_html_()}")


def names(page):
    return page.locator("tbody tr:visible th").all_inner_texts()


@needs_chromium
def test_words_and_lists_filter_the_rows(table_page):
    page = table_page()
    rows = current_models.ModelTable().models
    page.get_by_label("Filter").fill("2026 several")
    wanted = [m.name for m in rows if (m.year, m.placement) == (2026, "several")]
    assert names(page) == wanted
    expect(page.get_by_role("status")).to_have_text(f"{len(wanted)} of {len(rows)} rows")
    page.get_by_label("Filter").fill("")
    page.get_by_label("Years").select_option("2026")
    for option, basis in {
        "models whose configuration we read": ("config",),
        "published models": ("config", "model"),
        "classes of transformers": ("class",),
    }.items():
        page.get_by_label("Rows").select_option(option)
        assert names(page) == [m.name for m in rows if m.basis in basis and m.year == 2026]
    page.get_by_label("Filter").fill("no such model")
    assert names(page) == []


@needs_chromium
def test_heads_sort_numbers_by_size_and_words_by_letter(table_page):
    page = table_page(**PHONE)
    head = page.get_by_role("columnheader", name="ε, class")
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    models = current_models.ModelTable().models
    smallest = [m.name for m in models if m.eps_class == 1e-12]
    assert len(smallest) > 10
    assert set(names(page)[: len(smallest)]) == set(smallest)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert set(names(page)[-len(smallest) :]) == set(smallest)
    page.get_by_role("columnheader", name="Model").get_by_role("button").click()
    rows = current_models.ModelTable().models
    assert names(page) == sorted((m.name for m in rows), key=str.lower)
    assert page.locator("[aria-sort]").count() == 1

"""The inspector: it draws what the package draws, and says what it does not know."""

import json
import re
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, axe_problems, needs_chromium
from bs4 import BeautifulSoup
from normtutor_studies import current_models
from playwright.sync_api import expect

SCRIPT = Path(__file__).resolve().parents[2] / "book" / "_static" / "interactive" / "inspector.js"


@pytest.fixture
def inspector(probe):
    """Open the inspector at an address, and wait until it has drawn."""

    def start(address: str = "", **options):
        head = (
            '<title>t</title><meta name="viewport" content="width=device-width">'
            '<link rel="stylesheet" href="/colours.css"><link rel="icon" href="data:,">'
        )
        script = '<script type="module" src="/interactive/inspector.js"></script>'
        body = f"<main><h1>h</h1><nt-inspector>instead</nt-inspector></main>{script}"
        page = probe(body, head, address, **options)
        page.locator("nt-inspector .na").first.wait_for()
        return page

    return start


def boxes(drawn: str) -> list[str]:
    """The norms and sublayers of a drawing, with their places and words, in order."""
    soup = BeautifulSoup(drawn, "html.parser")
    return [
        f"{box.get('data-place', '')}: {(box if box.has_attr('data-place') else box.b).text}"
        for box in soup.select(".norm, .layer")
    ]


@needs_chromium
def test_it_draws_every_class_and_model_as_the_package_does(inspector):
    """What the package draws is compared with the modules in tests/libraries/test_census.py."""
    _, *rows = (current_models.HERE / "published.tsv").read_text(encoding="utf-8").splitlines()
    given = [(kind, {}) for kind in current_models.census()["decoders"]]
    given += [(row.split("\t")[2], json.loads(row.split("\t")[3] or "{}")) for row in rows]
    drawn = inspector().evaluate(
        """async (given) => {
          const { draw, resolve } = await import("/interactive/inspector.js");
          const census = await (await fetch("/census.json")).json();
          return given.map(([kind, settings]) => {
            const found = resolve(census, { model_type: kind, ...settings });
            return [draw(found).outerHTML, found.streams, [...found.biases]];
          });
        }""",
        given,
    )
    for (kind, settings), (html, streams, biases) in zip(given, drawn, strict=True):
        expected = current_models.norms_from_census(kind, settings)
        assert boxes(html) == boxes(expected._repr_html_()), kind
        assert (streams, tuple(biases)) == (expected.streams, expected.biases)


PASTED = """{
  "architectures": ["Gemma3ForConditionalGeneration"],
  "model_type": "gemma3",
  "text_config": {"rms_norm_eps": 2e-05, "num_hidden_layers": 4, "colour": "blue"}
}"""


@needs_chromium
def test_a_paste_by_keyboard_is_drawn_and_stays_in_the_page(inspector):
    page = inspector()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("Tab")
    page.keyboard.press("Home")  # the first choice, which moves on to the field
    page.keyboard.insert_text(PASTED)
    first = page.locator("nt-inspector .pair").nth(1).locator("> div").first
    expect(first.get_by_role("heading", level=3)).to_have_text("Pasted")
    expect(first).to_contain_text("Gemma3ForCausalLM of transformers 5.23.0 does not know: colour.")
    expect(first).to_contain_text("rms_norm_eps is 2e−5 here and 1e−6 in the class")
    expect(first).to_contain_text("add 1 before you copy it")
    expect(first.locator(".block > p")).to_have_text("4 layers")
    said = set(first.locator(".na .norm").evaluate_all("all => all.map(e => e.textContent)"))
    assert len(said) == 7 and all("ε 2e−5, 1+γ" in words for words in said)
    expect(page.get_by_role("status")).to_contain_text("The pasted model: RMSNorm")
    assert asked == [] and "colour" not in page.url


WITHOUT_A_DRAWING = {
    '{"model_type": "llama",\n}': "Line 2, column 1: a name in double quotes must follow",
    "{'model_type': 'llama'}": "Line 1, column 2: a name in double quotes must follow",
    '{"a": 1 "b": 2}': "Line 1, column 9: a comma or } must follow",
    '{"a": None}': "Line 1, column 7: a value must follow",
    '{"a": [1, 2': "Line 1, column 12: a comma or ] must follow; the text ends",
    "model_type: llama": "Line 1, column 1: a config.json begins with {",
    "{}": "The configuration has no “model_type”",
    '{"model_type": "constructor"}': "no decoder of the type “constructor”",
    '{"model_type": "idefics", "architectures": ["IdeficsForVisionText2Text"]}': "pictures",
}


@needs_chromium
def test_what_cannot_be_drawn_gets_a_sentence(inspector):
    page = inspector()
    page.get_by_role("combobox", name="Model").select_option(index=0)
    for text, sentence in WITHOUT_A_DRAWING.items():
        page.get_by_label("Its config.json").first.fill(text)
        expect(page.locator(".problem").first).to_contain_text(sentence)
        expect(page.get_by_role("status")).to_contain_text(sentence)
        expect(page.locator("nt-inspector .na")).to_have_count(1)  # the other model's


def resolved(page, config):
    """What it finds of a configuration: names, numbers of layers, and what it cannot say."""
    return page.evaluate(
        """async (config) => {
          const { draw, resolve } = await import("/interactive/inspector.js");
          const found = resolve(await (await fetch("/census.json")).json(), config);
          return { ...found, heads: [...draw(found).querySelectorAll(".block > p")]
            .map((p) => p.textContent) };
        }""",
        config,
    )


@needs_chromium
def test_what_nobody_has_tried_is_named_and_not_drawn(inspector):
    page = inspector()
    found = resolved(page, {"model_type": "llama", "rms_norm_eps": "1e-5", "attention_bias": "yes"})
    assert sorted(found["untried"]) == ['attention_bias: "yes"', 'rms_norm_eps: "1e-5"']
    assert found["eps"] == {"rms_norm_eps": 1e-6}
    types = ["linear_attention", "full_attention", "full_attention"]
    hybrid = {"model_type": "qwen3_next", "num_hidden_layers": 3, "layer_types": types}
    assert resolved(page, hybrid)["heads"] == ["1 layer: 0", "2 layers: 1–2"]
    hybrid["layer_types"] = ["linear_attention", "full_attention", "another"]
    unknown = "some of 3 layers; which, the census does not know for this file"
    assert resolved(page, hybrid)["heads"] == [unknown] * 2
    assert resolved(page, hybrid)["untried"] == ['layer_types: "another"']
    granite = {"model_type": "granitemoehybrid", "num_hidden_layers": 3}
    granite["layer_types"] = ["mamba", "attention", "mamba"]  # as older files name them
    assert resolved(page, granite)["heads"] == ["2 layers: 0, 2", "1 layer: 1"]
    # Which layers share keys and values, and so have fewer norms, a number alone does not say.
    shares = {"model_type": "gemma4_text", "num_kv_shared_layers": 18, "num_hidden_layers": 42}
    assert {head.split(";")[0] for head in resolved(page, shares)["heads"]} == {"some of 42 layers"}
    shares["num_kv_shared_layers"] = 0
    assert resolved(page, shares)["heads"] == ["42 layers"]
    period = {"model_type": "jamba", "attn_layer_period": 4}
    assert resolved(page, period)["untried"] == ["attn_layer_period: 4"]
    assert resolved(page, {"model_type": "jamba", "attn_layer_period": 8})["untried"] == []
    nested = {"model_type": "gemma3n", "text_config": {"altup_num_inputs": 2}}
    assert resolved(page, nested)["streams"] == 2
    omni = {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": {"rms_norm_eps": 3e-6}}}
    assert resolved(page, omni)["eps"] == {"rms_norm_eps": 3e-6}


@needs_chromium
def test_two_models_are_compared_and_can_change_places(inspector):
    page = inspector("#nt-inspector?a=Gemma+3&b=Qwen3+8B")
    first, second = page.locator("nt-inspector .pair").nth(1).locator("> div").all()
    only_here = ["post_attention_layernorm", "post_feedforward_layernorm"]
    names = "all => all.map(e => e.dataset.name).sort()"
    assert first.locator(".na .differs").evaluate_all(names) == only_here
    expect(second.locator(".na .differs")).to_have_count(0)
    # Where both have a norm they differ in what they store of γ, in the drawing and in the table.
    marks = "all => [...new Set(all.map(e => e.textContent))]"
    assert second.locator("mark").evaluate_all(marks) == ["γ"]
    expect(second.locator(".na mark")).to_have_count(5)
    expect(second.locator("td mark")).to_have_count(5)
    page.get_by_role("button", name="swap the two").click()
    expect(first.get_by_role("heading", level=3)).to_have_text("Qwen3 8B")
    assert second.locator(".na .differs").evaluate_all(names) == only_here
    page.wait_for_function("location.hash === '#nt-inspector?a=Qwen3+8B&b=Gemma+3'")
    page.get_by_role("combobox", name="Beside it").select_option("nothing")
    expect(page.locator("nt-inspector .na")).to_have_count(1)
    expect(page.locator("nt-inspector mark")).to_have_count(0)


@needs_chromium
def test_on_a_phone_the_largest_drawings_stay_in_the_page(inspector):
    page = inspector("#nt-inspector?a=Gemma+3n&b=GPT-NeoX-20B", **PHONE)
    page.evaluate("document.body.style.margin = 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in page.locator("nt-inspector .na .norm").all():
        place = box.bounding_box()
        assert place["x"] >= 0 and place["x"] + place["width"] <= 390


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_the_inspector(inspector, theme):
    page = inspector(**DESKTOP)
    page.locator("html").evaluate("(e, theme) => { e.dataset.theme = theme; }", theme)
    if theme == "dark":  # as the theme paints the page
        page.add_style_tag(
            content="""html { background: #121212; color: #ced6dd;
            --pst-color-background: #121212; --pst-color-surface: #29313d;
            --pst-color-text-base: #ced6dd; --pst-color-text-muted: #9ca4af; }"""
        )
    assert [problem for problem in axe_problems(page) if "'nt-" in problem] == []


def test_its_links_lead_to_sections(site):
    links = re.findall(r'"([\w/]+\.html)#([\w-]+)"', SCRIPT.read_text(encoding="utf-8"))
    assert len(links) > 15
    for name, section in links:
        page = BeautifulSoup((site / "book" / name).read_text(encoding="utf-8"), "html.parser")
        assert page.find(id=section), f"{name}#{section}"

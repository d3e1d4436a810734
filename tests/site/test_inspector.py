"""The inspector: it draws what the package draws, and says what it does not know."""

import json

import pytest
from browser import PHONE, needs_chromium
from bs4 import BeautifulSoup
from normtutor_studies import current_models
from playwright.sync_api import expect


@pytest.fixture
def inspector(show):
    """Open the inspector at an address, and wait until it has drawn."""

    def start(address: str = "", **options):
        page = show("<h1>h</h1><nt-inspector>instead</nt-inspector>", address, **options)
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


DEEP = '{"a": ' + "[" * 20_000  # such once threw
WITHOUT_A_DRAWING = {
    '{"model_type": "llama",\n}': "Line 2, column 1: a name in double quotes must follow",
    '{"a": 1 "b": 2}': "Line 1, column 9: a comma or } must follow",
    "{}": "The configuration has no “model_type”",
    '{"model_type": "constructor"}': "no decoder of the type “constructor”",
    '{"model_type": "idefics", "architectures": ["IdeficsForVisionText2Text"]}': "pictures",
    '{"model_type": "t5"}': "no vision models",
    "google/gemma-2-2b": "config.json",
    " https://huggingface.co/google/gemma-2-2b": "config.json",
    DEEP: "in one another",
}


@needs_chromium
def test_what_cannot_be_drawn_or_read_gets_a_sentence(inspector):
    page = inspector()
    page.get_by_role("combobox", name="Model").select_option(index=0)
    for text, sentence in WITHOUT_A_DRAWING.items():
        page.get_by_label("Its config.json").first.fill(text)
        expect(page.locator(".problem").first).to_contain_text(sentence)
        expect(page.get_by_role("status")).to_contain_text(sentence)
        expect(page.locator("nt-inspector .na")).to_have_count(1)  # the other model's


# What a file says, and parts of what the inspector finds. Which layers share keys and values, and
# so have fewer norms, a number alone does not say.
FOUND = [
    (
        {"model_type": "llama", "rms_norm_eps": "1e-5"},
        {"untried": ['rms_norm_eps: "1e-5"'], "eps": {"rms_norm_eps": 1e-6}},
    ),
    (
        {"model_type": "granitemoehybrid", "layer_types": ["mamba", "attention", "mamba"]},
        {"heads": ["2 layers: 0, 2", "1 layer: 1"]},
    ),
    (
        {"model_type": "gemma4_text", "num_hidden_layers": 42, "num_kv_shared_layers": 18},
        {"heads": ["some of 42 layers"] * 2},
    ),
    ({"model_type": "jamba", "attn_layer_period": 4}, {"untried": ["attn_layer_period: 4"]}),
    ({"model_type": "gemma3n", "text_config": {"altup_num_inputs": 2}}, {"streams": 2}),
]


@needs_chromium
def test_what_nobody_has_tried_is_named_and_not_drawn(inspector):
    given = [
        one | {"num_hidden_layers": len(one["layer_types"])} if "layer_types" in one else one
        for one, _ in FOUND
    ]
    answers = inspector().evaluate(
        """async (configs) => {
          const { draw, resolve } = await import("/interactive/inspector.js");
          const census = await (await fetch("/census.json")).json();
          return configs.map((config) => {
            const found = resolve(census, config);
            const heads = [...draw(found).querySelectorAll(".block > p")].map((p) => p.textContent);
            return { ...found, heads: heads.map((head) => head.split(";")[0]) };
          });
        }""",
        given,
    )
    for (config, expected), found in zip(FOUND, answers, strict=True):
        assert {key: found[key] for key in expected} == expected, config


@needs_chromium
def test_two_models_are_compared_and_can_change_places(inspector):
    page = inspector("#nt-inspector?a=Gemma+3&b=Qwen3+8B")
    first, second = page.locator("nt-inspector .pair").nth(1).locator("> div").all()
    only_here = ["post_attention_layernorm", "post_feedforward_layernorm"]
    names = "all => all.map(e => e.dataset.name).sort()"
    assert first.locator(".na .differs").evaluate_all(names) == only_here
    expect(second.locator(".na .differs")).to_have_count(0)
    page.get_by_role("button", name="swap the two").click()
    expect(first.get_by_role("heading", level=3)).to_have_text("Qwen3 8B")
    assert second.locator(".na .differs").evaluate_all(names) == only_here
    page.wait_for_function("location.hash === '#nt-inspector?a=Qwen3+8B&b=Gemma+3'")
    page.get_by_role("combobox", name="Beside it").select_option("nothing")
    expect(page.locator("nt-inspector .na")).to_have_count(1)
    expect(page.locator("nt-inspector mark")).to_have_count(0)


@needs_chromium
def test_on_a_phone_the_largest_drawings_stay_and_names_break_at_underscores(inspector):
    page = inspector("#nt-inspector?a=Gemma+3n&b=GPT-NeoX-20B", **PHONE)
    page.evaluate("document.body.style.margin = 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in page.locator("nt-inspector .na .norm").all():
        place = box.bounding_box()
        assert place["x"] >= 0 and place["x"] + place["width"] <= 390
    name = page.locator("nt-inspector table code", has_text="_").first
    parts = name.evaluate("code => [...code.childNodes].map((part) => part.data ?? part.localName)")
    assert "wbr" in parts
    assert all(part == "wbr" or part.endswith(("_", ".")) for part in parts[:-1]), parts

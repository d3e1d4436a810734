"""The playground: it trains as torch does, shows what its questions promise, and is light."""

import functools
import json
import re
import subprocess

import formula_view
import numpy as np
import pytest
from browser import PHONE, needs_chromium
from from_npm import NODE
from normtutor_studies import interactive
from normtutor_studies.formula_table import ABSENT, SHAPE, all_choices, row_of
from numpy.testing import assert_allclose
from playwright.sync_api import expect
from site_pages import ROOT, SCRIPTS
from test_figure_numbers import by_the_package

from normtutor import norms

SEEDS = 3


def by_node(script: str, *given: object) -> object:
    """Run a script with the page's, and what is given to it, and read the JSON that it prints."""
    head = f"""
      import fs from "node:fs";
      const base = {json.dumps(SCRIPTS.as_uri() + "/")};
      const {{ Network, Batches, build, dataset, unpackDigits }} =
        await import(base + "network.js");
      const presets = await import(base + "presets.js");
      const bytes = new Uint8Array(fs.readFileSync({json.dumps(str(SCRIPTS / "digits.bin"))}));
      const digits = unpackDigits(bytes);
      const given = {json.dumps(given)};
    """
    command = [NODE, "--input-type=module", "--eval", head + script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# --- against torch --------------------------------------------------------------------------------

TRAIN = """
  const copies = (network, key) => network.parameters.map(one => Array.from(one[key]));
  console.log(JSON.stringify(given[0].map(settings => {
    const data = dataset("spiral", settings.seed).train;
    const network = new Network({ ...settings, inputs: 2, classes: 2 });
    const batches = new Batches(data, settings.batch, settings.composition, settings.seed);
    const start = copies(network, "value");
    const course = [];
    for (let i = 0; i < 50; i += 1) {
      const { x, labels } = batches.next();
      const batch = [Array.from(x), Array.from(labels)];
      const { loss } = network.step(batches);
      course.push({ batch, loss, gradients: copies(network, "grad") });
    }
    const buffers = network.hidden.map(({ norm }) => Object.fromEntries(
      Object.entries(norm?.buffers ?? {}).map(([name, values]) => [name, Array.from(values)])));
    const test = network.evaluate({ x: data.x, labels: data.labels, n: data.n });
    return { start, course, buffers, test, data: [Array.from(data.x), Array.from(data.labels)] };
  })));
"""
SIZES = {"depth": 3, "width": 6, "batch": 16, "scale": 1, "composition": "shuffled", "seed": 3}
NAMES = ("norm", "optimizer", "activation", "placement", "warmup")
CASES = [
    *(("none", optimizer, "ReLU", "before", 0) for optimizer in ("SGD", "momentum", "Adam")),
    *(
        (norm, optimizer, "ReLU", "before", 0)
        for norm in ("BatchNorm", "LayerNorm", "RMSNorm", "PowerNorm")
        for optimizer in ("SGD", "Adam")
    ),
    ("BatchNorm", "SGD", "tanh", "after", 0),
    ("LayerNorm", "momentum", "sigmoid", "after", 0),
    ("RMSNorm", "Adam", "tanh", "after", 0),
    ("PowerNorm", "SGD", "identity", "before", 20),
]


def settings_of(case: tuple) -> dict:
    chosen = dict(zip(NAMES, case, strict=True))
    return SIZES | chosen | {"rate": 0.01 if chosen["optimizer"] == "Adam" else 0.02}


@pytest.fixture(scope="module")
def trained():
    """Train the playground's networks, all of them in one process."""
    return dict(zip(CASES, by_node(TRAIN, [settings_of(case) for case in CASES]), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_it_trains_as_torch_does(trained, case):
    import torch
    import torch_network
    from torch import nn

    found, settings = trained[case], settings_of(case)
    network = torch_network.torch_network(settings)
    parameters = list(network.parameters())
    with torch.no_grad():
        for own, given in zip(parameters, found["start"], strict=True):
            own.copy_(torch.tensor(given, dtype=torch.float64).reshape(own.shape))
    optimize = torch_network.OPTIMIZERS[settings["optimizer"]](parameters, settings["rate"])

    def loss_on(x, labels):
        logits = network(torch.tensor(x, dtype=torch.float64).reshape(-1, 2))
        return nn.functional.cross_entropy(logits, torch.tensor(labels)), logits

    for step in found["course"]:
        loss, _ = loss_on(*step["batch"])
        optimize.zero_grad()
        loss.backward()
        assert_allclose(step["loss"], loss.item(), rtol=1e-6, atol=1e-9)
        for own, given in zip(parameters, step["gradients"], strict=True):
            assert_allclose(given, own.grad.ravel().numpy(), rtol=1e-6, atol=1e-9)
        optimize.step()
    kept = [buffers for layer in network if (buffers := dict(layer.named_buffers()))]
    for own, given in zip(kept, filter(None, found["buffers"]), strict=True):
        for name, values in given.items():
            assert_allclose(values, own[name].numpy(), rtol=1e-6, atol=1e-9)
    assert bool(kept) == (settings["norm"] in ("BatchNorm", "PowerNorm"))
    network.eval()
    with torch.no_grad():
        loss, logits = loss_on(*found["data"])
    assert_allclose(found["test"]["loss"], loss.item(), rtol=1e-6)
    right = logits.argmax(1) == torch.tensor(found["data"][1])
    assert found["test"]["accuracy"] == right.double().mean().item()


# --- what its texts promise -----------------------------------------------------------------------

RUN_ON_SEEDS = """
  const [address, seeds, times] = given;
  const state = presets.fromAddress(address);
  const preset = presets.PRESETS[state.preset];
  const accuracies = [[], []];
  const losses = [[], []];  // [over the last fifty batches, in evaluation]
  const spreads = [[], []];  // of the last hidden layer at the end, on a batch
  for (let seed = 0; seed < seeds; seed += 1) {
    presets.pair(state).forEach((settings, side) => {
      const data = dataset(settings.data, seed, digits);
      const { network, batches } = build({ ...settings, seed }, data);
      let late = 0;
      for (let i = 0; i < times * preset.steps; i += 1) {
        const { loss } = network.step(batches.next());
        if (i >= times * preset.steps - 50) late += loss / 50;
      }
      const { accuracy, loss } = network.evaluate(data.test);
      accuracies[side].push(accuracy);
      losses[side].push([late, loss]);
      const batch = batches.next();
      network.gradients(batch.x, batch.labels, batch.size);
      spreads[side].push(network.profile().spread.at(-1));
    });
  }
  console.log(JSON.stringify({ promise: preset.promise, accuracies, losses, spreads }));
"""
PRESETS = by_node("console.log(JSON.stringify(presets.PRESETS));")
# What the chapters say of the settings to which they point, apart from the experiments; and what an
# experiment's answer says of other settings.
SAID_BY_CHAPTERS = {
    "preset=spiral&optimizer=Adam&rate=0.02": {"a": {"above": 0.7}, "b": {"above": 0.93}},
    "preset=one-class&norm=PowerNorm": {"a": {"above": 0.97}, "b": {"below": 0.8}},
    "preset=spiral&data=circle&depth=20": {"a": {"below": 0.7}, "b": {}},
    "preset=one-class&data=squares&depth=4": {"a": {"above": 0.97}, "b": {"below": 0.95}},
}


@functools.cache
def on_seeds(address: str) -> dict:
    return by_node(RUN_ON_SEEDS, address, SEEDS, 1)


@pytest.mark.parametrize("address", [*(f"preset={name}" for name in PRESETS), *SAID_BY_CHAPTERS])
def test_a_setting_shows_what_is_said_of_it(address):
    found = on_seeds(address)
    promise = SAID_BY_CHAPTERS.get(address, found["promise"])
    assert any(promise.values())
    preset = PRESETS[address.split("&")[0].removeprefix("preset=")]
    assert preset["question"].endswith("?") and 0 <= preset["right"] < len(preset["guesses"])
    for a, b in zip(*found["accuracies"], strict=True):
        for value, bounds in ((a, promise["a"]), (b, promise["b"])):
            assert bounds.get("below", 2) > value > bounds.get("above", -1), (a, b)
        assert abs(a - b) <= promise.get("apart", 1)
    plain, normed = found["spreads"]
    if address == "preset=high-rate":  # dead
        assert max(plain) < 1e-3 < 0.5 < min(normed)
    if address == "preset=power":  # JSON has no NaN: out of range, and so is what the page draws
        assert plain == [None] * SEEDS and max(normed) < 2
    if "Adam" in address:  # most of the lead of 0.3 under SGD is gone
        assert np.subtract(*np.mean(found["accuracies"], axis=1)) > -0.1
    if "squares" in address:  # BatchNorm's loss falls in training and much less in evaluation
        late, evaluated = np.array(found["losses"][1]).T
        assert max(late) < 0.3 and min(evaluated / late) > 1.25


def test_what_the_answers_say_about_the_layers():
    found = by_node("""
      const at = (name) => presets.pair(presets.stateOf(name)).map(settings => {
        const { network, batches } = build(settings, dataset(settings.data, 0, digits));
        const batch = batches.next();
        network.gradients(batch.x, batch.labels, batch.size);
        return network.profile();
      });
      console.log(JSON.stringify({ small: at("small-weights"), large: at("large-weights") }));
    """)
    # The signal falls by about half a layer; under BatchNorm it stays.
    plain, normed = (np.array(one["spread"]) for one in found["small"])
    assert plain[10] < plain[0] * 0.6**10
    assert 0.5 < normed.min() and normed.max() < 1
    one, ten = (np.array(part["gradient"]) for part in found["large"])
    assert_allclose(one[1:] / ten[1:], 10, rtol=0.02)
    assert_allclose(*(np.array(part["spread"]) for part in found["large"]), rtol=1e-3)


def test_an_address_holds_the_whole_setting():
    found = by_node("""
      const own = presets.stateOf("spiral");
      Object.assign(own.settings, { depth: 7, rate: 0.5, seed: 12, placement: "after" });
      own.differ = "batch"; own.other = 128;
      const text = presets.toAddress(own);
      const odd = "#preset=nowhere&depth=99&rate=abc&seed=-1&differ=data&other=%22%3E";
      console.log(JSON.stringify({ own, text, again: presets.fromAddress("#" + text),
        odd: presets.fromAddress(odd), first: presets.stateOf(presets.FIRST),
        plain: presets.toAddress(presets.stateOf("power")) }));
    """)
    assert found["again"] == found["own"]
    assert found["text"].startswith("preset=spiral&") and "rate=0.5" in found["text"]
    assert found["odd"] == found["first"]
    assert found["plain"] == "preset=power"


def test_links_into_the_playground_name_settings_that_exist():
    asked = {
        (path.stem, match)
        for path in [*ROOT.glob("book/**/*.ipynb"), *ROOT.glob("book/*.md")]
        for match in re.findall(r"playground\.(?:html|md)#([\w=&.%-]+)", path.read_text("utf-8"))
        if "=" in match
    }
    assert asked
    addresses = sorted({address for _, address in asked})
    again = by_node(
        "const again = (one) => presets.toAddress(presets.fromAddress(one));"
        "console.log(JSON.stringify(given[0].map(again)));",
        addresses,
    )
    assert [sorted(one.split("&")) for one in again] == [sorted(a.split("&")) for a in addresses]


def test_the_digits_of_the_page_are_those_of_scikit_learn():
    assert (SCRIPTS / "digits.bin").read_bytes() == interactive.packed_digits()


# --- in the page ----------------------------------------------------------------------------------


@pytest.fixture
def playground(show):
    """Open the playground at an address."""

    def start(address: str = "", **options):
        page = show("<nt-playground><p>instead</p></nt-playground>", address, **options)
        expect(page.get_by_role("status")).to_contain_text("Step 0. A (")
        return page

    return start


@needs_chromium
def test_an_experiment_in_the_page(playground):
    page = playground("#preset=one-class")
    expect(page.get_by_role("button", name="4 One class per batch")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.get_by_role("button", name="no, both learn").click()
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("status")).to_contain_text("Step 400. ", timeout=300_000)
    said = page.get_by_role("status").text_content()
    a, b = (int(value) for value in re.findall(r"accuracy (\d+)%", said))
    # The worker trains as the test above does.
    expected = on_seeds("preset=one-class")["accuracies"]
    assert [a, b] == [round(100 * side[0]) for side in expected]
    expect(page.get_by_text("You said: no, both learn. Not this time.")).to_be_visible()
    page.locator("details").evaluate("e => { e.open = true; }")
    page.get_by_role("button", name="Run 5 seeds").click()
    expect(page.get_by_role("status")).to_contain_text("Over 5 seeds: A ", timeout=300_000)
    assert page.locator("polyline.again").count() == 8


@needs_chromium
def test_the_playground_by_keyboard_and_its_address(playground):
    page = playground()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#preset=high-rate'")
    page.get_by_role("button", name="Step", exact=True).press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Step 1. A (no norm)")
    page.locator("details").evaluate("e => { e.open = true; }")
    page.get_by_role("combobox", name="learning rate").select_option("0.5")
    page.get_by_role("combobox", name="network B differs in").select_option("optimizer")
    expect(page.get_by_role("status")).to_contain_text("Step 0. A (no norm, optimizer SGD)")
    page.wait_for_function(
        "location.hash === '#preset=high-rate&rate=0.5&differ=optimizer&other=momentum'"
    )
    page.reload()
    expect(page.get_by_role("status")).to_contain_text("B (no norm, optimizer momentum)")
    page.go_back()
    expect(page.get_by_role("button", name="1 Small weights")).to_have_attribute(
        "aria-pressed", "true"
    )


@needs_chromium
def test_the_digits_with_a_finger(playground):
    page = playground("#preset=half-the-work", **PHONE)
    page.get_by_role("button", name="none that one can see").tap()
    page.get_by_role("button", name="Step", exact=True).tap()
    expect(page.get_by_role("status")).to_contain_text("Step 1. A (LayerNorm)")
    expect(page.locator("canvas").last).to_have_attribute("aria-label", re.compile("forty digits"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.evaluate(
        """() => [...document.querySelector("nt-playground").shadowRoot.querySelectorAll("button")]
          .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)
          .filter(height => height < 34)"""
    )
    assert small == []


# --- one formula, three choices -------------------------------------------------------------------

OF_THE_TABLE = ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "RMSNorm", "PowerNorm-V")
COMPUTED = {name: functools.partial(by_the_package, name) for name in OF_THE_TABLE} | {
    "PowerNorm": lambda x: norms.power_norm(x, None, None, x.new_ones(SHAPE[-1]))[0],
    "PowerNorm, evaluation": lambda x: norms.normalize(
        x, (0, 1), centred=False, memory=(None, x.new_ones(SHAPE[-1]))
    )[0],
    "BatchNorm, evaluation": lambda x: norms.batch_norm(
        x, running_mean=x.new_zeros(4), running_var=x.new_ones(4), training=False, feature_axis=-1
    )[0],
}
# The package has no such norm; these are the choices in one call.
UNNAMED = {
    "L: the sequence": lambda x: norms.normalize(x, 1, centred=False)[0],
    "L and a group of H": lambda x: norms.normalize(
        x.reshape(*SHAPE[:2], 2, 2), (1, 3), centred=False
    )[0].reshape(SHAPE),
}
SHOWN = """figure => [...figure.querySelectorAll("[data-field]")]
  .filter(one => !one.hidden && !one.classList.contains("lost")).map(one => one.dataset.text)"""


@needs_chromium
def test_composed_norms_have_the_terms_of_the_table_and_the_entries_of_the_jacobian(show):
    import torch

    page = show(formula_view.view())
    status = page.get_by_role("status")
    expect(status).to_contain_text("LayerNorm: The framed output depends on the 4 marked entries")
    x = torch.from_numpy(np.random.default_rng(3).normal(size=SHAPE))
    named = set()
    for number, choice in enumerate(all_choices()):
        for key in ("source", "axes", "statistic"):
            group = page.get_by_role("group", name=key)
            group.get_by_role("button", name=choice[key], exact=True).click()
        name = choice["name"]
        named.add(name)
        expect(page.locator("p.name")).to_have_text(name or "A norm without a name of its own")
        figure = page.locator("nt-formula")
        row = choice["row"] | (
            row_of(name)._asdict() if name and name != "PowerNorm, evaluation" else {}
        )
        terms = [row[field] for field in ("c", "r", "shift", "stretch")]
        assert figure.evaluate(SHOWN) == [text for text in terms if text != ABSENT], name
        function = COMPUTED[name] if name else UNNAMED[choice["axes"]]
        jacobian = torch.autograd.functional.jacobian(function, x).reshape(x.numel(), x.numel())
        entry = (5 * number + 1) % x.numel()
        page.locator("td[role=gridcell]").nth(entry).click()
        marked = page.locator("td[role=gridcell]").evaluate_all(
            "cells => cells.map(cell => cell.classList.contains('reached'))"
        )
        assert marked == (jacobian[entry] != 0).tolist(), name  # on whom its output depends
        assert marked == (jacobian[:, entry] != 0).tolist(), name  # whose loss its gradient holds
    assert named == {*COMPUTED, ""}


@needs_chromium
def test_a_composed_norm_by_keyboard_by_finger_and_from_an_address(show):
    page = show(formula_view.view(), **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="PowerNorm's memory").tap()
    expect(page.get_by_role("status")).to_contain_text(
        "PowerNorm: The framed output depends on the framed entry alone"
    )
    expect(page.get_by_role("button", name="B and L: the batch")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.get_by_role("button", name="H: the token").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("RMSNorm: ")
    page.get_by_role("gridcell", name="sequence 1, token 2, feature 3").press("ArrowDown")
    expect(
        page.get_by_role("gridcell", name="sequence 1, token 3, feature 3, chosen")
    ).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(
        page.get_by_role("gridcell", name="sequence 2, token 1, feature 3, chosen")
    ).to_be_focused()
    page.wait_for_function("location.hash.includes('entry=14')")
    page.reload()
    expect(page.get_by_role("status")).to_contain_text("RMSNorm: ")
    expect(page.get_by_role("gridcell", name="chosen")).to_have_attribute("aria-selected", "true")


def test_without_scripts_the_formula_and_the_table_of_nine_norms_remain():
    page = formula_view.view()
    assert page.count("<tr>") == 1 + len(norms.TABLE)
    first = re.findall(r'data-field="(\w+)" data-text="([^"]+)">', page)
    assert dict(first) == {
        field: text for field, text in row_of("LayerNorm")._asdict().items() if field != "over"
    }

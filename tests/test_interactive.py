"""The interactive figures: they compute what the package computes, and answer to the keyboard."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from browser import browse, console_errors, needs_chromium
from bs4 import BeautifulSoup
from numpy.testing import assert_allclose

from normtutor import experiments, interactive, norms, plotting

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "book" / "_static" / "interactive"
FIGURES = sorted(path.stem for path in SCRIPTS.glob("*.js") if "customElements" in path.read_text())

PAGE = """<!doctype html><html lang="en"><body>
%s
<script type="module">
%s
const result = document.createElement("pre");
result.id = "result";
try { result.textContent = JSON.stringify(await look()); }
catch (error) { result.textContent = JSON.stringify({failed: String(error.stack)}); }
document.body.append(result);
</script></body></html>"""

# Presses keys and moves sliders as a reader would, and reads what is said.
HANDS = """
const wait = () => new Promise(done => setTimeout(done, 250));
const root = name => document.querySelector(name).shadowRoot;
const status = name => root(name).querySelector("[role=status]").textContent;
const press = (element, key) => element.dispatchEvent(
  new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, composed: true}));
const move = (input, value) => {
  input.value = value;
  input.dispatchEvent(new Event("input", {bubbles: true}));
};
const pick = (select, value) => {
  select.value = value;
  select.dispatchEvent(new Event("change", {bubbles: true}));
};
"""


@pytest.fixture
def look(serve, tmp_path):
    """Run ``async function look()`` in a browser, on a page with ``body``; what it returns."""

    def run(script, body=""):
        address = serve(SCRIPTS, PAGE % (body, script))
        dom, log = browse(address + "probe", tmp_path)
        assert console_errors(log) == []
        found = json.loads(BeautifulSoup(dom, "html.parser").find(id="result").get_text())
        assert not (isinstance(found, dict) and "failed" in found), found
        return found

    return run


def by_the_package(name, x, mask, eps=1e-5):
    """The same block through normtutor, in training and without an affine map."""
    if name == "BatchNorm":
        return norms.batch_norm(x, mask=mask, eps=eps, feature_axis=-1)[0]
    if name == "InstanceNorm":
        return norms.instance_norm(x, mask=mask, eps=eps, feature_axis=-1)[0]
    if name == "GroupNorm":
        return norms.group_norm(x, num_groups=2, mask=mask, eps=eps, feature_axis=-1)[0]
    if name == "PowerNorm-V":
        return norms.power_norm_v(x, mask=mask, eps=eps)[0]
    return {"LayerNorm": norms.layer_norm, "RMSNorm": norms.rms_norm}[name](x, eps=eps)[0]


@needs_chromium
def test_the_block_agrees_with_the_package(look):
    shape = (2, 3, 4)
    rng = np.random.default_rng(0)
    blocks = [rng.normal(1.0, 2.0, shape) for _ in range(3)]
    mask = np.array([[True, True, True], [True, False, False]])
    given = json.dumps([block.ravel().tolist() for block in blocks])
    found = look(
        f"""
        import {{ NORMS, normalize }} from "/norms.js";
        import {{ START }} from "/cells.js";
        const blocks = [START, ...{given}], mask = {json.dumps(mask.ravel().tolist())};
        const look = async () => blocks.map(x => Object.fromEntries(Object.keys(NORMS).map(name =>
          [name, [null, mask].map(m => normalize(name, x, [2, 3, 4], {{mask: m}}))])));
        """
    )
    start = re.search(r"START = \[(.*?)\]", (SCRIPTS / "cells.js").read_text(), re.DOTALL)
    first = np.array([float(v) for v in start[1].replace("\n", " ").split(",") if v.strip()])
    for x, answers in zip([first.reshape(shape), *blocks], found, strict=True):
        assert set(answers) <= set(norms.TABLE)
        for name, (everything, masked) in answers.items():
            for used, cells in ((None, everything), (mask, masked)):
                y = np.array([cell["y"] for cell in cells]).reshape(shape)
                assert_allclose(y, by_the_package(name, x, used), rtol=0, atol=1e-6)
            for position, cell in enumerate(everything):
                shared = norms.sharing_cells(name, shape, np.unravel_index(position, shape))
                assert sorted(cell["members"]) == np.flatnonzero(shared).tolist()


@needs_chromium
def test_the_playground_agrees_with_the_package(look):
    settings = {
        "neutral": {},
        "weights scaled": {"weightScale": 2.5},
        "weights shifted": {"weightShift": 0.75},
        "unit scaled": {"unitScale": 3.0},
        "data scaled": {"dataScale": 0.5},
        "data shifted": {"dataShift": -1.25},
        "case scaled": {"caseScale": 2.0},
    }
    found = look(
        f"""
        import {{ NAMES, NEUTRAL, X, W, changed, movement }} from "/invariance.js";
        const settings = {json.dumps(settings)};
        const look = async () => Object.fromEntries(Object.entries(settings).map(([key, some]) =>
          [key, {{...changed({{...NEUTRAL, ...some}}), outputs: Object.fromEntries(NAMES.map(name =>
            [name, [0, 0.1].map(eps => movement(name, {{...NEUTRAL, ...some}}, eps))]))}}]));
        """
    )
    # What chapter 4 proves: which changes each norm does not see, at ε = 0.
    unseen = {
        "none": set(),
        "WeightNorm": {"weights scaled", "unit scaled"},
        "BatchNorm": {"weights scaled", "unit scaled", "data scaled", "data shifted"},
        "LayerNorm": {"weights scaled", "weights shifted", "data scaled", "case scaled"},
        "RMSNorm": {"weights scaled", "data scaled", "case scaled"},
    }
    for key, result in found.items():
        X, W = np.array(result["X"]), np.array(result["W"])
        for name, (exact, with_eps) in result["outputs"].items():
            expected = X @ W.T
            if name == "WeightNorm":
                expected = X @ norms.weight_norm(W)[0].T
            elif name != "none":
                expected = by_the_package(name, expected[:, None], None, eps=0.1)[:, 0]
            assert_allclose(with_eps["after"], expected.ravel(), rtol=0, atol=1e-6)
            assert (exact["largest"] < 1e-9) == (key == "neutral" or key in unseen[name])


@needs_chromium
def test_the_geometry_agrees_with_the_package(look):
    vectors = np.random.default_rng(1).normal(size=(5, 3))
    found = look(
        f"""
        import {{ onCircle, project }} from "/geometry.js";
        const look = async () => ({{images: {json.dumps(vectors.tolist())}.map(project),
          circle: [0, 1, 2, 3].map(i => onCircle(i, 4)), equal: project([2, 2, 2])}});
        """
    )
    for x, image in zip(vectors, found["images"], strict=True):
        assert_allclose(image["layer"], norms.layer_norm(x, eps=0.0)[0], atol=1e-6)
        assert_allclose(image["rms"], norms.rms_norm(x, eps=0.0)[0], atol=1e-6)
    assert_allclose(np.linalg.norm(found["circle"], axis=1), 3**0.5)
    assert_allclose(np.sum(found["circle"], axis=1), 0, atol=1e-12)
    assert found["equal"]["layer"] is None


@needs_chromium
def test_the_block_by_keyboard(look):
    said = look(
        'import "/cells.js";'
        + HANDS
        + """
        const look = async () => {
          const said = {};
          const here = () => root("nt-cells").querySelector("td.chosen");
          await wait(); said.start = status("nt-cells");
          here().focus();
          press(here(), "ArrowRight"); await wait();
          said.right = status("nt-cells");
          said.focused = root("nt-cells").activeElement.getAttribute("aria-label");
          said.reachable = root("nt-cells").querySelectorAll("td[tabindex='0']").length;
          press(here(), "ArrowDown"); press(here(), "ArrowDown"); await wait();
          said.down = here().getAttribute("aria-label");
          const [norm, show] = root("nt-cells").querySelectorAll("select");
          pick(norm, "BatchNorm"); await wait(); said.batch = status("nt-cells");
          const [padding, masked] = root("nt-cells").querySelectorAll("input[type=checkbox]");
          said.disabled = masked.disabled;
          padding.click(); masked.click(); await wait(); said.masked = status("nt-cells");
          press(here(), "ArrowDown"); await wait(); said.padding = status("nt-cells");
          said.editable = !root("nt-cells").querySelector("input[type=number]").disabled;
          pick(show, "normalized"); await wait();
          said.zero = here().textContent;
          return said;
        };
        """,
        "<nt-cells><p>instead</p></nt-cells>",
    )
    assert said["start"].startswith("LayerNorm pools 4 cells: one token.")
    assert said["right"] != said["start"]
    assert said["focused"].startswith("b 1, l 2, h 4: 0.50")
    assert said["reachable"] == 1
    assert said["down"].startswith("b 2, l 1, h 4")  # from one sequence into the next
    assert said["batch"].startswith("BatchNorm pools 6 cells")
    assert said["disabled"]
    assert said["masked"].startswith("BatchNorm pools 4 cells")
    assert "padding" in said["padding"]
    assert not said["editable"]
    assert said["zero"] == "0.00"


@needs_chromium
def test_the_playground_and_the_geometry_by_keyboard(look):
    said = look(
        'import "/invariance.js"; import "/geometry.js";'
        + HANDS
        + """
        const look = async () => {
          const said = {};
          const sliders = name => [...root(name).querySelectorAll("input[type=range]")];
          await wait(); said.start = status("nt-invariance");
          move(sliders("nt-invariance")[0], 1); await wait();
          said.scaled = status("nt-invariance");
          said.value = sliders("nt-invariance")[0].getAttribute("aria-valuetext");
          move(sliders("nt-invariance")[6], -1); await wait();
          said.eps = status("nt-invariance");
          root("nt-invariance").querySelector("button").click(); await wait();
          said.reset = status("nt-invariance");
          said.labels = ["nt-invariance", "nt-geometry"].flatMap(name =>
            sliders(name).map(input => input.labels[0].textContent));
          move(sliders("nt-geometry")[0], 1); move(sliders("nt-geometry")[1], 1);
          move(sliders("nt-geometry")[2], 1); await wait();
          said.equal = status("nt-geometry");
          move(sliders("nt-geometry")[4], 0.5); move(sliders("nt-geometry")[2], -1); await wait();
          said.affine = status("nt-geometry");
          document.documentElement.dataset.theme = "dark"; await wait();
          said.dark = document.querySelector("nt-geometry").hasAttribute("data-dark");
          return said;
        };
        """,
        "<nt-invariance></nt-invariance><nt-geometry></nt-geometry>",
    )
    assert said["start"].startswith("Nothing is changed yet")
    assert said["reset"] == said["start"]
    assert said["scaled"] == (
        "Outputs stay: WeightNorm, BatchNorm, LayerNorm, RMSNorm. Outputs move: no norm."
    )
    assert said["value"] == "× 2.00"
    assert "Outputs stay: WeightNorm." in said["eps"]
    assert "LayerNorm (through ε alone)" in said["eps"]
    assert all(label.strip() for label in said["labels"])
    assert said["equal"].startswith("All entries of x = (1.00, 1.00, 1.00) are equal")
    assert "on an ellipse" in said["affine"]
    assert said["dark"]


def saved_profiles():
    saved = experiments.load("depth_profiles")
    return interactive.profiles_by_layer(
        {
            wiring: {
                when: {
                    key: saved.values(key, wiring=wiring, when=when)
                    for key in ("signal", "gradient")
                }
                for when in ("untrained", "trained")
            }
            for wiring in saved.config["wirings"]
        }
    )


def test_profiles_are_geometric_means_with_intervals():
    values = np.exp(np.random.default_rng(0).normal(size=(5, 4)))
    one = {"post": {"trained": {"signal": values}}}
    found = interactive.profiles_by_layer(one)["wirings"]["post"]["trained"]["signal"]
    mean, half = plotting.t_interval(np.log(values))
    assert_allclose(np.log(found["mean"]), mean, atol=1e-3)
    assert_allclose(np.log(found["high"]), mean + half, atol=1e-3)
    assert_allclose(np.log(found["low"]), mean - half, atol=1e-3)
    with pytest.raises(ValueError, match="same number of layers"):
        interactive.profiles_by_layer(one | {"pre": {"trained": {"signal": values[:, :2]}}})


def test_the_data_cannot_close_their_own_element():
    figure = interactive.InteractiveFigure("wiring", {"a": "</script><b>"}, "a < b")._repr_html_()
    page = BeautifulSoup(figure, "html.parser")
    assert json.loads(page.find("script").string) == {"a": "</script><b>"}
    assert page.find("p").get_text() == "a < b"
    assert page.find("b") is None


@needs_chromium
def test_the_wirings_by_keyboard(look):
    data = saved_profiles()
    said = look(
        'import "/wiring.js";'
        + HANDS
        + """
        const look = async () => {
          const said = {};
          await wait(); said.start = status("nt-wiring");
          const [wiring, when] = root("nt-wiring").querySelectorAll("select");
          said.choices = [...wiring.options].map(option => option.value);
          for (const name of said.choices) {
            pick(wiring, name); pick(when, "after training"); await wait();
            said[name] = status("nt-wiring");
          }
          said.lines = root("nt-wiring").querySelectorAll("path").length;
          return said;
        };
        """,
        interactive.InteractiveFigure("wiring", data, "words")._repr_html_(),
    )
    assert said["start"].startswith("Post-LN before training. Stream: ")
    assert said["lines"] == 8  # four wirings in two panels
    names = dict(zip(("post", "pre", "peri", "deepnorm"), said["choices"], strict=True))
    for wiring, name in names.items():
        ends = [
            data["wirings"][wiring]["trained"][key]["mean"][end]
            for key in ("signal", "gradient")
            for end in (0, -1)
        ]
        numbers = re.findall(r"\d+\.\d+(?:e−\d+)?", said[name])
        assert [float(n.replace("−", "-")) for n in numbers] == pytest.approx(ends, 0.05, 5e-4)


def test_scripts_are_light():
    shared = sum((SCRIPTS / name).stat().st_size for name in ("figure.js", "norms.js"))
    for name in FIGURES:
        assert shared + (SCRIPTS / f"{name}.js").stat().st_size < 30_000, name


def test_every_figure_stands_in_a_chapter_with_words_instead():
    for name in FIGURES:
        found = [
            words
            for path in (ROOT / "book").glob("*.ipynb")
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            for words in re.findall(
                rf'<nt-{name}><p>(.*?)</p></nt-{name}>|InteractiveFigure\(\s*"{name}",.*?"(.*?)"',
                "".join(cell["source"]),
                re.DOTALL,
            )
        ]
        assert found, name
        assert all(len(max(words, key=len)) > 40 for words in found), name

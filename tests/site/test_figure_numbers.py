"""The interactive figures compute what the package computes.

What the wirings show comes from saved runs: test_interactive.py.
"""

import numpy as np
import pytest
from browser import needs_chromium
from numpy.testing import assert_allclose
from site_pages import STATIC

from normtutor import norms

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def computed(browser, serve):
    """Run a script on a page that can import those of the figures."""
    from browser import new_page

    page = new_page(browser)
    page.goto(serve(STATIC, "<!doctype html><title>probe</title>") + "probe")
    yield page.evaluate
    page.context.close()


def by_the_package(name, x, mask=None, eps=1e-5):
    """The same block through normtutor, in training and without an affine map."""
    options = {} if name in ("LayerNorm", "RMSNorm") else {"mask": mask, "feature_axis": -1}
    options |= {"num_groups": 2} if name == "GroupNorm" else {}
    return getattr(norms, norms.TABLE[name].function)(x, eps=eps, **options)[0]


def test_the_block_agrees_with_the_package(computed):
    shape = (2, 3, 4)
    block = np.random.default_rng(0).normal(1.0, 2.0, shape)
    mask = np.array([[True, True, True], [True, False, False]])
    found = computed(
        """async ([block, mask]) => {
          const { NORMS, normalize } = await import("/interactive/norms.js");
          const { START } = await import("/interactive/cells.js");
          return [START, block].map(x => [x, Object.fromEntries(Object.keys(NORMS).map(name =>
            [name, [null, mask].map(m => normalize(name, x, [2, 3, 4], {mask: m}))]))]);
        }""",
        [block.ravel().tolist(), mask.ravel().tolist()],
    )
    for values, answers in found:
        x = np.reshape(values, shape)
        assert set(answers) <= set(norms.TABLE)
        for name, (everything, masked) in answers.items():
            for used, cells in ((None, everything), (mask, masked)):
                y = np.array([cell["y"] for cell in cells]).reshape(shape)
                assert_allclose(y, by_the_package(name, x, used), rtol=0, atol=1e-6)
            for position, cell in enumerate(everything):
                shared = norms.sharing_cells(name, shape, np.unravel_index(position, shape))
                assert sorted(cell["members"]) == np.flatnonzero(shared).tolist()


def test_the_changes_agree_with_the_package(computed):
    settings = {
        "neutral": {},
        "weights scaled": {"weightScale": 2.5},
        "weights shifted": {"weightShift": 0.75},
        "unit scaled": {"unitScale": 3.0},
        "data scaled": {"dataScale": 0.5},
        "data shifted": {"dataShift": -1.25},
        "token scaled": {"tokenScale": 2.0},
    }
    found = computed(
        """async settings => {
          const { NAMES, NEUTRAL, changed, movement } = await import("/interactive/invariance.js");
          return Object.fromEntries(Object.entries(settings).map(([key, some]) => {
            const all = {...NEUTRAL, ...some};
            const moved = name => [name, [0, 0.1].map(eps => movement(name, all, eps))];
            return [key, {...changed(all), outputs: Object.fromEntries(NAMES.map(moved))}];
          }));
        }""",
        settings,
    )
    # What chapter 4 proves: which changes each norm does not see, at ε = 0.
    unseen = {
        "none": set(),
        "WeightNorm": {"weights scaled", "unit scaled"},
        "BatchNorm": {"weights scaled", "unit scaled", "data scaled", "data shifted"},
        "LayerNorm": {"weights scaled", "weights shifted", "data scaled", "token scaled"},
        "RMSNorm": {"weights scaled", "data scaled", "token scaled"},
    }
    for key, result in found.items():
        X, W = np.array(result["X"]), np.array(result["W"])
        for name, (exact, with_eps) in result["outputs"].items():
            expected = X @ W.T
            if name == "WeightNorm":
                expected = X @ norms.weight_norm(W)[0].T
            elif name != "none":
                expected = by_the_package(name, expected[:, None], eps=0.1)[:, 0]
            assert_allclose(with_eps["after"], expected.ravel(), rtol=0, atol=1e-6)
            assert (exact["largest"] < 1e-9) == (key == "neutral" or key in unseen[name])


def test_the_geometry_agrees_with_the_package(computed):
    vectors = np.random.default_rng(1).normal(size=(5, 3))
    found = computed(
        """async vectors => {
          const { onCircle, project } = await import("/interactive/geometry.js");
          return {images: vectors.map(project), equal: project([2, 2, 2]),
            circle: [0, 1, 2, 3].map(i => onCircle(i, 4))};
        }""",
        vectors.tolist(),
    )
    for x, image in zip(vectors, found["images"], strict=True):
        assert_allclose(image["layer"], norms.layer_norm(x, eps=0.0)[0], atol=1e-6)
        assert_allclose(image["rms"], norms.rms_norm(x, eps=0.0)[0], atol=1e-6)
    assert_allclose(np.linalg.norm(found["circle"], axis=1), 3**0.5)
    assert_allclose(np.sum(found["circle"], axis=1), 0, atol=1e-12)
    assert found["equal"]["layer"] is None


def test_the_signal_through_depth_agrees_with_the_package(computed):
    found = computed(
        """async scales => {
          const { signal, sizes, INPUT, WEIGHTS, LAYERS, WIDTH, CASES } =
            await import("/interactive/depth.js");
          const list = values => Array.from(values);
          return { x: list(INPUT), W: WEIGHTS.map(list), sizes: [LAYERS, WIDTH, CASES],
            shares: sizes([1, -1, 1e-3, 0], 64),
            last: Object.fromEntries(["none", "BatchNorm", "LayerNorm", "RMSNorm"].map(name =>
              [name, scales.map(scale => list(signal(name, scale)[LAYERS - 1]))])) };
        }""",
        [0.5, 2.0],
    )
    depth, width, cases = found["sizes"]
    assert sum(found["shares"]) == pytest.approx(1)
    for name, both in found["last"].items():
        for scale, last in zip((0.5, 2.0), both, strict=True):
            h = np.reshape(found["x"], (cases, width))
            for W in found["W"][:depth]:
                y = h @ np.reshape(W, (width, width)).T * scale * np.sqrt(2 / width)
                if name != "none":
                    y = by_the_package(name, y[:, None])[:, 0]
                h = np.maximum(y, 0)
            assert_allclose(np.reshape(last, y.shape), y, rtol=1e-6, atol=1e-9)
            # What the words instead of the picture say.
            if name == "none":
                assert 0.1 < np.std(last) * 2.0 ** (-20 if scale == 2 else 20) < 10
            else:
                assert 0.9 < np.std(last) < 1.1


def test_padding_agrees_with_the_package(computed):
    found = computed(
        """async () => {
          const { TOKENS, padded } = await import("/interactive/padding.js");
          return { tokens: TOKENS, all: [0, 1, 6, 18].map(count =>
            ({ count, counted: padded(count, false), masked: padded(count, true) })) };
        }"""
    )
    tokens = np.array(found["tokens"])
    for one in found["all"]:
        x = np.concatenate([tokens, np.zeros(one["count"])])
        for key, mask in (("counted", None), ("masked", np.arange(len(x)) < len(tokens))):
            y = by_the_package("BatchNorm", x[None, :, None], None if mask is None else mask[None])
            assert_allclose(one[key]["outputs"], y[0, : len(tokens), 0], rtol=0, atol=1e-9)
        assert one["counted"]["mean"] == pytest.approx(x.mean())
        assert one["counted"]["deviation"] == pytest.approx(x.std())
        assert one["masked"]["outputs"] == found["all"][0]["counted"]["outputs"]


def test_the_triangle_agrees_with_the_package(computed):
    weights = [[1.0, 0.3], [-0.4, 2.0], [10.0, 3.0]]
    found = computed(
        """async weights => {
          const { descend, gradient, RATE, TARGET } = await import("/interactive/triangle.js");
          return { rate: RATE, target: TARGET,
            all: weights.map(w => ({ gradient: gradient(w), ...descend(w, RATE) })) };
        }""",
        weights,
    )
    goal = np.array([np.cos(found["target"]), np.sin(found["target"])])
    for w, one in zip(np.array(weights), found["all"], strict=True):
        # The loss 1 − u·goal of the direction u = w / ‖w‖, through the package's WeightNorm.
        unit, cache = norms.weight_norm(w[None])
        expected = norms.weight_norm_backward(-goal[None], cache)[0][0]
        assert_allclose(unit[0], w / np.linalg.norm(w))
        assert_allclose(one["gradient"], expected, atol=1e-12)
        assert_allclose(np.dot(one["step"], w), 0, atol=1e-12)  # perpendicular
        assert one["length"] == pytest.approx(np.hypot(np.linalg.norm(w), np.hypot(*one["step"])))
    short, long = found["all"][0], found["all"][2]
    assert_allclose(np.array(long["step"]) * 10, short["step"])
    assert 95 < short["angle"] / long["angle"] < 101


@pytest.mark.parametrize("period", [1, 4, 12])
def test_the_memory_agrees_with_the_package(computed, period):
    found = computed(
        """async period => {
          const { factor, remember } = await import("/interactive/memory.js");
          return { factor: factor(period, 0.9), all: remember(period, 0.9, 100) };
        }""",
        period,
    )
    memory, nu = np.ones(1), np.zeros(1)
    for batch, one in enumerate(found["all"]):
        x = np.array([[1.0], [-1.0]]) * (batch % period == 0)
        _, cache, memory = norms.power_norm(x, running_mean_square=memory, alpha=0.9, eps=1e-12)
        _, nu = norms.power_norm_backward(x, cache, nu, alpha=0.9)
        assert_allclose([one["square"], one["nu"]], [memory[0], nu[0]], rtol=1e-6)
    active = [one["nu"] for one in found["all"] if one["active"]][-3:]
    if period == 12:  # ψ has settled into its cycle, and ν is large
        before, after = np.diff(active)
        assert after / before == pytest.approx(found["factor"], rel=0.02)


def test_who_sees_the_future_agrees_with_the_package(computed):
    found = computed(
        """async () => {
          const { START, edited, moved } = await import("/interactive/future.js");
          const names = ["BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm", "RMSNorm"];
          return { start: START, edited: edited(2),
            moved: Object.fromEntries(names.map(name => [name, moved(name, 2)])) };
        }"""
    )
    x = np.reshape(found["start"], (2, 6, 4))
    z = np.reshape(found["edited"], (2, 6, 4))
    assert np.flatnonzero((x != z).any(axis=2)).tolist() == [5]
    for name, one in found["moved"].items():
        before, after = by_the_package(name, x), by_the_package(name, z)
        assert_allclose(np.reshape(one["after"], x.shape), after, rtol=0, atol=1e-9)
        moves = np.abs(after - before).max(axis=2)[0]
        assert_allclose(one["moves"], moves, atol=1e-9)
        assert (moves[0] > 0.05) == (name not in ("LayerNorm", "RMSNorm"))


def test_the_two_modes_agree_with_the_package(computed):
    found = computed(
        """async () => {
          const { stream } = await import("/interactive/modes.js");
          const schedule = Array.from({ length: 30 }, (_, i) =>
            ({ kind: i < 20 ? "short or long" : "mixed",
               mode: i < 25 ? "training" : "evaluation" }));
          return stream(schedule).map(one => ({ ...one, values: Array.from(one.values),
            evaluated: Array.from(one.evaluated) }));
        }"""
    )
    mean, variance = np.zeros(1), np.ones(1)
    for one in found:
        x = np.array(one["values"])[:, None]
        at_rest = norms.batch_norm(x, running_mean=mean, running_var=variance, training=False)[0]
        assert_allclose(one["evaluated"], at_rest[:, 0], atol=1e-9)
        if one["mode"] == "training":
            _, _, (mean, variance) = norms.batch_norm(x, running_mean=mean, running_var=variance)
        assert one["running"] == pytest.approx(mean[0])
        assert one["variance"] == pytest.approx(variance[0])
        assert one["mean"] == pytest.approx(x.mean())
    apart = [abs(one["mean"] - one["running"]) for one in found]
    assert np.mean(apart[5:20]) > 3 * np.mean(apart[20:])


def test_what_layer_norm_forgets_agrees_with_the_package(computed):
    found = computed(
        """async () => {
          const { TOKEN, through } = await import("/interactive/forgets.js");
          const tokens = [TOKEN, TOKEN.map(v => 3 * v + 2), TOKEN.map(v => -v)];
          return { tokens, outputs: Object.fromEntries(["LayerNorm", "RMSNorm"].map(name =>
            [name, tokens.map(x => through(name, x))])) };
        }"""
    )
    x = np.array(found["tokens"])
    layer, rms = (np.array(found["outputs"][name]) for name in ("LayerNorm", "RMSNorm"))
    assert_allclose(layer, norms.layer_norm(x, eps=1e-12)[0], atol=1e-9)
    assert_allclose(rms, norms.rms_norm(x, eps=1e-12)[0], atol=1e-9)
    assert_allclose(layer[1], layer[0], atol=1e-9)
    assert_allclose(layer[2], -layer[0], atol=1e-9)
    assert np.abs(rms[1] - rms[0]).max() > 0.3

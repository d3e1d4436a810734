"""The claims ledger: verdicts, the evidence they follow from, and its page."""

import dataclasses
import functools
import itertools
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from docutils.nodes import make_id
from normtutor_studies import Effect, Study, claims, experiments
from normtutor_studies.claims import covariate_shift, ledger, page
from normtutor_studies.claims.ledger import (
    Finding,
    Interval,
    Place,
    Range,
    Unsettled,
    above,
    below,
    near,
    over_seeds,
    verdict_of,
)
from normtutor_studies.experiments import image_norms

from normtutor import norms

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
NAMES = [claim.name for claim in claims.CLAIMS]

sys.path.insert(0, str(BOOK / "_ext"))
import claims_page  # noqa: E402


@functools.cache
def judged(name: str) -> page.Judged:
    """A claim's evidence, gathered once for all tests."""
    return page.judge(claims.named(name))


def findings(name: str) -> list[Finding]:
    """The judged findings of a claim."""
    return [f for f in judged(name).evidence if isinstance(f, Finding) and f.claimed is not None]


# --- every claim ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_on_record_follows_from_the_evidence(name):
    _, evidence, verdict = judged(name)
    assert verdict == claims.named(name).recorded, (
        f"the evidence says {verdict!r} ({page.deciding(evidence)}): is it right? "
        f"Then record it: recorded={verdict!r}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_says_what_a_reader_needs(name):
    claim, evidence, verdict = judged(name)
    assert claim.words.endswith(".") and len(claim.words) <= 130, "one sentence, in 130 characters"
    assert not re.search(r"[`{}$*]", claim.words), "the claim's own words are plain text"
    assert claim.met, "say where readers meet it"
    assert verdict != "open" or not claim.scope, "what is undecided reaches nowhere"
    answers = {finding.agrees for finding in findings(name)}
    assert (verdict == "open") == (
        any(isinstance(item, Unsettled) for item in evidence)
        or (None in answers and len(answers) < 3)
    )
    sides = [[f for f in findings(name) if f.agrees is answer] for answer in (True, False)]
    if verdict == "partly" and any(all(map(of_our_runs, side)) for side in sides):
        assert claim.scope, "one side rests on our small models alone: say so beside the verdict"
    for item in evidence:
        if isinstance(item, Unsettled):
            assert len(item.would_settle) >= 40, "say what experiment would settle it"
        elif item.claimed is not None:
            assert item.why.rstrip().endswith("."), item.what


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=NAMES)
def test_a_verdict_says_what_to_believe(claim):
    """58 of 103 verdicts were "half", and a paragraph of numbers said of what."""
    answer, numbers = claim.answer, r"±|\d[\d.,]*%?"
    assert answer.endswith(".") and not re.search(r"[.!?] ", answer), "one sentence"
    assert 20 <= len(answer) <= 100 and len(answer.split()) <= 18, "short enough to quote"
    assert not re.search(r"[`{}$*]", answer), "plain text, as in a link's preview"
    assert len(re.findall(numbers, answer)) <= 1 and "±" not in answer
    assert answer not in claim.condition
    assert len(claim.condition) <= 420, "why, in a few more words"
    assert len(re.findall(numbers, re.sub(r"\{.*?\}`.*?`", "", claim.condition))) <= 4


def test_most_verdicts_are_plain():
    counts = claims.tally(claims.CLAIMS)
    assert list(counts) == list(claims.LABELS)
    assert counts["partly"] < len(claims.CLAIMS) / 2


@pytest.mark.parametrize("name", [name for name in NAMES if claims.named(name).recorded == "open"])
def test_an_open_claim_says_what_would_decide_it(name):
    said = re.search(r"\*\*What would decide it:\*\* (.*)", page.entry(judged(name)))
    assert said and len(said[1]) >= 40


def of_our_runs(finding: Finding) -> bool:
    return isinstance(finding.value, Interval) and not finding.reported


def test_gain_and_bias_widen_the_gap_between_the_losses():
    measured = [finding.value for finding in judged("gain-and-bias-overfit").evidence[:6]]
    small, training, test, large, less, more = measured
    assert small.mean - small.half_width > 0 < large.mean - large.half_width
    # The intervals do not reach zero.
    assert all(v.mean + v.half_width < 0 for v in (training, test, less))
    assert training.mean < test.mean and more.mean > more.half_width


def other_side(finding: Finding) -> Finding:
    """The same finding with a number on the other side of an end of its range."""
    low, high = finding.claimed
    outside = low - 1 if math.isfinite(low) else high + 1
    inside = low if math.isfinite(low) else high
    return dataclasses.replace(finding, value=outside if finding.agrees else inside)


@pytest.mark.parametrize("name", [name for name in NAMES if claims.named(name).recorded != "open"])
def test_other_numbers_would_give_another_verdict(name):
    before = findings(name)
    assert before
    turned = [other_side(finding) for finding in before]
    for old, new in zip(before, turned, strict=True):
        assert new.agrees is not old.agrees
    opposite = {"true": "false", "false": "true", "partly": "partly"}
    assert verdict_of(turned) == opposite[judged(name).verdict]
    # One number that is turned alone matters, too.
    agreeing = [
        new if old.agrees is not True else old for old, new in zip(before, turned, strict=True)
    ]
    assert verdict_of(agreeing) == "true"


def test_there_are_enough_claims_and_all_are_in_the_list():
    assert len(claims.CLAIMS) >= 54
    assert len(set(NAMES)) == len(NAMES)
    assert len({claim.words for claim in claims.CLAIMS}) == len(NAMES)
    in_modules = [
        entry
        for path in (ROOT / "studies" / "normtutor_studies" / "claims").glob("*.py")
        for entry in vars(sys.modules.get(f"normtutor_studies.claims.{path.stem}", page)).values()
        if type(entry) is ledger.Claim
    ]
    missing = {claim.name for claim in in_modules} ^ set(NAMES)
    assert not missing, (
        f"add the module of {missing} to _MODULES in studies/normtutor_studies/claims/__init__.py"
    )
    decorated = sum(
        path.read_text(encoding="utf-8").count("\n@claim(")
        for path in (ROOT / "studies" / "normtutor_studies" / "claims").glob("*.py")
    )
    assert decorated == len(NAMES), (
        "claims in a module that normtutor_studies.claims does not have among its _MODULES, or two "
        "under one name"
    )


# --- evidence that would be different -------------------------------------------------------------


def evidence_of(name: str) -> str:
    return verdict_of(claims.named(name).evidence())


def test_a_layer_norm_of_length_one_would_make_the_sphere_true(monkeypatch):
    original = norms.layer_norm

    def of_length_one(x, weight=None, bias=None, **options):
        y = original(x, **options)[0]
        return y / np.linalg.norm(y, axis=-1, keepdims=True), None

    monkeypatch.setattr(norms, "layer_norm", of_length_one)
    assert evidence_of("unit-sphere") == "true"


def test_a_batch_norm_that_clips_would_lose_differences(monkeypatch):
    original = norms.batch_norm
    assert not findings("differences-between-tokens")[0].agrees
    monkeypatch.setattr(
        norms, "batch_norm", lambda x, *a, **k: (np.sign(original(x, *a, **k)[0]), *[None] * 2)
    )
    recovered = claims.named("differences-between-tokens").evidence()[0]
    assert recovered.agrees


def test_a_batch_norm_that_keeps_the_mean_would_keep_topics_apart(monkeypatch):
    monkeypatch.setattr(norms, "batch_norm", lambda x, *a, **k: (x / x.std(axis=0), None, None))
    assert evidence_of("differences-between-tokens") == "false"


def test_a_norm_that_sees_its_neighbours_would_break_the_shift(monkeypatch):
    def by_place(self, x):
        return x * torch.arange(x.shape[-1])

    monkeypatch.setattr(image_norms.PixelLayerNorm, "forward", by_place)
    assert claims.named("layer-norm-at-each-pixel").evidence()[0].agrees


def test_a_weight_norm_that_measured_the_data_would_adjust_it(monkeypatch):
    def normalized(self, x):
        return norms.layer_norm(x)[0]

    monkeypatch.setattr(torch.nn.Linear, "forward", normalized)
    assert claims.named("weight-norm-and-data").evidence()[0].agrees


def test_an_rms_norm_that_centres_would_normalize_the_variance(monkeypatch):
    monkeypatch.setattr(norms, "rms_norm", lambda x, **k: norms.layer_norm(x))
    assert evidence_of("variance-only") == "true"


def test_a_batch_norm_without_statistics_would_not_see_padding(monkeypatch):
    original = norms.batch_norm

    def real_tokens_only(x, *arguments, mask=None, **options):
        return original(x, *arguments, mask=(x != 0).any(axis=-1), **options)

    monkeypatch.setattr(norms, "batch_norm", real_tokens_only)
    assert evidence_of("padding-shifts") == "false"
    assert evidence_of("variable-lengths") == "false"


def changed_runs(monkeypatch, change) -> None:
    """Let every saved run pass through ``change``, which gets each record."""
    original = experiments.load

    def load(name, *arguments):
        saved = original(name, *arguments)
        runs = json.loads(json.dumps(saved.runs))
        for run in runs:
            for record in run["records"]:
                change(name, record)
        return dataclasses.replace(saved, runs=tuple(runs))

    monkeypatch.setattr(experiments, "load", load)


def test_a_worse_rms_norm_would_not_be_as_good(monkeypatch):
    def worse(name, record):
        if name == "gru_statistics" and record.get("norm") == "rms":
            record["loss"] += 0.1

    changed_runs(monkeypatch, worse)
    original = Study.effect
    monkeypatch.setattr(
        Study, "effect", lambda *asked: Effect(*(part + 0.1 for part in original(*asked)))
    )
    assert evidence_of("as-good") == "false"
    assert evidence_of("centring-matters") == "true"


def test_scattered_seeds_would_leave_it_open(monkeypatch):
    signs = itertools.cycle((-1, 1))

    def scatter(name, record):
        if name == "company" and record["norm"] == "batch":
            record["loss_in_evaluation"] += 3 * next(signs)

    changed_runs(monkeypatch, scatter)
    assert evidence_of("equal-lengths") == "open"


def test_without_fixup_nothing_would_train(monkeypatch):
    def undone(name, record):
        if name == "remedies" and record["wiring"] == "fixup":
            record["loss"] += 2

    changed_runs(monkeypatch, undone)
    assert evidence_of("without-normalization") == "true"


def test_only_the_warm_up_of_power_norm_has_a_gap():
    """A claim that is partly true would stay so with other findings false, or measured early."""
    found = [f for f in judged("no-gap").evidence if isinstance(f, Finding) and f.claimed]
    assert [verdict_of([f]) for f in found] == ["false", *["true"] * (len(found) - 1)]
    assert len(found) >= 2
    assert found[0].value > 0.6 and found[1].value > 0.06  # by then the average has settled


def test_a_fast_fused_rms_norm_would_be_faster(monkeypatch):
    def fused(name, record):
        if name == "norm_speed" and record.get("way") == "torch":
            record["to_layer"] = [0.5, 0.5, 0.5]

    changed_runs(monkeypatch, fused)
    assert evidence_of("always-faster") == "true"


# --- how a verdict follows ------------------------------------------------------------------------


def finding(value, claimed=None, why="Because."):
    return Finding("a number", value, claimed, why if claimed else "")


def test_a_verdict_follows_from_the_judged_findings():
    yes, no = finding(1, above(0)), finding(-1, above(0))
    told, undecided = finding(5), finding(Interval(0.1, 0.2), above(0))
    assert verdict_of([yes, told]) == "true"
    assert verdict_of([no, told]) == "false"
    assert verdict_of([yes, no]) == "partly"
    assert verdict_of([yes, undecided]) == verdict_of([no, undecided]) == "open"
    assert verdict_of([yes, no, undecided]) == "partly"
    assert verdict_of([yes, no, Unsettled("x", "y")]) == "open"
    with pytest.raises(ValueError, match="judged finding"):
        verdict_of([told])


def test_an_interval_decides_only_if_it_lies_on_one_side():
    assert finding(Interval(0.5, 0.4), above(0)).agrees is True
    assert finding(Interval(0.5, 0.6), above(0)).agrees is None
    assert finding(Interval(-0.5, 0.4), above(0)).agrees is False
    assert finding(Interval(0.0, 0.1), near(0, 0.2)).agrees is True
    assert finding(Interval(0.1, 0.2), near(0, 0.2)).agrees is None
    assert finding(1.0, below(1.0)).agrees is True
    with pytest.raises(ValueError, match="not judged"):
        _ = finding(1.0).agrees
    with pytest.raises(ValueError, match="not a number"):
        _ = finding(math.nan, above(0)).agrees


def test_a_judged_finding_says_why():
    with pytest.raises(ValueError, match="says why"):
        Finding("a number", 1.0, above(0))
    with pytest.raises(ValueError, match="says why"):
        Finding("a number", 1.0, why="Because.")


def test_intervals_over_seeds_are_those_of_student():
    mean, half_width = over_seeds([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half_width == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    for values in ([1.0], [1.0, math.nan], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="two finite numbers"):
            over_seeds(values)


def test_numbers_are_printed_for_readers():
    assert finding(-0.5).number == "−0.5"
    assert finding(1e-9).number == "1e−9"
    assert Finding("x", -0.0001, form=".3f").number == "0.000"
    assert Finding("x", 0.0, form=".0e").number == "0"
    assert Finding("x", 0.5, near(0.6, 0.1), "Why.", form=".0%").prediction == "50% to 70%"
    assert finding(Interval(-1, 0.25)).number == "−1 ± 0.25"
    assert above(0.1).in_words() == "at least 0.1"
    assert below(-2).in_words() == "at most −2"
    assert near(2017, 0).in_words() == "2017"
    assert above(1e-9).in_words() == "at least 1e−9"
    assert Finding("x", 0.0, form=".0%").number == "0%"
    assert Range(0.9, 1.1).in_words() == "0.9 to 1.1"


def test_the_ends_of_a_range_belong_to_it_and_decide_nothing_by_being_touched():
    assert finding(0.0, above(0)).agrees is True
    assert finding(0.0, below(0)).agrees is True
    assert finding(Interval(1.0, 1.0), above(0)).agrees is True
    assert finding(Interval(-1.0, 1.0), above(0)).agrees is None
    assert finding(Interval(1.0, 1.0), below(0)).agrees is None
    mean, half_width = over_seeds([1.0, 3.0])  # two seeds are enough for an interval
    assert mean == 2.0 and half_width == pytest.approx(12.7062)


def test_a_prediction_is_printed_as_its_number_is():
    assert finding(5.0).prediction == ""
    assert Finding("x", 0.5, above(0.25), "Why.", form=".1%").prediction == "at least 25.0%"
    assert Finding("x", 0.5, above(0.123456), "Why.", form=".1f").prediction == "at least 0.1235"
    assert Finding("x", 0.5, below(1e-9), "Why.").prediction == "at most 1e−9"


def test_a_function_becomes_the_claim_that_it_judges():
    place = Place("07_pre_ln_and_post_ln", "What helps", in_depth=True)
    evidence = [Unsettled("x", "y")]

    @ledger.claim(
        "It is so.",
        met="here",
        place=place,
        recorded="open",
        answer="Is it?",
        condition="if",
        scope="so",
    )
    def it_is_so():
        return evidence

    assert it_is_so.evidence() is evidence
    assert dataclasses.replace(it_is_so, evidence=list) == ledger.Claim(
        "it-is-so", "It is so.", "here", place, "open", "Is it?", "if", list, "so"
    )
    plain = ledger.claim(
        "It is.", met="m", place=place, recorded="true", answer="a", condition="c"
    )(list)
    assert (plain.name, plain.scope) == ("list", "")
    assert (place.page, place.number) == ("in_depth/07_pre_ln_and_post_ln", 7)
    assert Place("02_family_of_norms", "x").page == "02_family_of_norms"
    assert claims.tally([it_is_so, plain, plain]) == {
        "true": 2,
        "false": 0,
        "partly": 0,
        "open": 1,
    }


def test_a_verdict_is_one_of_four():
    with pytest.raises(ValueError, match="one of"):
        ledger.claim(
            "x.", met="m", place=Place("01_x", "y"), recorded="maybe", answer="a", condition="c"
        )
    with pytest.raises(ValueError, match="no claim is called"):
        claims.named("nothing")


# --- where the book explains it -------------------------------------------------------------------


def headings(path: Path) -> list[str]:
    """The headings of a notebook, as written."""
    cells = nbformat.read(path, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    text = re.sub(r"^(`{3,}).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.*?)\s*$", text, re.MULTILINE)


@functools.cache
def headings_of(page_name: str) -> tuple[str, ...]:
    return tuple(headings(BOOK / f"{page_name}.ipynb"))


@pytest.mark.parametrize("name", NAMES)
def test_the_section_that_explains_a_claim_exists(name):
    place = claims.named(name).place
    assert place.section in headings_of(place.page), (
        f"{place.page} has no heading {place.section!r}, but {', '.join(headings_of(place.page))}"
    )


def test_the_chapters_of_the_page_are_the_chapters_of_the_book():
    for chapter, title in page.CHAPTERS.items():
        assert headings_of(chapter)[0].startswith(title)
    assert set(page.CHAPTERS) == {path.stem for path in BOOK.glob("0*.ipynb")}


def test_anchors_are_those_of_the_site():
    for chapter in page.CHAPTERS:
        for heading in headings_of(chapter):
            if not re.search(r"[`$\\*]", heading):
                assert page.anchor(heading) == make_id(heading), heading


def test_every_source_is_in_the_bibliography():
    keys = set(re.findall(r"^@\w+\{([^,\s]+),", (BOOK / "references.bib").read_text(), re.M))
    for name in NAMES:
        claim, evidence, _ = judged(name)
        text = page.entry(judged(name))
        cited = {
            key.strip()
            for group in re.findall(r"\{cite:[tp]\}`([^`]+)`", text)
            for key in group.split(",")
        }
        assert cited <= keys, (claim.name, cited - keys)
        assert "{{" not in text
        reported = [f.reported for f in evidence if isinstance(f, Finding) and f.reported]
        assert set(reported) <= cited


def test_the_title_that_coined_the_term_is_that_of_the_bibliography():
    entry = (BOOK / "references.bib").read_text(encoding="utf-8").split("{ioffe2015,")[1]
    (title,) = re.findall(r"\btitle\s*= \{(.*)\},", entry.split("@")[0])
    assert title == covariate_shift.TITLE


def test_the_answer_about_current_models_is_that_of_the_counts():
    rms, plain = findings("pre-ln-with-rms-norm")
    answer = claims.named("pre-ln-with-rms-norm").answer
    assert "Nearly all have RMSNorm" in answer and "about a quarter are not" in answer
    everybody = rms.claimed.low
    assert 0.9 * everybody < rms.value < everybody
    assert 0.7 < plain.value / everybody < 0.8


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_page():
    """The page, from evidence that other tests have gathered already."""
    made = page.Page([])
    made.judged = [judged(name) for name in NAMES]
    return made


def test_the_page_shows_every_claim_once(whole_page):
    soup = BeautifulSoup(whole_page.myst(), "html.parser")
    entries = soup.find_all("details", class_="claim")
    assert [entry["id"] for entry in entries] == [f"claim-{name}" for name in NAMES]
    for entry, name in zip(entries, NAMES, strict=True):
        assert entry["data-verdict"] == judged(name).verdict
        scope = judged(name).claim.scope
        said = claims.LABELS[judged(name).verdict]
        badge = f"{said}, {scope}" if scope else said
        assert entry.find(class_="claim-verdict").get_text() == badge
        assert int(entry["data-chapter"]) == claims.named(name).place.number
        assert entry.find("a")["href"].startswith(claims.named(name).place.page)
        summary = entry.find("summary").get_text()
        assert claims.named(name).words in summary and not re.search(r"[`{}]", summary)
    for choice in ("claims-verdict", "claims-chapter"):
        assert soup.find("label", attrs={"for": choice}) and soup.find("select", id=choice)


def test_an_entry_says_the_answer_beside_the_verdict(whole_page):
    soup = BeautifulSoup(whole_page.myst(), "html.parser")
    for summary, name in zip(soup.select("details.claim > summary"), NAMES, strict=True):
        assert summary.find(class_="claim-answer").get_text() == claims.named(name).answer


def test_the_chapters_are_folded(whole_page):
    """On a telephone the overview was 20,132 pixels long."""
    soup = BeautifulSoup(whole_page.myst(), "html.parser")
    folds = soup.find_all("details", class_="claims-chapter")
    assert len(folds) == len({claim.place.number for claim in claims.CLAIMS})
    for fold in folds:
        chapters = {entry["data-chapter"] for entry in fold.find_all("details", class_="claim")}
        assert chapters == {fold["data-chapter"]} and not fold.has_attr("open")


def test_one_claim_is_shown_with_its_evidence():
    shown = claims.show("unit-sphere")
    first, answer, *rest = repr(shown).splitlines()
    claim = claims.named("unit-sphere")
    assert first.split(maxsplit=1) == ["false", claim.words] and answer == claim.answer
    assert len(rest) == len(shown.judged[0].evidence) and "27.711" in rest[0]
    assert "What would decide it: Two layers" not in repr(claims.show("on-the-residual-sum"))
    assert "What would decide it: Train twelve" in repr(claims.show("on-the-residual-sum"))


def test_the_code_of_an_entry_runs():
    (code,) = re.findall(r"```python\n(.*?)```", page.entry(judged("ball")), re.DOTALL)
    exec(code, {})


def test_where_myst_is_not_read_the_page_says_it_in_words(whole_page):
    """In JupyterLab the ledger once showed 122 raw roles, and links to pages that are not there."""
    plain, myst = whole_page._repr_markdown_(), whole_page.myst()
    assert whole_page._repr_mimebundle_() == {page.MYST: myst}
    assert len(page.ROLE.findall(myst)) > 50
    assert not re.search(r"\{[a-z:]+\}`", plain) and "<a " not in plain
    assert plain.count('<details class="claim"') == len(NAMES)


def test_roles_in_words():
    said = page.without_roles(
        "{cite:t}`ba2016` ({prf:ref}`thm-rms-partial`) {cite:p}`zhang2019rms, b2016`."
    )
    assert said == "Ba 2016 (the theorem of chapter 5) [Zhang 2019 Rms; B 2016]."


def test_the_tally_counts(whole_page):
    assert whole_page.tally == claims.tally(claims.CLAIMS)
    assert sum(whole_page.tally.values()) == len(NAMES)
    by_chapter = whole_page.by_chapter()
    for verdict, count in whole_page.tally.items():
        assert sum(row[verdict] for row in by_chapter.values()) == count
    assert repr(whole_page).count("\n") == len(NAMES) - 1


def test_a_wrong_verdict_on_record_stops_the_page():
    right = claims.named("covariance-shift")
    assert page.Page([right]).tally["false"] == 1
    with pytest.raises(ValueError, match="'true', and the evidence says 'false'"):
        page.Page([dataclasses.replace(right, recorded="true")])


def test_the_deciding_number_is_one_that_is_not_as_claimed():
    evidence = [finding(1.0, above(0)), finding(-1.0, above(0)), finding(7.0)]
    assert page.deciding(evidence) == "a number: −1; by the claim: at least 0"
    assert page.deciding(evidence[:1]) == "a number: 1; by the claim: at least 0"
    assert page.deciding(evidence[2:]) == "no number decides it yet"


def test_of_a_partly_true_claim_an_undecided_number_does_not_decide():
    def found(value: float | Interval) -> Finding:
        return Finding("a number", value, ledger.above(0), "why.")

    evidence = [found(1), found(Interval(1, 2)), found(-1)]
    assert page.deciding(evidence) == "a number: −1; by the claim: at least 0"
    assert page.deciding(evidence[:2]) == "a number: 1 ± 2; by the claim: at least 0"
    assert page.plain_text("{prf:ref}`thm-x` of *this* `code`") == "thm-x of this code"


def test_the_index_says_what_the_page_says(whole_page):
    words = claims_page.tally_in_words()
    assert [int(number) for number in re.findall(r"\d+", words)] == [
        len(NAMES),
        *whole_page.tally.values(),
    ]
    source = [f"The ledger holds {claims_page.MARK}."]
    read = []
    environment = SimpleNamespace(note_dependency=read.append)
    app = SimpleNamespace(srcdir=str(ROOT), env=environment)
    claims_page.put_tally(app, "book/index", source)
    assert source == [f"The ledger holds {words}."]
    assert (
        str(ROOT / "studies" / "normtutor_studies" / "claims" / "family.py") in read
    )  # a changed verdict is a change

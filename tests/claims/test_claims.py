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
from bs4 import BeautifulSoup
from docutils.nodes import make_id
from normtutor_studies import Effect, Study, claims, experiments
from normtutor_studies.claims import ledger, page
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


def of_our_runs(finding: Finding) -> bool:
    return isinstance(finding.value, Interval) and not finding.reported


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_says_what_a_reader_needs(name):
    claim, evidence, verdict = judged(name)
    plain, numbers = r"[`{}$*]", r"±|\d[\d.,]*%?"
    assert claim.words.endswith(".") and len(claim.words) <= 130, "one sentence, in 130 characters"
    assert not re.search(plain, claim.words + claim.answer), "plain text, as in a link's preview"
    assert re.fullmatch(r".{20,100}(?<=\.)", claim.answer), "short enough to quote"
    assert not re.search(r"[.!?] |±", claim.answer), "one sentence, without an interval"
    assert len(re.findall(numbers, claim.answer)) <= 1
    assert claim.answer not in claim.condition and len(claim.condition) <= 420, "why, in few words"
    assert len(re.findall(numbers, re.sub(r"\{.*?\}`.*?`", "", claim.condition))) <= 4
    assert claim.met, "say where readers meet it"
    assert verdict != "open" or not claim.scope, "what is undecided reaches nowhere"
    for item in evidence:
        if isinstance(item, Unsettled):
            assert len(item.would_settle) >= 40, "say what experiment would settle it"
        elif item.claimed is not None:
            assert item.why.rstrip().endswith("."), item.what
    sides = [[f for f in findings(name) if f.agrees is answer] for answer in (True, False)]
    if verdict == "partly" and any(all(map(of_our_runs, side)) for side in sides):
        assert claim.scope, "one side rests on our small models alone: say so beside the verdict"


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


def test_no_claim_is_left_out_of_the_list():
    modules = (ROOT / "studies" / "normtutor_studies" / "claims").glob("*.py")
    written = sum(path.read_text(encoding="utf-8").count("\n@claim(") for path in modules)
    assert written == len(NAMES) == len(set(NAMES)), (
        "a module is missing in _MODULES of studies/normtutor_studies/claims/__init__.py, or two "
        "claims have one name"
    )


# --- evidence that would be different -------------------------------------------------------------


def evidence_of(name: str) -> str:
    return verdict_of(claims.named(name).evidence())


BATCH_NORM, LAYER_NORM = norms.batch_norm, norms.layer_norm
# Another formula: its place, the formula, and the verdicts that would follow from it.
OTHER_FORMULAS = {
    "a LayerNorm of length one": (
        (norms, "layer_norm", lambda x, *a, **k: (of_length_one(LAYER_NORM(x, **k)[0]), None)),
        {"unit-sphere": "true"},
    ),
    "a BatchNorm that keeps the mean": (
        (norms, "batch_norm", lambda x, *a, **k: (x / x.std(axis=0), None, None)),
        {"differences-between-tokens": "false"},
    ),
    "a BatchNorm without statistics of padding": (
        (
            norms,
            "batch_norm",
            lambda x, *a, mask=None, **k: BATCH_NORM(x, *a, mask=(x != 0).any(axis=-1), **k),
        ),
        {"padding-shifts": "false", "variable-lengths": "false"},
    ),
    "an RMSNorm that centres": (
        (norms, "rms_norm", lambda x, **k: LAYER_NORM(x)),
        {"variance-only": "true"},
    ),
}


def of_length_one(y):
    return y / np.linalg.norm(y, axis=-1, keepdims=True)


@pytest.mark.parametrize("other", OTHER_FORMULAS)
def test_another_formula_would_give_another_verdict(monkeypatch, other):
    place, verdicts = OTHER_FORMULAS[other]
    monkeypatch.setattr(*place)
    for name, verdict in verdicts.items():
        assert evidence_of(name) == verdict != judged(name).verdict


def raised(by, **where):
    """A change of the saved runs: what ``where`` names has a larger value."""
    experiment, key = where.pop("experiment"), where.pop("key")

    def change(name, record):
        if name == experiment and record.items() >= where.items():
            record[key] = by if isinstance(by, list) else record[key] + next(by)

    return change


OTHER_RUNS = {
    "equal-lengths": (  # seeds that scatter
        raised(
            itertools.cycle((-3, 3)), experiment="company", key="loss_in_evaluation", norm="batch"
        ),
        "open",
    ),
    "without-normalization": (
        raised(itertools.repeat(2), experiment="remedies", key="loss", wiring="fixup"),
        "true",
    ),
    "always-faster": (
        raised([0.5] * 3, experiment="norm_speed", key="to_layer", way="torch"),
        "true",
    ),
}


@pytest.mark.parametrize("name", OTHER_RUNS)
def test_other_runs_would_give_another_verdict(monkeypatch, name):
    change, verdict = OTHER_RUNS[name]
    original = experiments.load

    def load(asked, *arguments):
        saved = original(asked, *arguments)
        runs = json.loads(json.dumps(saved.runs))
        for record in itertools.chain.from_iterable(run["records"] for run in runs):
            change(asked, record)
        return dataclasses.replace(saved, runs=tuple(runs))

    monkeypatch.setattr(experiments, "load", load)
    assert evidence_of(name) == verdict != judged(name).verdict


def test_a_worse_rms_norm_would_not_be_as_good(monkeypatch):
    effect = Study.effect
    monkeypatch.setattr(
        Study, "effect", lambda *asked: Effect(*(part + 0.1 for part in effect(*asked)))
    )
    assert evidence_of("centring-matters") == "true"


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
    # The ends of a range belong to it; an interval that only touches one decides nothing.
    assert finding(1.0, below(1.0)).agrees is finding(0.0, above(0)).agrees is True
    assert finding(Interval(1.0, 1.0), above(0)).agrees is True
    assert finding(Interval(-1.0, 1.0), above(0)).agrees is None
    assert finding(Interval(1.0, 1.0), below(0)).agrees is None
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
    assert over_seeds([1.0, 3.0]) == (2.0, pytest.approx(12.7062))  # two seeds are enough
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
    assert finding(5.0).prediction == ""
    assert Finding("x", 0.5, above(0.25), "Why.", form=".1%").prediction == "at least 25.0%"
    assert Finding("x", 0.5, above(0.123456), "Why.", form=".1f").prediction == "at least 0.1235"
    assert Finding("x", 0.5, below(1e-9), "Why.").prediction == "at most 1e−9"


def test_a_function_becomes_the_claim_that_it_judges():
    place = Place("07_pre_ln_and_post_ln", "What helps", in_depth=True)
    evidence = [Unsettled("x", "y")]
    about = {"met": "here", "place": place, "answer": "Is it?", "condition": "if"}

    @ledger.claim("It is so.", recorded="open", scope="so", **about)
    def it_is_so():
        return evidence

    assert it_is_so.evidence() is evidence
    assert (it_is_so.name, it_is_so.words, it_is_so.scope) == ("it-is-so", "It is so.", "so")
    assert (it_is_so.met, it_is_so.place, it_is_so.answer) == ("here", place, "Is it?")
    assert (place.page, place.number) == ("in_depth/07_pre_ln_and_post_ln", 7)
    plain = ledger.claim("It is.", recorded="true", **about)(list)
    assert (plain.name, plain.scope) == ("list", "")
    counted = {"true": 2, "false": 0, "partly": 0, "open": 1}
    assert claims.tally([it_is_so, plain, plain]) == counted
    with pytest.raises(ValueError, match="one of"):
        ledger.claim("x.", recorded="maybe", **about)
    with pytest.raises(ValueError, match="no claim is called"):
        claims.named("nothing")


# --- where the book explains it -------------------------------------------------------------------


@functools.cache
def headings_of(chapter: str) -> list[str]:
    """The headings of a chapter, as written."""
    cells = nbformat.read(BOOK / f"{chapter}.ipynb", as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return re.findall(r"^#+ (.*?)\s*$", text, re.MULTILINE)


def test_the_chapters_of_the_page_are_the_chapters_of_the_book():
    for chapter, title in page.CHAPTERS.items():
        assert headings_of(chapter)[0].startswith(title)
    assert set(page.CHAPTERS) == {path.stem for path in BOOK.glob("0*.ipynb")}


def test_anchors_are_those_of_the_site():
    for chapter in page.CHAPTERS:
        for heading in headings_of(chapter):
            if not re.search(r"[`$\\*]", heading):
                assert page.anchor(heading) == make_id(heading), heading


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
        assert entry.find(class_="claim-answer").get_text() == claims.named(name).answer
        summary = entry.find("summary").get_text()
        assert claims.named(name).words in summary and not re.search(r"[`{}]", summary)
    for choice in ("claims-verdict", "claims-chapter"):
        assert soup.find("label", attrs={"for": choice}) and soup.find("select", id=choice)
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
    assert page.plain_text("{prf:ref}`thm-x` of *this* `code`") == "thm-x of this code"


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
    undecided = finding(Interval(1, 2), above(0))
    assert page.deciding([evidence[0], undecided]) == "a number: 1 ± 2; by the claim: at least 0"
    assert page.deciding([evidence[0], undecided, evidence[1]]) == page.deciding(evidence)


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

"""The claims ledger: verdicts, the evidence they follow from, and its page."""

import dataclasses
import functools
import math
import re
from pathlib import Path
from types import SimpleNamespace

import claims_page
import numpy as np
import pytest
from book_text import BOOK, PAGES
from bs4 import BeautifulSoup
from docutils.nodes import make_id
from normtutor_studies import Effect, Study, claims
from normtutor_studies.claims import ledger, page
from normtutor_studies.claims.ledger import (
    Finding,
    Interval,
    Place,
    Unsettled,
    over_seeds,
    verdict_of,
)

from normtutor import norms

pytestmark = pytest.mark.slow

LEDGER = Path(claims.__file__).parent
NAMES = [claim.name for claim in claims.CLAIMS]

above, below, near = (
    functools.partial(limit, why="Because.") for limit in (ledger.above, ledger.below, ledger.near)
)


@functools.cache
def judged(name: str) -> page.Judged:
    """A claim's evidence, gathered once for all tests."""
    return page.judge(claims.named(name))


def findings(name: str) -> list[Finding]:
    """The judged findings of a claim."""
    return [f for f in judged(name).evidence if isinstance(f, Finding) and f.claimed is not None]


# --- every claim ----------------------------------------------------------------------------------


@pytest.mark.unmutated
@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_on_record_follows_from_the_evidence(name):
    _, evidence, verdict = judged(name)
    assert verdict == claims.named(name).recorded, (
        f"the evidence says {verdict!r} ({page.deciding(evidence)}): is it right? "
        f"Then record it: recorded={verdict!r}"
    )


def test_what_stands_in_previews_of_links_is_plain_text():
    texts = [claim.words + claim.answer for claim in claims.CLAIMS]
    assert [text for text in texts if re.search(r"[`{}$*±]", text)] == []


def other_side(finding: Finding) -> Finding:
    """The same finding with a number on the other side of an end of its range."""
    low, high, _ = finding.claimed
    outside = low - 1 if math.isfinite(low) else high + 1
    inside = low if math.isfinite(low) else high
    return dataclasses.replace(finding, value=outside if finding.agrees else inside)


@pytest.mark.unmutated
@pytest.mark.parametrize("name", [name for name in NAMES if claims.named(name).recorded != "open"])
def test_other_numbers_would_give_another_verdict(name):
    before = findings(name)
    turned = [other_side(finding) for finding in before]
    opposite = {"true": "false", "false": "true", "partly": "partly"}
    assert verdict_of(turned) == opposite[judged(name).verdict]
    # To turn those that disagree is enough.
    agreeing = [old if old.agrees is True else new for old, new in zip(before, turned, strict=True)]
    assert verdict_of(agreeing) == "true"


def test_no_claim_is_left_out_of_the_list():
    written = sum(path.read_text("utf-8").count("\n@claim(") for path in LEDGER.glob("*.py"))
    assert written == len(NAMES) == len(set(NAMES)), (
        "a module is missing in _MODULES of studies/normtutor_studies/claims/__init__.py, or two "
        "claims have one name"
    )


# --- evidence that would be different -------------------------------------------------------------


def of_length_one(y):
    return y / np.linalg.norm(y, axis=-1, keepdims=True)


BATCH_NORM, LAYER_NORM = norms.batch_norm, norms.layer_norm
VALUES, EFFECT = Study.values, Study.effect


def other_runs(name, arm, changed):
    """Values that a study has recorded, changed in the arms with ``arm`` in their label."""

    def values(self, world, label, key):
        found = VALUES(self, world, label, key)
        return changed(found, key) if self.name == name and arm in label else found

    return Study, "values", values


# Another formula, or other runs, and the verdicts that would follow from them.
OTHERS = {
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
            *(norms, "batch_norm"),
            lambda x, *a, mask=None, **k: BATCH_NORM(x, *a, mask=(x != 0).any(axis=-1), **k),
        ),
        {"padding-shifts": "false", "variable-lengths": "false"},
    ),
    "an RMSNorm that centres": (
        (norms, "rms_norm", lambda x, **k: LAYER_NORM(x)),
        {"variance-only": "true"},
    ),
    "a BatchNorm that likes equal lengths": (
        other_runs("batch_composition", "BatchNorm, equal", lambda loss, _: loss - 1),
        {"equal-lengths": "true"},
    ),
    "a Fixup that fails": (
        other_runs("warmup_map", "fixup", lambda loss, _: loss + 2),
        {"without-normalization": "true"},
    ),
    "a fast RMSNorm of torch": (
        other_runs("norm_speed", "×", lambda time, key: time / 8 if "torch rms" in key else time),
        {"always-faster": "true"},
    ),
    "a worse RMSNorm": (
        (Study, "effect", lambda *asked: Effect(*(part + 0.1 for part in EFFECT(*asked)))),
        {"centring-matters": "true"},
    ),
}


@pytest.mark.unmutated
@pytest.mark.parametrize("other", OTHERS)
def test_other_evidence_would_give_another_verdict(monkeypatch, other):
    changed, verdicts = OTHERS[other]
    assert all(claims.named(name).recorded != verdict for name, verdict in verdicts.items())
    monkeypatch.setattr(*changed)
    assert {name: verdict_of(claims.named(name).evidence()) for name in verdicts} == verdicts


# --- how a verdict follows ------------------------------------------------------------------------


def finding(value, claimed=None, form=""):
    return Finding("a number", value, claimed, form)


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


def test_an_interval_needs_two_seeds_and_a_number_has_none():
    assert over_seeds([1.0, 3.0]) == (2.0, pytest.approx(12.7062))
    assert finding([1.0, 3.0]).estimate == over_seeds([1.0, 3.0])
    assert finding(np.float32(2)).estimate == (2.0, 0.0)
    for values in ([1.0], [1.0, math.nan], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="two finite numbers"):
            over_seeds(values)


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (-0.5, "", "−0.5"),
        (1e-9, "", "1e−9"),
        (1.1e-4, "", "0.00011"),
        (27.7114, "", "27.7"),
        (0.0, ".0e", "0"),
        (0.0, ".0%", "0%"),
        (-0.0001, ".3f", "0.000"),
        (Interval(-1, 0.25), "", "−1.00 ± 0.25"),
        (Interval(104.4, 43.1), "", "104 ± 43"),
        (Interval(1, 1e-7), "", "1.0000 ± 0.0000"),
        (Interval(0.5, 0), "", "0.5 ± 0"),
        ([0.1, 0.2, 0.3], ".0%", "20% ± 25%"),
    ],
)
def test_numbers_are_printed_for_readers(value, form, shown):
    assert finding(value, form=form).number == shown


def test_ranges_are_printed_for_readers():
    assert above(0.1).in_words() == "at least 0.1"
    assert below(-2).in_words() == "at most −2"
    assert near(2017, 0).in_words() == "2017"
    assert finding(5.0).prediction == ""
    assert finding(0.5, near(0.6, 0.1), form=".0%").prediction == "50% to 70%"
    assert finding(0.5, above(0.123456), form=".1f").prediction == "at least 0.1235"
    assert finding(0.5, below(1e-9)).prediction == "at most 1e−9"


def test_a_claim_with_another_verdict_and_a_name_that_there_is_not_are_refused():
    with pytest.raises(ValueError, match="one of"):
        ledger.claim("x.", met="y", place=Place("z", ""), recorded="maybe", answer="")
    with pytest.raises(ValueError, match="no claim is called"):
        claims.named("nothing")


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.unmutated
def test_the_chapters_and_anchors_of_the_page_are_those_of_the_book():
    assert {f"{chapter}.ipynb" for chapter in page.CHAPTERS} == {
        name for name in PAGES if name.startswith("0")
    }
    for chapter, title in page.CHAPTERS.items():
        headings = re.findall(r"^#+ (.*?)\s*$", PAGES[f"{chapter}.ipynb"], re.MULTILINE)
        assert headings[0].startswith(title)
        for heading in headings:
            if not re.search(r"[`$\\*]", heading):
                assert page.anchor(heading) == make_id(heading), heading


@pytest.fixture(scope="module")
def whole_page():
    """The page, from evidence that other tests have gathered already."""
    made = page.Page([])
    made.judged = [judged(name) for name in NAMES]
    return made


@pytest.mark.unmutated
def test_the_page_shows_every_claim_once(whole_page):
    soup = BeautifulSoup(whole_page.myst(), "html.parser")
    entries = soup.find_all("details", class_="claim")
    assert [entry["id"] for entry in entries] == [f"claim-{name}" for name in NAMES]
    for entry, (claim, _, verdict) in zip(entries, whole_page.judged, strict=True):
        said = claims.LABELS[verdict]
        badge = f"{said}, {claim.scope}" if claim.scope else said
        assert entry.find(class_="claim-verdict").get_text() == badge
        assert entry.find(class_="claim-answer").get_text() == claim.answer
        assert entry.find(class_="claim-words").get_text() == claim.words
        assert entry["data-verdict"] == verdict
        assert entry.find("a")["href"].startswith(claim.place.page)
    for choice in ("claims-verdict", "claims-chapter"):
        assert soup.find("label", attrs={"for": choice}) and soup.find("select", id=choice)
    for fold in soup.find_all("details", class_="claims-chapter"):
        chapters = {entry["data-chapter"] for entry in fold.find_all("details", class_="claim")}
        assert chapters == {fold["data-chapter"]} and not fold.has_attr("open")


@pytest.mark.unmutated
def test_one_claim_is_shown_with_its_evidence():
    shown = claims.show("unit-sphere")
    first, answer, *rest = repr(shown).splitlines()
    claim = claims.named("unit-sphere")
    assert first.split(maxsplit=1) == ["false", claim.words] and answer == claim.answer
    assert len(rest) == len(shown.judged[0].evidence) and "27.7" in rest[0]
    assert "What would decide it: Train with" in repr(claims.show("generalization"))


@pytest.mark.unmutated
def test_the_code_of_an_entry_runs():
    (code,) = re.findall(r"```python\n(.*?)```", page.entry(judged("one-group")), re.DOTALL)
    exec(code, {})


@pytest.mark.unmutated
def test_where_myst_is_not_read_the_page_is_plain_text(whole_page):
    """In JupyterLab the ledger once showed 122 raw roles, and links to pages that are not there."""
    shown = whole_page._repr_mimebundle_()
    assert shown["text/x-myst"] == whole_page.myst()
    assert not re.search(r"\{[a-z:]+\}`|<a ", shown["text/plain"] + repr(claims.show("outliers")))
    assert page.plain_text("{prf:ref}`thm-x` of *this* `code`") == "thm-x of this code"


@pytest.mark.unmutated
def test_the_page_has_a_line_for_each_claim(whole_page):
    assert repr(whole_page).count("\n") == len(NAMES) - 1


@pytest.mark.unmutated
def test_a_wrong_verdict_on_record_stops_the_page():
    right = claims.named("standard-normal")
    assert page.Page([right]).judged[0].verdict == "false"
    with pytest.raises(ValueError, match="'true', and the evidence says 'false'"):
        page.Page([dataclasses.replace(right, recorded="true")])


def test_the_deciding_number_is_one_that_is_not_as_claimed():
    yes, no, told = finding(1.0, above(0)), finding(-1.0, above(0)), finding(7.0)
    undecided = finding(Interval(1, 2), above(0))
    assert page.deciding([yes, no, told]) == "a number: −1; by the claim: at least 0"
    assert page.deciding([yes]) == "a number: 1; by the claim: at least 0"
    assert page.deciding([told]) == "no number decides it yet"
    assert page.deciding([yes, undecided]) == "a number: 1.0 ± 2.0; by the claim: at least 0"
    assert page.deciding([yes, undecided, no]) == page.deciding([yes, no])


@pytest.mark.unmutated
def test_the_index_says_what_the_page_says(whole_page):
    words = claims_page.tally_in_words()
    counts = [int(number) for number in re.findall(r"\d+", words)]
    assert counts == [len(NAMES), *claims.tally(claims.CLAIMS).values()]
    source, read = [f"The ledger holds {claims_page.MARK}."], []
    root = BOOK.parent
    app = SimpleNamespace(srcdir=str(root), env=SimpleNamespace(note_dependency=read.append))
    claims_page.put_tally(app, "book/index", source)
    assert source == [f"The ledger holds {words}."]
    changed = root / "studies" / "normtutor_studies" / "claims" / "family.py"
    assert str(changed) in read  # a changed verdict is a change

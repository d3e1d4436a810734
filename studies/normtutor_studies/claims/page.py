"""The page of the ledger, rendered from what the claims' functions return."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from normtutor_studies.claims.ledger import (
    OPEN,
    PARTLY,
    VERDICTS,
    Claim,
    Evidence,
    Finding,
    Unsettled,
    tally,
    verdict_of,
)

CHAPTERS = {
    "01_internal_covariate_shift": "Internal covariate shift",
    "02_family_of_norms": "The family of norms",
    "03_batch_norm_vs_layer_norm": "BatchNorm vs LayerNorm on sequences",
    "04_invariance": "Invariance",
    "05_rms_norm": "RMSNorm",
    "06_power_norm": "PowerNorm",
    "07_pre_ln_and_post_ln": "Pre-LN and Post-LN",
    "08_after_2020": "After 2020",
    "09_norms_at_work": "Norms at work",
}
# How a verdict is said.
LABELS = {"true": "true", "false": "false", "partly": "partly true", "open": "open"}
# What MyST alone understands, and what stands for it where MyST is not read.
MYST = "text/x-myst"
ROLE = re.compile(r"\{(cite:[tp]|prf:ref)\}`([^`]+)`")
KINDS = {"cor": "corollary", "def": "definition", "prop": "proposition", "thm": "theorem"}
SUBJECTS = ("ics", "norms", "seq", "inv", "rms", "power", "wiring", "after", "work")  # by chapter
ANSWERS = {True: "as claimed", False: "not as claimed", None: "not decided"}


class Judged(NamedTuple):
    """A claim with the evidence that its function has returned."""

    claim: Claim
    evidence: Evidence
    verdict: str


def judge(claim: Claim) -> Judged:
    """Gather the evidence of a claim and let the verdict follow from it."""
    evidence = claim.evidence()
    return Judged(claim, evidence, verdict_of(evidence))


def anchor(heading: str) -> str:
    """The anchor that the site gives to a heading: its letters and digits, joined by hyphens."""
    plain = unicodedata.normalize("NFKD", heading.lower()).encode("ascii", "ignore").decode()
    return re.sub(r"^[0-9-]+|-+$", "", re.sub(r"[^a-z0-9]+", "-", plain))


def deciding(evidence: Evidence) -> str:
    """The number that decides, in a line of plain text: the first one that is not as claimed.

    If all are as claimed it is the first. Of an open claim it is the first that decides nothing, or
    one that does not decide alone.
    """
    findings = [item for item in evidence if isinstance(item, Finding) and item.claimed is not None]
    if not findings:
        return "no number decides it yet"
    undecided = [finding for finding in findings if finding.agrees is None]
    against = [finding for finding in findings if finding.agrees is False]
    first = against + undecided if verdict_of(evidence) == PARTLY else undecided + against
    one = (first or findings)[0]
    return f"{plain_text(one.what)}: {one.number}; by the claim: {one.prediction}"


def plain_text(markdown: str) -> str:
    """Drop the marks of MyST, for places where it is not read."""
    return re.sub(r"\{[a-z:]+\}`([^`]*)`|[*`$]", lambda m: m[1] or "", markdown)


def in_words(role: str, names: str) -> str:
    """Say in plain words what a role of MyST refers to; its number is known to the site alone."""
    if role == "prf:ref":
        kind, subject, *_ = names.split("-")
        return f"the {KINDS[kind]} of chapter {SUBJECTS.index(subject) + 1}"
    papers = [
        re.sub(r"(\d{4})(\w*)$", r" \1 \2", name).strip().title() for name in names.split(",")
    ]
    return f"[{'; '.join(papers)}]" if role == "cite:p" else " and ".join(papers)


def without_roles(markdown: str) -> str:
    """Write MyST's text for programs that know Markdown alone."""
    return ROLE.sub(lambda role: in_words(role[1], role[2]), markdown)


def _item(item: Finding | Unsettled) -> str:
    if isinstance(item, Unsettled):
        return f"- *Unsettled:* {item.what}"
    reported = f" (reported by {{cite:t}}`{item.reported}`)" if item.reported else ""
    line = f"- {item.what[0].upper()}{item.what[1:]}{reported}: **{item.number}**"
    if item.claimed is None:
        return f"{line}."
    answer = ANSWERS[item.agrees].capitalize()
    return f"{line}. By the claim: {item.prediction}. {item.claimed.why} *{answer}.*"


def would_decide(evidence: Evidence) -> str:
    """What would decide a claim that is open: an experiment, or more seeds."""
    unsettled = [item.would_settle for item in evidence if isinstance(item, Unsettled)]
    return " ".join(unsettled) or "More seeds: an interval reaches over the end of its range."


def label(claim: Claim) -> str:
    """The verdict of a claim in words, with how far its evidence reaches."""
    return ", ".join(filter(None, [LABELS[claim.recorded], claim.scope]))


def entry(judged: Judged, on_site: bool = True) -> str:
    """One entry of the page: closed a line with its verdict, open the evidence. MyST markdown.

    The site makes a page of its own of each entry, and looks for its end by the comment behind it.
    The pages that it links to lie beside it there alone.
    """
    claim, evidence, verdict = judged
    place = claim.place
    depth = ", in depth" if place.in_depth else ""
    section = f"{CHAPTERS[place.chapter]}{depth}: {escape(place.section, quote=False)}"
    link = f'<a href="{place.page}.html#{anchor(place.section)}">{section}</a>'
    return "\n".join(
        [
            f'<details class="claim" id="claim-{claim.name}" data-verdict="{verdict}" '
            f'data-chapter="{place.number}">',
            # <b> and <br> for programs that do not have the site's style sheet.
            f'<summary><b class="claim-verdict claim-{verdict}">{escape(label(claim))}</b> '
            f'<span class="claim-words">{escape(claim.words)}</span><br>'
            f'<span class="claim-answer">{escape(claim.answer)}</span></summary>',
            "",
            *([claim.condition, ""] if claim.condition else []),
            f"**{'So far' if verdict == OPEN else 'The number that decides'}:** "
            f"{escape(deciding(evidence), quote=False)}.",
            "",
            *([f"**What would decide it:** {would_decide(evidence)}", ""] * (verdict == OPEN)),
            "**Run it**",
            "",
            "```python",
            "from normtutor_studies import claims",
            "",
            f'claims.show("{claim.name}")',
            "```",
            "",
            "<details><summary>All evidence</summary>",
            "",
            *map(_item, evidence),
            "",
            "</details>",
            "",
            f"**Met in** {claim.met}.",
            "",
            f"**Explained in** {link if on_site else section}",
            "",
            "</details><!-- end of a claim -->",
        ]
    )


def folded(entries: Iterable[tuple[Judged, str]]) -> str:
    """Fold the entries of each chapter, which stand together."""
    chapters = []
    for number, group in itertools.groupby(entries, lambda one: one[0].claim.place.number):
        texts = [text for _, text in group]
        title = list(CHAPTERS.values())[number - 1]
        claims = "1 claim" if len(texts) == 1 else f"{len(texts)} claims"
        head = f"<summary>{number} {title} <span>{claims}</span></summary>"
        fold = f'<details class="claims-chapter" data-chapter="{number}">{head}'
        chapters += [fold, *texts, "</details>"]
    return "\n\n".join(chapters)


def controls(judged: list[Judged]) -> str:
    """The two choices and the line that counts; a script shows them and makes them work."""
    verdicts = Counter(one.verdict for one in judged)
    chapters = Counter(one.claim.place.number for one in judged)
    choices: dict[str, dict[object, str]] = {
        "verdict": {verdict: f"{LABELS[verdict]} ({verdicts[verdict]})" for verdict in VERDICTS},
        "chapter": {
            number: f"{number} {title} ({chapters[number]})"
            for number, title in enumerate(CHAPTERS.values(), 1)
            if chapters[number]
        },
    }
    return "\n".join(
        [
            '<form class="claims-filter" hidden>',
            *(
                f'<span><label for="claims-{name}">{name.capitalize()}</label> '
                f'<select id="claims-{name}"><option value="">all</option>'
                + "".join(f'<option value="{v}">{text}</option>' for v, text in options.items())
                + "</select></span>"
                for name, options in choices.items()
            ),
            '<output id="claims-shown" for="claims-verdict claims-chapter"></output>',
            "</form>",
        ]
    )


class Page:
    """The judged claims, as a notebook and the site show them."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self.judged = [judge(claim) for claim in claims]
        for claim, _, verdict in self.judged:
            if verdict != claim.recorded:
                raise ValueError(
                    f"the verdict on record for {claim.name!r} is {claim.recorded!r}, and the "
                    f"evidence says {verdict!r}: look at both and correct the one that is wrong."
                )

    @property
    def tally(self) -> dict[str, int]:
        """How many claims have each verdict."""
        return tally(one.claim for one in self.judged)

    def by_chapter(self) -> dict[str, dict[str, int]]:
        """The tally of each chapter, by the chapter's title."""
        found: dict[str, list[Claim]] = {}
        for one in self.judged:
            found.setdefault(one.claim.place.chapter, []).append(one.claim)
        return {title: tally(found[name]) for name, title in CHAPTERS.items() if name in found}

    def myst(self) -> str:
        """What the site reads: with roles, links to its pages, and the filter."""
        return "\n\n".join(
            [controls(self.judged), folded((one, entry(one)) for one in self.judged)]
        )

    def _repr_markdown_(self) -> str:
        entries = [(one, entry(one, on_site=False)) for one in self.judged]
        alone = entries[0][1] if len(entries) == 1 else folded(entries)
        return without_roles(alone)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {MYST: self.myst()}

    def __repr__(self) -> str:
        lines = [f"{LABELS[one.verdict]:12}{one.claim.words}" for one in self.judged]
        if len(lines) == 1:
            lines.append(self.judged[0].claim.answer)
            if self.judged[0].verdict == OPEN:
                lines.append(f"What would decide it: {would_decide(self.judged[0].evidence)}")
            lines += [plain_text(without_roles(_item(item))) for item in self.judged[0].evidence]
        return "\n".join(lines)

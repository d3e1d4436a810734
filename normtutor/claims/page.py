"""The page of the ledger, rendered from what the claims' functions return."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from normtutor.claims.ledger import (
    VERDICTS,
    Claim,
    Evidence,
    Finding,
    Unsettled,
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
CONDITIONS = {
    "true": "With the reservation",
    "false": "What holds instead",
    "half": "What it leaves out",
    "open": "Why it is open",
}
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

    If all are as claimed it is the first.
    """
    findings = [item for item in evidence if isinstance(item, Finding) and item.claimed is not None]
    if not findings:
        return "no number decides it yet"
    against = [finding for finding in findings if not finding.agrees]
    one = (against or findings)[0]
    return f"{plain_text(one.what)}: {one.number}; by the claim: {one.prediction}"


def plain_text(markdown: str) -> str:
    """Drop the marks of MyST, for places where it is not read."""
    return re.sub(r"\{[a-z:]+\}`([^`]*)`|[*`$]", lambda m: m[1] or "", markdown)


def _item(item: Finding | Unsettled) -> str:
    if isinstance(item, Unsettled):
        return f"- *Unsettled:* {item.what} *What would settle it:* {item.would_settle}"
    reported = f" (reported by {{cite:t}}`{item.reported}`)" if item.reported else ""
    line = f"- {item.what[0].upper()}{item.what[1:]}{reported}: **{item.number}**"
    if item.claimed is None:
        return f"{line}."
    answer = ANSWERS[item.agrees].capitalize()
    return f"{line}. By the claim: {item.prediction}. {item.why} *{answer}.*"


def entry(judged: Judged) -> str:
    """One entry of the page: closed a line and its verdict, open the evidence. MyST markdown."""
    claim, evidence, verdict = judged
    place = claim.place
    depth = ", in depth" if place.in_depth else ""
    link = f"{place.page}.html#{anchor(place.section)}"
    badge = f"{verdict}, {claim.scope}" if claim.scope else verdict
    return "\n".join(
        [
            f'<details class="claim" id="claim-{claim.name}" data-verdict="{verdict}" '
            f'data-chapter="{place.number}">',
            f'<summary><span class="claim-verdict claim-{verdict}">{escape(badge)}</span> '
            f'<span class="claim-words">{escape(claim.words)}</span> '
            f'<span class="claim-number">{escape(deciding(evidence))}</span></summary>',
            "",
            f"**Met in** {claim.met}.",
            "",
            f"**{CONDITIONS[verdict]}.** {claim.condition}",
            "",
            "**Evidence**",
            "",
            *map(_item, evidence),
            "",
            f'**Explained in** <a href="{link}">{CHAPTERS[place.chapter]}{depth}: '
            f"{escape(place.section, quote=False)}</a>",
            "",
            "</details>",
        ]
    )


def controls(judged: list[Judged]) -> str:
    """The two choices and the line that counts; a script shows them and makes them work."""
    verdicts = Counter(one.verdict for one in judged)
    chapters = Counter(one.claim.place.chapter for one in judged)
    return "\n".join(
        [
            '<form class="claims-filter" hidden>',
            '<span><label for="claims-verdict">Verdict</label>',
            '<select id="claims-verdict"><option value="">all</option>',
            *(f'<option value="{v}">{v} ({verdicts[v]})</option>' for v in VERDICTS),
            "</select></span>",
            '<span><label for="claims-chapter">Chapter</label>',
            '<select id="claims-chapter"><option value="">all</option>',
            *(
                f'<option value="{int(name[:2])}">{int(name[:2])} {title} ({chapters[name]})'
                "</option>"
                for name, title in CHAPTERS.items()
                if chapters[name]
            ),
            "</select></span>",
            '<span><label for="claims-words">Words</label>',
            '<input type="search" id="claims-words"></span>',
            '<button type="button" id="claims-open">Open all</button>',
            '<output id="claims-shown" for="claims-verdict claims-chapter claims-words"></output>',
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
        counts = Counter(one.verdict for one in self.judged)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    def by_chapter(self) -> dict[str, dict[str, int]]:
        """The tally of each chapter, by the chapter's title."""
        return {
            title: {
                verdict: sum(
                    one.verdict == verdict and one.claim.place.chapter == name
                    for one in self.judged
                )
                for verdict in VERDICTS
            }
            for name, title in CHAPTERS.items()
            if any(one.claim.place.chapter == name for one in self.judged)
        }

    def _repr_markdown_(self) -> str:
        parts = [controls(self.judged), *map(entry, self.judged)]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return "\n".join(f"{one.verdict:6}{one.claim.words}" for one in self.judged)

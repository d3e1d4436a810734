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
LABELS = {"true": "true", "false": "false", "partly": "partly true", "open": "open"}
ANSWERS = {True: "as claimed", False: "not as claimed", None: "not decided"}


class Judged(NamedTuple):
    """A claim, the evidence that its function has returned, and the verdict that follows."""

    claim: Claim
    evidence: Evidence
    verdict: str


def judge(claim: Claim) -> Judged:
    """Gather the evidence of a claim and let the verdict follow from it."""
    evidence = claim.evidence()
    return Judged(claim, evidence, verdict_of(evidence))


def label(claim: Claim) -> str:
    """The verdict of a claim in words, with how far its evidence reaches."""
    return ", ".join(filter(None, [LABELS[claim.recorded], claim.scope]))


def anchor(heading: str) -> str:
    """The anchor that the site gives to a heading: its letters and digits, joined by hyphens."""
    plain = unicodedata.normalize("NFKD", heading.lower()).encode("ascii", "ignore").decode()
    return re.sub(r"^[0-9-]+|-+$", "", re.sub(r"[^a-z0-9]+", "-", plain))


def plain_text(markdown: str) -> str:
    """Drop the marks of MyST, for places where it is not read."""
    return re.sub(r"\{[a-z:]+\}`([^`]*)`|[*`$]", lambda m: m[1] or "", markdown)


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


def item(one: Finding | Unsettled) -> str:
    """A line of the evidence."""
    if isinstance(one, Unsettled):
        return f"- *Unsettled:* {one.what}"
    reported = f" (reported by {{cite:t}}`{one.reported}`)" if one.reported else ""
    line = f"- {one.what[0].upper()}{one.what[1:]}{reported}: **{one.number}**"
    if one.claimed is None:
        return f"{line}."
    answer = ANSWERS[one.agrees].capitalize()
    return f"{line}. By the claim: {one.prediction}. {one.claimed.why} *{answer}.*"


def would_decide(evidence: Evidence) -> str:
    """What would decide a claim that is open: an experiment, or more seeds."""
    unsettled = [item.would_settle for item in evidence if isinstance(item, Unsettled)]
    return " ".join(unsettled) or "More seeds: an interval reaches over the end of its range."


ENTRY = """\
<details class="claim" id="claim-{claim.name}" data-verdict="{verdict}" \
data-chapter="{claim.place.number}">
<summary><b class="claim-verdict claim-{verdict}">{label}</b> \
<span class="claim-words">{words}</span><br><span class="claim-answer">{answer}</span></summary>

{why}**{kind}:** {deciding}.

**Run it**

```python
from normtutor_studies import claims

claims.show("{claim.name}")
```

<details><summary>All evidence</summary>

{evidence}

</details>

**Met in** {claim.met}.

**Explained in** <a href="{claim.place.page}.html#{anchor}">{section}</a>

</details><!-- end of a claim -->"""


def entry(judged: Judged) -> str:
    """One entry of the page: closed a line with its verdict, open the evidence. MyST markdown.

    The site makes a page of its own of each entry, and looks for its end by the comment behind it.
    """
    claim, evidence, verdict = judged
    place, open_ = claim.place, verdict == OPEN
    decide = f"**What would decide it:** {would_decide(evidence)}\n\n" if open_ else ""
    depth = ", in depth" if place.in_depth else ""
    return ENTRY.format(
        claim=claim,
        verdict=verdict,
        label=escape(label(claim)),
        words=escape(claim.words),
        answer=escape(claim.answer),
        why=(f"{claim.condition}\n\n" if claim.condition else "") + decide,
        kind="So far" if open_ else "The number that decides",
        deciding=escape(deciding(evidence), quote=False),
        evidence="\n".join(map(item, evidence)),
        anchor=anchor(place.section),
        section=f"{CHAPTERS[place.chapter]}{depth}: {escape(place.section, quote=False)}",
    )


class Page:
    """The judged claims: MyST for the site, plain text elsewhere."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self.judged = [judge(claim) for claim in claims]
        for claim, _, verdict in self.judged:
            if verdict != claim.recorded:
                raise ValueError(
                    f"the verdict on record for {claim.name!r} is {claim.recorded!r}, and the "
                    f"evidence says {verdict!r}: look at both and correct the one that is wrong."
                )

    def myst(self) -> str:
        """What the site reads: a filter, which a script shows and makes work, and the entries."""
        groups = itertools.groupby(self.judged, lambda one: one.claim.place.number)
        chapters = {number: list(map(entry, group)) for number, group in groups}
        titles, verdicts = list(CHAPTERS.values()), Counter(one.verdict for one in self.judged)
        choices = {
            "verdict": [(v, f"{LABELS[v]} ({verdicts[v]})") for v in VERDICTS],
            "chapter": [(n, f"{n} {titles[n - 1]} ({len(of)})") for n, of in chapters.items()],
        }
        parts = ['<form class="claims-filter" hidden>']
        for name, options in choices.items():
            listed = "".join(f'<option value="{value}">{text}</option>' for value, text in options)
            parts.append(
                f'<span><label for="claims-{name}">{name.capitalize()}</label> '
                f'<select id="claims-{name}"><option value="">all</option>{listed}</select></span>'
            )
        parts.append('<output id="claims-shown" for="claims-verdict claims-chapter"></output>')
        folds = ["\n".join([*parts, "</form>"])]
        for number, entries in chapters.items():
            count = "1 claim" if len(entries) == 1 else f"{len(entries)} claims"
            head = f"<summary>{number} {titles[number - 1]} <span>{count}</span></summary>"
            fold = f'<details class="claims-chapter" data-chapter="{number}">{head}'
            folds += [fold, *entries, "</details>"]
        return "\n\n".join(folds)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/x-myst": self.myst(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        lines = [f"{LABELS[one.verdict]:12}{one.claim.words}" for one in self.judged]
        if len(lines) == 1:
            (claim, evidence, verdict) = self.judged[0]
            lines.append(claim.answer)
            if verdict == OPEN:
                lines.append(f"What would decide it: {would_decide(evidence)}")
            lines += [plain_text(item(one)) for one in evidence]
        return "\n".join(lines)

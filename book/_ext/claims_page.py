"""The claims ledger on the site: an overview, and a page of its own for each claim.

The ledger's notebook puts out every entry whole. Here each becomes a card at the address
``book/claim-NAME.html``, with title, description and picture for link previews; the overview keeps
a line with the verdict. Pages link to a card as to a heading: ``[words](#claim-unit-sphere)``.
"""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, cast

import verdicts
from docutils import nodes
from sharing import Words, card
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain

PAGE = "book/claims"
ENTRY = re.compile(
    r'<details class="claim" id="claim-(?P<name>[a-z0-9-]+)"'
    r'(?P<data> data-verdict="(?P<verdict>\w+)" data-chapter="\d+")>\s*'
    r"<summary>(?P<badge><b.*?</b>) <span[^>]*>(?P<words>.*?)</span><br>"
    r'<span class="claim-answer">(?P<answer>.*?)</span></summary>'
    r"(?P<body>.*?)</details><!-- end of a claim -->",
    re.DOTALL,
)
SIGNS = {
    "true": ("✓", "#3fc9c1"),
    "false": ("✗", "#fa8f8b"),
    "partly": ("◐", "#dfe04a"),
    "open": ("?", "#d0d0d0"),
}
MARK = "<!-- tally of the claims -->"

# The entries of the ledger, where it was written in this build.
entries: list[re.Match[str]] = []


def tally_in_words() -> str:
    """The tally of the verdicts on record, which a test compares with the evidence."""
    from normtutor_studies import claims

    counts = claims.tally(claims.CLAIMS)
    *first, last = (f"{counts[verdict]} {label}" for verdict, label in claims.LABELS.items())
    return f"{sum(counts.values())} claims: {', '.join(first)} and {last}"


def put_tally(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write the tally where a page asks for it."""
    if MARK in source[0]:
        verdicts.depend(app.env)
        source[0] = source[0].replace(MARK, tally_in_words())


def name_claims(app: Sphinx, doctree: nodes.document) -> None:
    """Let pages link to a claim's card as to a heading."""
    if app.env.docname != PAGE:
        return
    domain = cast(StandardDomain, app.env.get_domain("std"))
    for raw in doctree.findall(nodes.raw):
        for name in re.findall(r'id="(claim-[a-z0-9-]+)"', raw.astext()):
            domain.anonlabels[name] = f"book/{name}", ""
            title = name.removeprefix("claim-").replace("-", " ")
            domain.labels[name] = f"book/{name}", "", title


def names(app: Sphinx) -> list[str]:
    """The pages of the claims that were written, in this build or before."""
    return [f"book/{path.stem}" for path in Path(app.outdir, "book").glob("claim-*.html")]


def verdict_of(entry: re.Match[str]) -> str:
    """The verdict in words."""
    return re.sub("<[^>]+>", "", entry["badge"])


def line(entry: re.Match[str]) -> str:
    """What the overview keeps of an entry."""
    return (
        f'<p class="claim" id="claim-{entry["name"]}"{entry["data"]}>{entry["badge"]} '
        f'<a href="claim-{entry["name"]}.html">{entry["words"]}</a> '
        f'<span class="claim-answer">{entry["answer"]}</span></p>'
    )


def page_of(entry: re.Match[str], address: str) -> str:
    """The page of a claim: the sentence, the verdict, what to believe; then how one knows."""
    said = f"“{entry['words']}” {verdict_of(entry).capitalize()}: {entry['answer']}"
    return (
        f'<section id="claim"><h1>“{entry["words"]}”</h1>'
        f'<p class="claim"{entry["data"]}>{entry["badge"]}</p>'
        f'<p class="claim-answer">{entry["answer"]}</p>{entry["body"]}'
        f'<p><strong>Cite it</strong> <span class="claim-cited">{said} '
        f"Normalization in deep networks, {address}</span></p>"
        '<p><a href="claims.html">All claims</a></p></section>'
    )


def words_of(claim: str, verdict: str, label: str, answer: str) -> list[Words]:
    """What stands in the picture that a link to a claim shows: the sentence, the verdict."""
    sign, colour = SIGNS[verdict]
    return [
        Words(f"“{claim}”", 50, 64, 290),
        Words(f"{sign}  {label}", 345, 56, 84, colour),
        Words(answer, 435, 36, 120),
        Words("Normalization in deep networks: the claims ledger", 570, 26, 40),
    ]


def take_cards(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Take the entries out of the ledger for pages of their own; no other page needs the filter."""
    if pagename == PAGE:
        app.add_js_file("claims.js")
        entries[:] = ENTRY.finditer(context["body"])
        context["body"] = ENTRY.sub(line, context["body"])


def cards(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of the claims, where the ledger was written in this build."""
    base, pictures = app.config.html_baseurl, Path(app.outdir) / "_static" / "claims"
    pictures.mkdir(parents=True, exist_ok=True)
    for old in Path(app.outdir, "book").glob("claim-*.html") if entries else ():
        old.unlink()
    for entry in entries:
        name, verdict = f"book/claim-{entry['name']}", verdict_of(entry)
        claim, answer = unescape(entry["words"]), unescape(entry["answer"])
        picture = f"{entry['name']}.png"
        drawn = card(words_of(claim, entry["verdict"], verdict, answer))
        drawn.quantize(32).save(pictures / picture, optimize=True)
        context = {
            "title": f"“{entry['words']}”",
            "body": page_of(entry, f"{base}{name}.html"),
            "part_of": PAGE,
            "meta": {
                "og:description": f"{verdict.capitalize()}: {entry['answer']}",
                "og:image": f"{base}_static/claims/{picture}",
                "og:image:alt": f"The sentence, and its verdict: {verdict}",
            },
        }
        yield name, context, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", put_tally)
    app.connect("doctree-read", name_claims)
    app.connect("html-page-context", take_cards)
    app.connect("html-collect-pages", cards)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}

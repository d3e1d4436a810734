"""The answers on the site: a page for each question, topic pages, and an index that forwards.

The questions of a topic stand in ``book/answers/TOPIC.md``, each below two lines of comment: its
slug, which is its address for good, and other words in which people ask it. Here each becomes
``book/answers/SLUG.html``, with title and description for link previews; the topic page keeps the
question and the bold sentence. ``forwards.tsv`` says which page answers what had an address before.
"""

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.logging import getLogger

logger = getLogger(__name__)

FOLDER = "book/answers/"
INDEX = "book/questions"
FORWARDS = Path(__file__).resolve().parents[1] / "answers" / "forwards.tsv"
HEAD = re.compile(r"^% slug: ([a-z0-9-]+)\n% words: (.*)\n\n## (.+)$", re.MULTILINE)
SECTION = re.compile(
    r'<section id="(?P<id>[^"]+)">\s*(?:<span[^>]*></span>\s*)*<h2>(?P<head>.*?)</h2>'
    r"(?P<body>.*?)</section>",
    re.DOTALL,
)
LINK = re.compile(r'href="(?P<way>[^"#]*?)(?P<topic>[\w-]+)\.html#(?P<id>[^"]+)"')
MARK = "<!-- index of the answers -->"
KINDS = {"run": "with code that a test runs", "source": "with a source", "book": "with the book's"}
ASKED = re.compile(r"\(Asked at(?:[^()]|\([^()]*\))*\)")  # where it was asked is no source


class Answer(NamedTuple):
    """A question of a topic page."""

    id: str  # of its section on the topic page
    slug: str
    words: str  # in which people ask it, too
    title: str
    sentence: str  # the bold one
    kind: str  # what it rests on: one of KINDS


# The answers of the topic pages that were written in this build: heading, text and topic.
taken: list[tuple[Answer, str, str, str]] = []


def topic_of(docname: str) -> str:
    """The topic of a page of answers; empty for another page."""
    return docname.removeprefix(FOLDER) if docname.startswith(FOLDER) else ""


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Take note of the questions of a topic page."""
    docname = app.env.docname
    if not topic_of(docname):
        return
    source = Path(app.env.doc2path(docname)).read_text(encoding="utf-8")
    heads = HEAD.findall(source)
    sections = [s for s in doctree.findall(nodes.section) if isinstance(s.parent, nodes.section)]
    if len(heads) != len(sections) or len(heads) != len(re.findall(r"^## ", source, re.M)):
        logger.warning("%s: each question is below a slug and other words", docname)
    parts = re.split(r"^## ", source, flags=re.MULTILINE)[1:]
    found = []
    for (slug, words, _), section, text in zip(heads, sections, parts, strict=False):
        bold = next(iter(section.findall(nodes.strong)), nodes.strong())
        kind = "run" if "```python" in text else "book"
        if kind != "run" and re.search(r"\]\(http|\{cite", ASKED.sub("", text)):
            kind = "source"
        title = section[0].astext()
        found.append(Answer(section["ids"][0], slug, words, title, bold.astext(), kind))
    answers_of(app.env)[docname] = found


def answers_of(env: BuildEnvironment) -> dict[str, list[Answer]]:
    """The answers of each topic page."""
    if not hasattr(env, "topic_answers"):
        env.topic_answers = {}  # type: ignore[attr-defined]
    return env.topic_answers  # type: ignore[attr-defined]


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """A topic page is read anew."""
    answers_of(env).pop(docname, None)


def forwards() -> dict[str, str]:
    """Which page has what had an address on the one page of before."""
    rows = (line.split("\t") for line in FORWARDS.read_text(encoding="utf-8").splitlines())
    return dict(row for row in rows if len(row) == 2)


def readdress(app: Sphinx, body: str) -> str:
    """Let links to a question lead to its page."""
    pages = {
        (topic_of(name), answer.id): answer.slug
        for name, answers in answers_of(app.env).items()
        for answer in answers
    }

    def page(link: re.Match[str]) -> str:
        slug = pages.get((link["topic"], link["id"]))
        return f'href="{link["way"]}{slug}.html"' if slug else link[0]

    return LINK.sub(page, body)


def index(app: Sphinx) -> str:
    """All questions by topic, each with the names that its address has had."""
    old: dict[str, list[str]] = {}
    for anchor, target in forwards().items():
        old.setdefault(target, []).append(anchor)

    def anchors(target: str) -> str:
        named = (anchor for anchor in old.get(target, ()) if anchor != target)
        return "".join(f'<span id="{escape(anchor)}"></span>' for anchor in named)

    parts = [
        '<form class="answers-filter" role="search" hidden><label>Show questions with '
        '<input type="search" autocomplete="off"></label> <output></output></form>'
    ]
    topics = answers_of(app.env)
    for name in app.env.toctree_includes[INDEX]:
        topic, answers = topic_of(name), topics.get(name, ())
        lines = "".join(
            f'<li>{anchors(a.slug)}<a href="answers/{a.slug}.html">{escape(a.title)}</a></li>'
            for a in answers
        )
        title = escape(app.env.titles[name].astext())
        parts.append(
            f'<section class="answers" id="{topic}">{anchors(topic)}<h2>'
            f'<a href="answers/{topic}.html">{title}</a></h2><ul>{lines}</ul></section>'
        )
    return "\n".join(parts)


def take_answers(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Take the answers out of a topic page for pages of their own; draw the index."""
    if not context.get("body"):
        return
    context["body"] = readdress(app, context["body"])
    if pagename == INDEX:
        app.add_js_file("answers.js")
        context["body"] = context["body"].replace(MARK, index(app))
    answers = {answer.id: answer for answer in answers_of(app.env).get(pagename, [])}
    if not answers:
        return

    def shorter(section: re.Match[str]) -> str:
        answer = answers.get(section["id"])
        if answer is None:
            return section[0]
        body = re.sub(r'href="#([^"]+)"', there, section["body"])
        taken.append((answer, section["head"], body, pagename))
        return (
            f'<section id="{section["id"]}"><h2 class="question"><a href="{answer.slug}.html">'
            f"{escape(answer.title)}</a></h2><p>{escape(answer.sentence)}</p></section>"
        )

    def there(link: re.Match[str]) -> str:
        answer = answers.get(link[1])
        return f'href="{answer.slug}.html"' if answer else link[0]

    context["body"] = SECTION.sub(shorter, context["body"])


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of the answers whose topic page was written in this build."""
    kinds = Counter(answer.kind for answer, *_ in taken)
    for answer, head, body, topic in taken:
        title, answers = app.env.titles[topic].astext(), answers_of(app.env)[topic]
        heading = re.sub(r'<a class="headerlink".*?</a>', "", head)
        place = answers.index(answer)
        related = [a for a in answers if a != answer][max(0, place - 2) : place + 2]
        links = "".join(f'<li><a href="{a.slug}.html">{escape(a.title)}</a></li>' for a in related)
        context = {
            "title": escape(answer.title),
            "body": f'<section id="answer"><h1 class="question">{heading}</h1>{body}'
            f"<h2>Related questions</h2><ul>{links}</ul>"
            f'<p><a href="{topic_of(topic)}.html">{escape(title)}</a> · '
            '<a href="../questions.html">All questions</a></p></section>',
            "part_of": topic,
            "meta": {"og:description": escape(answer.sentence)},
        }
        yield f"{FOLDER}{answer.slug}", context, "page.html"
    if kinds:
        told = ", ".join(f"{kinds[kind]} {words}" for kind, words in KINDS.items())
        logger.info("answers: %s", told)


def names(app: Sphinx) -> list[str]:
    """The pages of the answers."""
    return [f"{FOLDER}{a.slug}" for found in answers_of(app.env).values() for a in found]


def other_words(app: Sphinx) -> str:
    """Lines of asked.tsv for the answers."""
    found = (answer for answers in answers_of(app.env).values() for answer in answers)
    return "\n".join(f"answers/{a.slug}\t{a.title}\t{a.words}" for a in found)


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """No slug stands twice; what had an address leads to a page."""
    slugs = Counter(answer.slug for found in answers_of(env).values() for answer in found)
    targets = {*slugs, *map(topic_of, answers_of(env)), "questions"}
    for slug, count in slugs.items():
        if count > 1 or f"{FOLDER}{slug}" in env.found_docs:
            logger.warning("two answers have the address %s", slug)
    for anchor, target in forwards().items():
        if target not in targets:
            logger.warning("forwards.tsv: there is no answer %s for %s", target, anchor)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", forget)
    app.connect("env-check-consistency", check)
    app.connect("html-page-context", take_answers)
    app.connect("html-collect-pages", pages)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": False}

"""`make live` tells browsers what was written, and executes what has changed of a chapter."""

import asyncio
import re
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from normtutor_studies.store import Store, World
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci"))

import build  # noqa: E402
import live  # noqa: E402


def test_who_asks_is_told_what_was_written_since():
    news = live.News()
    assert news.after(-1) == {"number": 0, "pages": []}
    answers = []
    asking = threading.Thread(target=lambda: answers.append(news.after(0, patience=30)))
    asking.start()
    news.tell(["book/a.html"])
    asking.join(30)
    assert answers == [{"number": 1, "pages": ["book/a.html"]}]
    assert news.after(1, patience=0) == {"number": 1, "pages": []}


def test_a_page_is_served_with_the_script_that_loads_it_again(tmp_path):
    (tmp_path / "a.html").write_text("<body>words</body>")
    news = live.News()
    server = live.server(tmp_path, 0, news)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        page = urllib.request.urlopen(f"{base}/a.html").read().decode()
        assert page == f"<body>words{live.SCRIPT}</body>"
        news.tell(["a.html"])
        answer = urllib.request.urlopen(f"{base}/__changes?after=0").read().decode()
        assert answer == '{"number": 1, "pages": ["a.html"]}'
    finally:
        server.shutdown()
        server.server_close()


def test_a_busy_port_is_a_sentence_before_anything_is_done(tmp_path, monkeypatch):
    def nothing(*_):
        raise AssertionError("read the pages first")

    monkeypatch.setattr(live, "Pages", nothing)
    monkeypatch.setattr(live, "LIVE", tmp_path)
    monkeypatch.setattr(build, "build_site", nothing)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(sys, "argv", ["build.py", "--serve", str(port)])
        for serve in (build.main, lambda: live.serve(port, [])):
            with pytest.raises(SystemExit, match=f"Port {port} cannot be used .* PORT="):
                serve()


def test_a_new_run_on_record_is_seen_on_the_pages_that_show_its_study(tmp_path, monkeypatch):
    watched = live.written_at(live.WATCHED)
    record = ROOT / "studies/normtutor_studies/records/code.jsonl"
    assert {record, ROOT / "studies/normtutor_studies/results/company.json"} <= watched.keys()
    pages = live.Pages.__new__(live.Pages)
    pages.env = SimpleNamespace(
        path2doc=lambda path: None,
        dependencies={"a": {str(record)}, "b": {"book/some.txt"}},
        found_docs={"a", "b"},
    )
    assert pages.of([record]) == ["a"] and pages.of([ROOT / "book/some.txt"]) == ["b"]

    def store() -> Store:
        return Store(World("toy", lambda cell, rate, seed: {"loss": [1.0]}, {}, rate=1.0), tmp_path)

    shown = store()
    monkeypatch.setattr(live, "STUDIES", {"any": SimpleNamespace(stores={"toy": shown})})
    assert shown.get({}, 1.0, 0) is None
    store().made({}, 1.0, 0)
    kernels = SimpleNamespace(sessions={})
    live.follow(SimpleNamespace(of=lambda _: []), kernels, live.News(), {record}, set())
    assert shown.get({}, 1.0, 0) is not None


def test_a_page_that_is_written_again_has_its_own_scripts(tmp_path):
    """Each once had those of all pages that were written before it."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    for name in ("a", "b", "index"):
        (source / f"{name}.md").write_text(f"# Page {name}\n")

    def own_script(app, name, *_):
        app.add_js_file(None, body=f"page {name}")

    with docutils_namespace():
        settings = {"extensions": ["myst_parser"]}
        app = Sphinx(source, None, out, tmp_path / "trees", "html", settings, None, None)
        app.connect("html-page-context", own_script)
        app.build()
        pages = live.Pages.__new__(live.Pages)
        pages.app, pages.builder, pages.env = app, app.builder, app.env
        assert pages.write(["a"]) == ["a"] and pages.write(["b"]) == ["b"]
    for name in ("a", "b"):
        assert re.findall("page [a-z]+", (out / f"{name}.html").read_text()) == [f"page {name}"]


def test_a_chapter_is_executed_from_the_first_changed_cell_on(tmp_path):
    def notebook(*sources: str):
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])

    def shown(book) -> list[str]:
        return [cell.outputs[0].data["text/plain"] for cell in book.cells]

    async def story() -> None:
        session = live.Session(tmp_path / "a.ipynb", tmp_path)
        try:
            book = notebook("n = 1\nn", "n += 1\nn", "n * 10")
            assert await session.run(book) == 3
            assert shown(book) == ["1", "2", "20"]
            book = notebook("n = 1\nn", "n += 1\nn", "n * 100")
            assert await session.run(book) == 1
            assert shown(book) == ["1", "2", "200"]
            book = notebook("n = 5\nn", "n += 1\nn", "n * 100")
            assert await session.run(book) == 3
            assert shown(book) == ["5", "6", "600"]
        finally:
            await session.stop()

    asyncio.run(story())

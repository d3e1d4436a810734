"""`make live` tells browsers what was written, and executes what has changed of a chapter."""

import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request

import live
import nbformat
import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace


def test_a_page_is_served_with_the_script_that_loads_it_again(tmp_path):
    (tmp_path / "a.html").write_text("<body>words</body>")
    server = live.server(tmp_path, 0)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/a.html?q"
    head = urllib.request.Request(address, method="HEAD")
    try:
        page = urllib.request.urlopen(address).read().decode()
        assert page == f"<body>words{live.SCRIPT}</body>"
        before, after = (
            os.utime(tmp_path / "a.html", (time, time))
            or urllib.request.urlopen(head).headers["Last-Modified"]
            for time in (1e9, 2e9)
        )
        assert before != after
    finally:
        server.shutdown()
        server.server_close()


ENDED = """
import os, signal, subprocess, sys, time
import live
started = []
def serve(*_):
    started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        live.stop({})
        print("left behind:", started[0].wait(30) != -signal.SIGKILL)
live.serve, sys.argv = serve, ["live.py"]
live.main()
"""


def test_one_that_is_ended_leaves_no_process_behind():
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", ENDED]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert ran.stdout == "left behind: False\n", ran.stderr


def test_a_busy_port_is_a_sentence_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "Pages", None)
    monkeypatch.setattr(live, "LIVE", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit, match=f"Port {port} cannot be used .* PORT="):
            live.serve(port, [])


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


@pytest.mark.parametrize(
    ("changed", "executed", "shown"),
    [
        (("n = 1\nn", "n += 1\nn", "n * 100"), 1, ["1", "2", "200"]),
        (("n = 5\nn", "n += 1\nn", "n * 10"), 3, ["5", "6", "60"]),
    ],
)
def test_a_chapter_is_executed_from_the_first_changed_cell_on(tmp_path, changed, executed, shown):
    session = live.Session(tmp_path / "a.ipynb", tmp_path)
    try:
        for sources, number in ((("n = 1\nn", "n += 1\nn", "n * 10"), 3), (changed, executed)):
            cells = [nbformat.v4.new_code_cell(source) for source in sources]
            assert session.run(nbformat.v4.new_notebook(cells=cells)) == number
        assert [cell.outputs[0].data["text/plain"] for cell in cells] == shown
    finally:
        session.stop()

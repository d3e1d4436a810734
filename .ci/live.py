"""Serve the book while it is written: what is saved is seen in the open browser.

Usage: python .ci/live.py [--port 8000] [NOTEBOOK ...]

One process holds Sphinx with all pages read, and writes again what has changed: a page, nothing
else. A chapter whose code has changed is executed from the first changed cell on, in a kernel that
stays; the notebooks named are executed beforehand, so that their kernels wait for the first change.
What one sees is a preview: a cell that is executed alone finds what later cells have left, no style
sheet is cut, and a warning is only a line here. `make book` and `make test` do the whole.

Chapters keep the outputs that they have in ``_build``; the preview lies in ``_build/live``.
"""

import argparse
import contextlib
import http.server
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import build
import chapters
import nbformat
import psutil
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from normtutor_studies.engine import STUDIES

ROOT = build.ROOT
MAIN = ROOT / "_build"
LIVE = MAIN / "live"
ask = run_sync(chapters.ask)
PAUSE = 0.2  # seconds between two looks at the files
# What pages and chapters are made of.
WATCHED = (
    *("book/*", "book/in_depth/*", "book/exercises/*"),
    *("normtutor/**/*.py", "studies/normtutor_studies/**/*.py"),
    *("studies/normtutor_studies/results/*.json", "studies/normtutor_studies/records/*.jsonl"),
)

# Asks when this page was written, and loads it again when that has changed.
SCRIPT = """<script>
(async () => {
  for (let seen = null; ; await new Promise((done) => setTimeout(done, 300))) {
    try {
      const { headers } = await fetch(location.pathname, { method: "HEAD", cache: "no-store" });
      const now = `${headers.get("Last-Modified")} ${headers.get("Content-Length")}`;
      if (seen !== null && now !== seen) return location.reload();
      seen = now;
    } catch {}
  }
})();
</script>"""


def server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """Serve the pages with the script that loads them again."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def do_GET(self) -> None:
            path = Path(self.translate_path(self.path))
            if path.suffix != ".html" or not path.is_file():
                return super().do_GET()
            page = path.read_text(encoding="utf-8").replace("</body>", SCRIPT + "</body>").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # who leaves a page drops its question
                super().handle()

        def log_message(self, *arguments: Any) -> None:
            pass

    return build.listening(port, Handler)


# --- kernels that stay ----------------------------------------------------------------------------


class Session:
    """One chapter in one kernel, with the cells that this has executed."""

    def __init__(self, path: Path, sockets: Path) -> None:
        self.path, self.sockets = path, sockets
        self.client: NotebookClient | None = None
        self.done: list[NotebookNode] = []  # code cells with their outputs
        self.files: dict[str, float] = {}  # what the cells reached, and when that was written

    def stop(self) -> None:
        if self.client is not None:
            self.client._cleanup_kernel()
        self.client, self.done = None, []

    def imports_are_old(self) -> bool:
        return any(
            not Path(name).exists() or Path(name).stat().st_mtime != written
            for name, written in self.files.items()
        )

    def run(self, notebook: NotebookNode) -> int:
        """Execute what differs from what was executed; return the number of cells."""
        fresh = chapters.new_client(notebook, self.path, self.sockets)
        if self.client is None or self.imports_are_old():
            self.stop()
            self.client = fresh
            self.client.reset_execution_trackers()
            self.client.start_new_kernel()
            self.client.start_new_kernel_client()
            ask(self.client, chapters.WATCH)
        self.client.nb = notebook
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        pairs = zip(cells, self.done, strict=False)
        same = [*itertools.takewhile(lambda pair: pair[0].source == pair[1].source, pairs)]
        self.done = self.done[: len(same)]
        for cell, finished in same:
            cell.outputs, cell.execution_count = finished.outputs, finished.execution_count
        for cell in cells[len(same) :]:
            number, place = len(self.done) + 1, notebook.cells.index(cell)
            self.client.execute_cell(cell, place, execution_count=number)
            self.done.append(cell)
        report = json.loads(ask(self.client, "", chapters.REPORT))
        files, _ = chapters.reached(report, self.path.parent)
        self.files = {str(ROOT / name): (ROOT / name).stat().st_mtime for name in files}
        return len(cells) - len(same)

    def execute(self) -> None:
        """Execute what has changed of the chapter, keep the copy, and say what was done."""
        started = time.monotonic()
        notebook = nbformat.read(self.path, as_version=4)
        try:
            said = f"{self.run(notebook)} cells executed"
        except CellExecutionError as error:
            said = chapters.description_of(error)
        notebook.metadata["execution"] = NotebookNode(code=chapters.digest_of_code(notebook))
        copy = chapters.kept_at(self.path, LIVE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, copy)
        print(f"{self.path.name}: {said} in {time.monotonic() - started:.1f} s", flush=True)


# --- pages ----------------------------------------------------------------------------------------


class Pages:
    """Sphinx with everything read; it writes single pages."""

    def __init__(self) -> None:
        self.app = build.sphinx_app(LIVE, [LIVE, MAIN], strict=False)
        self.app.build()
        self.builder: Any = self.app.builder
        self.env = self.app.env

    def of(self, paths: Iterable[Path]) -> list[str]:
        """Name the pages that are made from these files; docstrings wait for the next start."""
        changed = set(paths)
        names = {self.env.path2doc(str(path)) for path in changed}
        for name, behind in self.env.dependencies.items():
            if any(ROOT / file in changed for file in behind):
                names.add(name)
        return sorted(name for name in names if name and name in self.env.found_docs)

    def count_from_the_beginning(self) -> None:
        """Set the counters of sphinx-external-toc back: it goes on where it ended the last time."""
        for listener in self.app.events.listeners["env-get-updated"]:
            collector = getattr(listener.handler, "__self__", None)
            for name in vars(collector) if collector else ():
                if name.startswith("_TocTreeCollectorWithStyles__"):
                    setattr(collector, name, 0)

    def numbers(self) -> dict[str, str]:
        """The numbers of sections and figures on each page: Sphinx counts them all each time."""
        sections, figures = self.env.toc_secnumbers, self.env.toc_fignumbers
        return {name: repr((sections.get(name), figures.get(name))) for name in self.env.all_docs}

    def write(self, names: list[str]) -> list[str]:
        """Read and write pages, and those whose numbers change with them; return their names."""
        from sphinx.util.docutils import sphinx_domains

        before = self.numbers()
        for name in names:
            self.app.emit("env-purge-doc", self.env, name)
            self.env.clear_doc(name)
            self.builder.read_doc(name)
        self.app.emit("env-updated", self.env)
        self.count_from_the_beginning()
        list(self.env.check_dependents(self.app, set(names)))  # counts the numbers
        now = self.numbers()
        written = sorted({*names, *(name for name in now if now[name] != before.get(name))})
        of_all = self.builder._orig_css_files, self.builder._orig_js_files
        with sphinx_domains(self.env):
            self.builder.prepare_writing(set(written))
            # It takes the scripts that single pages have asked for, for those of all pages.
            self.builder._orig_css_files, self.builder._orig_js_files = of_all
            for name in written:
                doctree = self.env.get_and_resolve_doctree(name, self.builder)
                self.builder.write_doc_serialized(name, doctree)
                self.builder.write_doc(name, doctree)
        self.builder.copy_image_files()
        self.builder.copy_download_files()
        return written


def forget_runs() -> None:
    """Have the studies read their records again."""
    for study in STUDIES.values():
        for store in study.stores.values():
            vars(store).pop("runs", None)


def written_at(patterns: Iterable[str]) -> dict[Path, float]:
    return {
        path: path.stat().st_mtime
        for pattern in patterns
        for path in ROOT.glob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }


def serve(port: int, named: list[Path]) -> None:
    web, sockets = server(LIVE / "pages", port), tempfile.mkdtemp(prefix="kernels-")
    if not LIVE.exists() and (MAIN / ".doctrees").exists():
        for place in ("pages", ".doctrees"):
            shutil.copytree(MAIN / place, LIVE / place)
    started = time.monotonic()
    print("Reading the pages", flush=True)
    pages = Pages()
    threading.Thread(target=web.serve_forever, args=(0.1,), daemon=True).start()
    address = f"http://127.0.0.1:{web.server_port}/book/index.html"
    print(f"Ready after {time.monotonic() - started:.0f} s: {address}", flush=True)

    behind = (*build.BEHIND_EVERY_PAGE, "book/_templates/*", ".ci/live.py")
    files, statics, frames = (
        written_at(patterns) for patterns in (WATCHED, ["book/_static/**/*"], behind)
    )
    sessions = {path: Session(path, Path(sockets)) for path in chapters.notebooks_in_toc()}
    for path in named:
        sessions[path].execute()
    try:
        while True:
            time.sleep(PAUSE)
            if written_at(behind) != frames:
                print("An extension or a setting has changed: starting again", flush=True)
                time.sleep(1)  # a change of branches takes a moment
                stop(sessions)
                web.server_close()
                arguments = [*sys.argv[:1], "--port", str(web.server_port), *map(str, named)]
                os.execv(sys.executable, [sys.executable, *arguments])
            now = written_at(["book/_static/**/*"])
            if now != statics:
                statics = now
                pages.builder.copy_static_files()
                for page in (LIVE / "pages").rglob("*.html"):
                    page.touch()  # so that browsers load it again
                print("style sheets and scripts copied", flush=True)
            now = written_at(WATCHED)
            if now == files:
                continue
            changed, files = {path for path in now if files.get(path) != now[path]}, now
            follow(pages, sessions, changed)
    except KeyboardInterrupt:
        print()
    finally:
        stop(sessions)
        shutil.rmtree(sockets, ignore_errors=True)
        web.shutdown()


def stop(sessions: dict[Path, Session]) -> None:
    for session in sessions.values():
        session.stop()
    for process in psutil.Process().children():  # libraries leave helpers behind
        process.kill()


def follow(pages: Pages, sessions: dict[Path, Session], changed: set[Path]) -> None:
    """Execute and write what a change asks for."""
    started, touched = time.monotonic(), {path for path in changed if path.suffix != ".py"}
    if any(path.suffix == ".jsonl" for path in touched):
        forget_runs()
    for path, session in sessions.items():
        known = path not in changed or any(chapters.kept(path, place) for place in (LIVE, MAIN))
        if not known or session.imports_are_old():
            session.execute()
            touched.add(path)
    if names := pages.of(touched):
        try:
            written = pages.write(names)
        except Exception as error:
            line = traceback.format_exc(limit=-3)
            print(f"{', '.join(names)}: not written, {error!r}\n{line}", flush=True)
            return
        seconds = time.monotonic() - started
        print(f"{', '.join(written)}: written after {seconds:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("notebooks", nargs="*", type=Path, help="executed beforehand")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Ended so, it leaves nothing running, as when interrupted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    serve(arguments.port, [path.resolve() for path in arguments.notebooks])
    return 0


if __name__ == "__main__":
    sys.exit(main())

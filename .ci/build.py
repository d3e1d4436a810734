"""Build the site: execute the chapters, let Jupyter Book render the pages, finish them.

Each step does what has changed. ``chapters.py`` executes a chapter again when something changed
that it reaches; its kernel's CPU seconds stand in ``_build/cpu_seconds.json``. Sphinx reads again
what has changed, and writes into ``_build/pages``; after a change of an extension or a setting, it
reads everything. ``light_pages.finish`` makes ``_build/html`` of these pages: the site of before
stays in its place until the new one is there.
"""

import argparse
import functools
import gc
import hashlib
import http.server
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chapters
import distribution

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
EXTENSIONS = ROOT / "book" / "_ext"
# What each page depends on, whether Sphinx knows it or not.
BEHIND_EVERY_PAGE = (
    "book/_ext/*",
    "_config.yml",
    "_toc.yml",
    "requirements.txt",
    ".ci/build.py",
    ".ci/chapters.py",
    # What makes numbers of the records of studies; Sphinx itself knows of the records.
    "studies/normtutor_studies/*.py",
    "studies/normtutor_studies/tables/*.py",
    "normtutor/intervals.py",
)
# What the site depends on.
BEHIND_SITE = (
    *BEHIND_EVERY_PAGE,
    "book/**/*",
    "normtutor/**/*",
    "studies/normtutor_studies/**/*",
    "pyproject.toml",
    ".ci/distribution.py",
)


def digest_of(patterns: Iterable[str], root: Path = ROOT) -> str:
    """Hash the files that match, with their names, and the interpreter that reads them."""
    digest = hashlib.sha256(f"{platform.python_version()} {platform.platform()}".encode())
    for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def sphinx_app(build: Path, executed: Iterable[Path], strict: bool = True) -> "Sphinx":
    """Make Sphinx ready to write into ``pages`` of a build folder, with Jupyter Book's settings.

    The outputs of a chapter come from the first of the folders with executed chapters that has it.
    Where it is strict, a warning or an unresolved reference is an error.
    """
    from jupyter_book.config import get_final_config
    from sphinx.application import Sphinx

    own = {
        "external_toc_path": (ROOT / "_toc.yml").as_posix(),
        "latex_individualpages": False,
        "nitpicky": True,
        "nb_execution_mode": "off",
        "executed_builds": [str(folder) for folder in executed],
    }
    config, _ = get_final_config(
        user_yaml=ROOT / "_config.yml", cli_config=own, sourcedir=ROOT, use_external_toc=True
    )
    app = Sphinx(
        srcdir=ROOT,
        confdir=None,
        outdir=build / "pages",
        doctreedir=build / ".doctrees",
        buildername="html",
        confoverrides=config,
        status=None,
        warningiserror=strict,
        keep_going=True,
    )
    app.setup_extension("sphinx_multitoc_numbering")
    return app


def render(build: Path, executed: Path) -> bool:
    """Let Sphinx bring the pages up to date; say whether there was nothing to complain about.

    An earlier build that failed leaves pages that Sphinx would take for good ones; so does a change
    that it does not know of. Then everything is read anew.
    """
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    # A new module may have to appear on a page that lists modules.
    modules = sorted(path.as_posix() for path in ROOT.glob("normtutor/**/*.py"))
    keys = {
        build / "pages.txt": "\n".join([digest_of(BEHIND_EVERY_PAGE), *modules]),
        build / "static.txt": digest_of(["book/_static/**/*", "book/_templates/*"]),
    }
    read_all, write_all = (not key.exists() or key.read_text() != keys[key] for key in keys)
    for key in keys:
        key.unlink(missing_ok=True)
    if read_all:
        for place in ("pages", ".doctrees"):
            shutil.rmtree(build / place, ignore_errors=True)
    # Looking for circles in what is kept to the end takes a third of the time.
    gc.disable()
    with patch_docutils(), docutils_namespace():
        app = sphinx_app(build, [executed])
        app.build(force_all=write_all)
    if app.statuscode == 0:
        for key, digest in keys.items():
            key.write_text(digest)
    return app.statuscode == 0


def put_wheels(build: Path) -> None:
    """Put the two wheels beside the readers' notebooks: on Colab they install them."""
    folder, key = build / "wheel", build / "wheel.txt"
    digest = digest_of(
        ["normtutor/**/*", "studies/**/*", "pyproject.toml", "README.md", ".ci/distribution.py"]
    )
    if not key.exists() or key.read_text() != digest or not any(folder.glob("*.whl")):
        distribution.build_wheels(folder)
        key.write_text(digest)
    notebooks = build / "pages" / "notebooks"
    shutil.copytree(folder, notebooks, dirs_exist_ok=True)


def finish(build: Path) -> None:
    put_wheels(build)
    sys.path.insert(0, str(EXTENSIONS))
    import light_pages

    light_pages.finish(build / "pages", build / "html", build / "style")


def build_site(build: Path, executed: Path) -> bool:
    """Bring the site in a folder up to date, and say what is done, a line a step."""
    started = time.monotonic()
    index, done, digest = build / "html" / "index.html", build / "site.txt", digest_of(BEHIND_SITE)
    if index.exists() and done.exists() and done.read_text() == digest:
        print(f"Nothing has changed since the site was built: {os.path.relpath(index)}")
        return True
    done.unlink(missing_ok=True)
    notebooks = chapters.notebooks_in_toc()
    run, failures = chapters.bring_up_to_date(notebooks, executed)
    print(
        f"Chapters: {len(run) - len(failures)} executed, {len(notebooks) - len(run)} as they were"
    )
    if failures:
        chapters.report_failures(failures)
        return False
    print("Pages: reading and writing what has changed", flush=True)
    if not render(build, executed):
        print("The site was not built; see the messages above.", file=sys.stderr)
        return False
    print("Site: one style sheet, icons, pictures, the package's wheel", flush=True)
    finish(build)
    done.write_text(digest)
    print(f"Ready after {time.monotonic() - started:.0f} s: {os.path.relpath(index)}")
    print("make serve shows it; opened as files, pages lack their interactive figures", flush=True)
    return True


def listening(port: int, handler: Callable[..., Any]) -> http.server.ThreadingHTTPServer:
    """A server on a port of this machine, or an end in a sentence where the port is taken."""
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        sys.exit(f"Port {port} cannot be used ({error.strerror}): name another, such as PORT=8001")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT, help="folder that gets _build/html")
    parser.add_argument(
        "--clean", action="store_true", help="read all pages; executed chapters count"
    )
    parser.add_argument(
        "--executed", type=Path, help="folder whose _build has the executed chapters"
    )
    parser.add_argument("--serve", type=int, metavar="PORT", help="serve the site afterwards")
    arguments = parser.parse_args()
    build = arguments.output.resolve() / "_build"
    executed = (arguments.executed or arguments.output).resolve() / "_build"
    if arguments.clean:
        for key in ("pages.txt", "site.txt"):
            (build / key).unlink(missing_ok=True)
    build.mkdir(parents=True, exist_ok=True)
    if arguments.serve is None:
        return 0 if build_site(build, executed) else 1
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(build / "html"))
    with listening(arguments.serve, handler) as server:
        if not build_site(build, executed):
            return 1
        print(f"Serving http://127.0.0.1:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A text of six megabytes that is already on the reader's machine: the prose of docstrings.

NumPy, SciPy, scikit-learn, SymPy, PyTorch and Matplotlib explain themselves in English, in their
docstrings and in the texts that they attach to compiled functions. :func:`read` reads those out of
the source files of the installed packages, without importing them:

- only prose is kept: no examples, no tables, no signatures, nothing beyond ASCII, lower case;
- no sentence occurs twice, however it is spaced or punctuated;
- a hash of the module's name puts all of a module into training, validation or test (90, 5, 5 %),
  and a held-out sentence that shares a run of 13 words with training is dropped.
"""

import ast
import contextlib
import gc
import hashlib
import inspect
import re
import warnings
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

#: The packages that are read: name to install -> name to import.
PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "scikit-learn": "sklearn",
    "sympy": "sympy",
    "torch": "torch",
    "matplotlib": "matplotlib",
}

# Directories of tests, and of other people's code.
_LEFT_OUT = {
    "tests",
    "test",
    "testing",
    "externals",
    "_vendor",
    "extern",
    "_vendored",
    "third_party",
}
_SHORTEST_LITERAL = 60  # characters
_RUN = 13  # words

# A sentence ends at a mark with white space after it.
_NEITHER_LETTER_NOR_SPACE = re.compile(r"[^A-Za-z ]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|cf|etc|vs|al|fig|eq|no|resp)\.$")


def installed() -> str:
    """The packages that are here, with their versions.

    Raises
    ------
    ModuleNotFoundError
        If there is none.
    """
    found = []
    for name, module in PACKAGES.items():
        if find_spec(module) is not None:
            # The part after + says how it was compiled, which changes no docstring.
            found.append(f"{name} {metadata.version(name).split('+')[0]}")
    if not found:
        raise ModuleNotFoundError(f"none of {', '.join(PACKAGES)} is installed here.")
    return ", ".join(found)


def read() -> dict[str, dict[str, list[str]]]:
    """The sentences by part ("train", "validation", "test") and module; takes half a minute."""
    with _no_search_for_circles():
        return split_by_module(
            (name, literal)
            for package in PACKAGES.values()
            for name, path in _modules(package)
            for literal in _literals(path)
        )


# --- reading --------------------------------------------------------------------------------------


def _modules(package: str) -> Iterator[tuple[str, Path]]:
    """Names and source files of the modules of ``package``, in alphabetical order."""
    spec = find_spec(package)
    for root in map(Path, (spec and spec.submodule_search_locations) or ()):
        for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).parts):
            parts = path.relative_to(root).with_suffix("").parts
            if not _LEFT_OUT.intersection(parts):
                yield ".".join((package, *parts)).removesuffix(".__init__"), path


@contextlib.contextmanager
def _no_search_for_circles() -> Iterator[None]:
    """Let nothing look for garbage meanwhile: what is read has no circles."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


def _literals(path: Path) -> list[str]:
    """The string literals of a source file that run over several lines, in order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in other people's strings
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return []
    # What `ast.walk` does, in a fraction of its time.
    found: list[tuple[int, int, str]] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant):
            text = node.value
            if isinstance(text, str) and len(text) > _SHORTEST_LITERAL and "\n" in text:
                found.append((node.lineno, node.col_offset, text))
            continue
        if isinstance(node, ast.JoinedStr):  # the words between what it formats are no literals
            waiting += [one for one in node.values if not isinstance(one, ast.Constant)]
            continue
        for child in vars(node).values():
            if isinstance(child, list):
                waiting += [one for one in child if isinstance(one, ast.AST)]
            elif isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                waiting.append(child)
    return [text for _, _, text in sorted(found)]


def prose(literal: str) -> Iterator[str]:
    r"""Yield the paragraphs of prose in a docstring, each on one line, in lower case.

    Lines that are indented alike and follow each other belong together. They are prose if they
    begin like a sentence and consist of at least five words, nearly all of them letters.

    >>> text = "Sum of all entries.\n\nx : array\n    What is to be added up, with care.\n\n>>> 1"
    >>> list(prose(text))
    ['what is to be added up, with care.']
    """
    block: list[str] = []
    indent = -1
    example = False
    for line in [*inspect.cleandoc(literal).splitlines(), ""]:
        stripped = line.strip()
        example = bool(stripped) and (example or stripped.startswith((">>>", "In [")))
        here = len(line) - len(line.lstrip())
        if block and (not stripped or example or here != indent or stripped.startswith(("-", "*"))):
            yield from _if_prose(" ".join(block))
            block = []
        if stripped and not example:
            indent = here
            block.append(stripped)


def _if_prose(paragraph: str) -> Iterator[str]:
    text = " ".join(paragraph.lstrip("-* ").split())
    if not text.isascii():
        return
    letters = len(_NEITHER_LETTER_NOR_SPACE.sub("", text))
    words = re.findall(r"[A-Za-z]+", text)
    if (
        len(words) >= 5
        and letters >= 0.85 * len(text)
        and sum(map(len, words)) >= 3 * len(words)
        and re.match(r"[A-Za-z`(\"']", text)
        and not re.search(r"[=<>{}\\|]{2}|::|\.\. ", text)
    ):
        yield text.lower()


def sentences_of(paragraph: str) -> list[str]:
    """Cut a paragraph after full stops, question and exclamation marks.

    >>> sentences_of("take one, e.g. the first. then stop.")
    ['take one, e.g. the first.', 'then stop.']
    """
    found: list[str] = []
    for piece in _SENTENCE_END.split(paragraph):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += f" {piece}"
        else:
            found.append(piece)
    return found


# --- splitting ------------------------------------------------------------------------------------


def split_by_module(literals: Iterable[tuple[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Deduplicated sentences by part and module, from pairs of a module's name and a literal."""
    parts: dict[str, dict[str, list[str]]] = {"train": {}, "validation": {}, "test": {}}
    for module, literal in literals:
        sentences = parts[part_of(module)].setdefault(module, [])
        for paragraph in prose(literal):
            sentences += sentences_of(paragraph)
    seen: set[tuple[str, ...]] = set()
    runs: set[int] = set()
    for part, modules in parts.items():
        for module, sentences in modules.items():
            kept = []
            for sentence in sentences:
                words = tuple(re.findall(r"[a-z]+", sentence))
                if len(words) < 3 or words in seen:
                    continue
                # Numbers stand for the runs; two runs share one too rarely to cost a sentence.
                here = {hash(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)}
                if part == "train":
                    runs |= here
                elif not runs.isdisjoint(here):
                    continue
                seen.add(words)
                kept.append(sentence)
            modules[module] = kept
        parts[part] = {module: kept for module, kept in modules.items() if kept}
    return parts


def part_of(module: str) -> str:
    """The part of a module: its name alone decides, so that no other module can move it."""
    place = int(hashlib.sha256(module.encode("utf-8")).hexdigest(), 16) % 20
    return {18: "validation", 19: "test"}.get(place, "train")

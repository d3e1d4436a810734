"""The text of the packages: prose alone, no sentence twice, nothing held out in training."""

import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from normtutor import data, package_text
from normtutor.pieces import Pieces, words_of

PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def text():
    return package_text.package_text()


@pytest.fixture(scope="module")
def corpus():
    return data.load_corpus()


def letters(sentence):
    return tuple(re.findall(r"[a-z]+", sentence))


def sentences_of(documents):
    return [sentence for document in documents for sentence in document.sentences]


# --- reading --------------------------------------------------------------------------------------

DOCSTRING = """Solve the equation for the unknown that is named.

    Parameters
    ----------
    x : array_like
        The values at which the function is
        evaluated, e.g. a list of them.

    Notes
    -----
    - Each item of a list stands alone, even without a blank line.
    - A second item says something else of equal length.

    >>> solve(x) and this sentence is an example and not prose at all
    Output that reads like prose is left out here too.

    After a blank line the text goes on as before.

    .. math:: \\alpha = \\beta and some more words that follow here
"""


def test_prose_is_kept_and_the_rest_left_out():
    assert list(package_text.prose(DOCSTRING)) == [
        "solve the equation for the unknown that is named.",
        "the values at which the function is evaluated, e.g. a list of them.",
        "each item of a list stands alone, even without a blank line.",
        "a second item says something else of equal length.",
        "after a blank line the text goes on as before.",
    ]


def test_literals_are_read_without_importing(tmp_path):
    words = "Several words that stand over two lines,\nlong enough for a docstring of prose."
    lines = [
        f'"""{words}"""',
        "raise SystemExit('this module must not run')",
        f'attach(f, """A text for a compiled function. {words}""")',
        'short = """one\ntwo"""',
        "line = 'A message on one line is no docstring, however long it may go on and on.'",
        # Nor are the words between formatted values.
        f"f\"\"\"{words} {{len('''{words} Inside.''')}} {words}\"\"\"",
    ]
    source = tmp_path / "module.py"
    source.write_text("\n".join(lines), encoding="utf-8")
    found = package_text._literals(source)
    assert found == [words, f"A text for a compiled function. {words}", f"{words} Inside."]
    source.write_text("this is not Python", encoding="utf-8")
    assert package_text._literals(source) == []


def module_in(part):
    return next(f"m{i}" for i in range(1000) if package_text.part_of(f"m{i}") == part)


def test_a_held_out_sentence_that_training_has_is_dropped():
    train, test = module_in("train"), module_in("test")
    run = "one two three four five six seven eight nine ten eleven twelve thirteen"
    parts = package_text.split_by_module(
        [
            (test, f"Begin: {run} end."),  # shares a run of 13 words
            (test, "The same sentence, in both parts, stands here."),
            (test, "This sentence stands in the test part alone."),
            (train, "the same sentence in both parts stands here"),
            (train, "The same sentence in both parts stands here!"),
            (train, f"Another beginning of {run} and another end."),
        ]
    )
    assert parts["test"] == {test: ["this sentence stands in the test part alone."]}
    assert len(parts["train"][train]) == 2
    assert parts["validation"] == {}


# --- the text as it is here -----------------------------------------------------------------------


def test_the_text_is_large_and_no_sentence_stands_twice(text):
    size, *held_out = (sum(map(len, sentences_of(getattr(text, part)))) for part in PARTS)
    assert size > 6e6
    assert all(0.02 < other / size < 0.1 for other in held_out)
    everything = [letters(s) for part in PARTS for s in sentences_of(getattr(text, part))]
    assert len(everything) == len(set(everything))


def test_no_module_is_in_two_parts(text):
    names = [document.name for part in PARTS for document in getattr(text, part)]
    assert len(names) == len(set(names))
    assert not any({"tests", "testing"} & set(name.split(".")) for name in names)


def test_the_note_speaks_only_where_the_text_is_another_one(text, monkeypatch):
    monkeypatch.setattr(package_text, "BOOK_SHA256", text.sha256)
    assert text.note == ""
    monkeypatch.setattr(package_text, "BOOK_SHA256", "another")
    assert text.versions in text.note
    assert "numbers differ" in text.note


def test_the_pinned_packages_hold_the_text_of_the_book(text):
    if text.versions == package_text.BOOK_VERSIONS:
        assert text.sha256 == package_text.BOOK_SHA256


def test_what_is_cached_comes_back_and_damage_does_no_harm(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMTUTOR_CACHE", str(tmp_path / "cache"))
    made = []

    def ask(key):
        def make():
            made.append(key)
            return {"train": [key]}

        return package_text.kept(make, "text", key)

    assert ask("a") == ask("a") == {"train": ["a"]} and made == ["a"]
    assert ask("b") == {"train": ["b"]} and made == ["a", "b"]
    for file in (tmp_path / "cache").glob("*.gz"):
        file.write_bytes(file.read_bytes()[:10])
    assert ask("a") == ask("a") == {"train": ["a"]} and made == ["a", "b", "a"]
    (tmp_path / "file").touch()
    monkeypatch.setenv("NORMTUTOR_CACHE", str(tmp_path / "file"))  # where nothing can be written
    assert ask("a") == ask("a") == {"train": ["a"]} and made == ["a", "b", "a", "a", "a"]


def test_of_two_processes_that_ask_at_once_one_reads_the_text(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMTUTOR_CACHE", str(tmp_path))
    code = (
        "import time; from pathlib import Path; from normtutor.package_text import kept\n"
        "def make():\n"
        "    with Path('made').open('a') as file: file.write('once ')\n"
        "    time.sleep(1)\n"
        "    return {'train': []}\n"
        "assert kept(make, 'text', 'a') == {'train': []}"
    )
    asking = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) for _ in range(3)]
    assert [one.wait() for one in asking] == [0, 0, 0]
    assert (tmp_path / "made").read_text() == "once "


# --- pieces ---------------------------------------------------------------------------------------


def test_pieces_give_the_sentence_back():
    sentences = ["the cat sat on the mat, 3 times.", "the hat of the cat"]
    pieces = Pieces.learn(sentences, 12)
    for sentence in (*sentences, "a new théâtre_of 42 bats!?"):
        assert "".join(pieces(sentence)) == f" {sentence}"
    assert " the" in pieces("the cat")
    assert Pieces.learn([], 3).merges == []


def test_pieces_are_those_of_the_plain_algorithm():
    """Against the textbook loop, which counts all pairs anew after each merge."""
    rng = np.random.default_rng(0)
    sentences = ["".join(rng.choice(list("aab c"), size=30)) for _ in range(20)]
    words = [f"|{'|'.join(word)}|" for sentence in sentences for word in words_of(sentence)]
    learned = Pieces.learn(sentences, 15)
    assert len(learned.merges) == 15
    for merge in learned.merges:
        counts = Counter(pair for word in words for pair in pairwise(word[1:-1].split("|")))
        assert merge == max(counts, key=lambda pair: (counts[pair], pair))
        apart = re.compile(rf"(?<=\|){merge[0]}\|{merge[1]}(?=\|)")
        words = [apart.sub("".join(merge), word) for word in words]
    cut = [piece for sentence in sentences for piece in learned(sentence)]
    assert cut == [piece for word in words for piece in word[1:-1].split("|")]


# --- the corpus -----------------------------------------------------------------------------------


def test_the_corpus_is_what_the_experiments_need(corpus, text):
    assert 1000 <= len(corpus.vocabulary) <= 1024
    assert all(len(corpus.topics[part]) == len(getattr(corpus, part)) for part in PARTS)
    tokens = np.concatenate([s for d in corpus.test for s in d])
    assert (tokens == data.UNKNOWN).mean() < 0.001
    decoded = corpus.vocabulary.decode(corpus.train[0][0][1:-1])
    assert decoded in f" {text.train[0].sentences[0]}"


@pytest.mark.parametrize("level", ["piece", "word", "character"])
def test_a_corpus_from_the_cache_is_the_one_that_was_cut(level, tmp_path, monkeypatch):
    monkeypatch.setenv("NORMTUTOR_CACHE", str(tmp_path))
    sentences = "the cat sat on the mat", "a hat of the cat is on the mat"
    document = package_text.Document("a.b", "a", sentences)
    small = package_text.PackageText("versions", "digest", *[(document,)] * 3)

    def decoded(longest: int) -> list[str]:
        corpus = data._cut_by_document.__wrapped__(small, level, 40, 1, 2, longest)
        return [corpus.vocabulary.decode(s[1:-1]).strip() for s in corpus.test[0]]

    assert decoded(60) == [*sentences]
    assert decoded(3) != [*sentences]  # other settings
    monkeypatch.delattr(data, "_tokenised")
    assert decoded(60) == [*sentences]


def test_a_text_of_ones_own_is_cut_into_pieces_too(tmp_path):
    path = tmp_path / "gedicht.txt"
    path.write_text("Über allen Gipfeln ist Ruh und Stille.\n\n" * 400, encoding="utf-8")
    corpus = data.load_corpus(path, pieces=60)
    assert len(corpus.vocabulary) <= 60
    decoded = corpus.vocabulary.decode(corpus.test[0][0][1:-1])
    assert decoded == " über allen gipfeln ist ruh und stille."
    assert "gedicht.txt" in corpus.note
    assert len(corpus.topics["train"]) == len(corpus.train) > 1

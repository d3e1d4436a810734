"""The text of the packages: prose alone, no sentence twice, nothing held out in training."""

import re
import subprocess
import sys
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


def shared_sentences(text):
    """How many sentences stand twice, within a part or in two."""
    everything = [letters(s) for part in PARTS for s in sentences_of(getattr(text, part))]
    return len(everything) - len(set(everything))


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
    source = tmp_path / "module.py"
    source.write_text(
        '"""A docstring over two lines\n'
        'that is long enough to be taken up, because it has more than sixty letters."""\n'
        "raise SystemExit('this module must not run')\n"
        'attach(f, """A text that is attached to a compiled function,\n'
        'which is how NumPy and PyTorch do it for their functions in C.""")\n'
        'short = """one\ntwo"""\n'
        "line = 'A message on one line is no docstring, however long it may go on and on.'\n",
        encoding="utf-8",
    )
    found = package_text._literals(source)
    assert [text.split()[0:2] for text in found] == [["A", "docstring"], ["A", "text"]]
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
    size = sum(map(len, sentences_of(text.train)))
    assert size > 6e6
    for part in (text.validation, text.test):
        held_out = sum(map(len, sentences_of(part)))
        assert 0.02 < held_out / size < 0.1
    assert shared_sentences(text) == 0


def test_the_check_for_repeated_sentences_can_fail(text):
    class Mixed:
        train, validation = text.train, text.validation
        test = (*text.test, text.train[0])

    assert shared_sentences(Mixed) == len(text.train[0].sentences)


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
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
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


def test_pieces_are_those_of_the_plain_algorithm():
    """Against the textbook loop, which counts all pairs anew after each merge."""
    rng = np.random.default_rng(0)
    sentences = ["".join(rng.choice(list("aab c"), size=30)) for _ in range(20)]
    words = [list(word) for sentence in sentences for word in words_of(sentence)]
    expected = []
    for _ in range(15):
        counts = {}
        for word in words:
            for pair in pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        best = max(counts, key=lambda pair: (counts[pair], pair))
        expected.append(best)
        for index, word in enumerate(words):
            joined, i = [], 0
            while i < len(word):
                step = 2 if tuple(word[i : i + 2]) == best else 1
                joined.append("".join(word[i : i + step]))
                i += step
            words[index] = joined
    learned = Pieces.learn(sentences, 15)
    assert learned.merges == expected
    assert [learned._word(w) for s in sentences for w in words_of(s)] == words


# --- the corpus -----------------------------------------------------------------------------------


def test_the_corpus_has_the_size_and_the_topics_that_the_experiments_need(corpus):
    assert 1000 <= len(corpus.vocabulary) <= 1024
    for part in PARTS:
        assert len(corpus.topics[part]) == len(getattr(corpus, part))
    sentences = {}
    for topic, document in zip(corpus.topics["train"], corpus.train, strict=True):
        sentences[topic] = sentences.get(topic, 0) + len(document)
    assert sum(count >= 160 for count in sentences.values()) > 50
    tokens = np.concatenate([s for d in corpus.test for s in d])
    assert (tokens == data.UNKNOWN).mean() < 0.001


def test_the_corpus_decodes_to_readable_text(corpus, text):
    first = text.train[0].sentences[0]
    assert corpus.vocabulary.decode(corpus.train[0][0][1:-1]) in f" {first}"


def test_a_corpus_from_the_cache_is_the_one_that_was_cut(tmp_path, monkeypatch):
    def documents(*texts: str) -> tuple[package_text.Document, ...]:
        return tuple(
            package_text.Document(f"m{i}", f"topic {i}", (text, f"{text} and again {text}"))
            for i, text in enumerate(texts)
        )

    def parts_of(corpus: data.Corpus) -> list:
        parts = (corpus.train, corpus.validation, corpus.test)
        return [[[s.tolist() for s in document] for document in part] for part in parts]

    small = package_text.PackageText(
        *("versions", "digest"),
        documents("the cat sat on the mat", "a hat of the cat is on the mat"),
        documents("the mat of the cat"),
        documents("the hat sat on a zebra"),
    )
    monkeypatch.setenv("NORMTUTOR_CACHE", str(tmp_path))
    tokenised = data._tokenised
    for level in ("piece", "word", "character"):
        settings = (small, level, 40, 1, 2, 12)
        cut = data._cut_by_document.__wrapped__(*settings)
        monkeypatch.delattr(data, "_tokenised")
        kept = data._cut_by_document.__wrapped__(*settings)
        monkeypatch.setattr(data, "_tokenised", tokenised, raising=False)
        assert parts_of(kept) == parts_of(cut)
        assert (kept.name, kept.sha256, kept.note) == (cut.name, cut.sha256, cut.note)
        assert kept.topics == cut.topics
        assert kept.test[0][0].dtype == cut.test[0][0].dtype
        assert kept.vocabulary.tokens == cut.vocabulary.tokens
        for corpus in (kept, cut):
            sentence = corpus.vocabulary.encode(["the", " cat", "?"])
            assert corpus.vocabulary.decode(sentence) == cut.vocabulary.decode(sentence)
        other = data._cut_by_document.__wrapped__(small, level, 40, 1, 2, 3)  # other settings
        assert parts_of(other) != parts_of(cut)
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged")
    assert parts_of(data._cut_by_document.__wrapped__(*settings)) == parts_of(cut)


def test_a_text_of_ones_own_is_cut_into_pieces_too(tmp_path):
    path = tmp_path / "gedicht.txt"
    path.write_text("Über allen Gipfeln ist Ruh und Stille.\n\n" * 400, encoding="utf-8")
    corpus = data.load_corpus(path, pieces=60)
    assert len(corpus.vocabulary) <= 60
    assert (
        corpus.vocabulary.decode(corpus.test[0][0][1:-1])
        == " über allen gipfeln ist ruh und stille."
    )
    assert "gedicht.txt" in corpus.note
    assert len(corpus.topics["train"]) == len(corpus.train) > 1


def test_the_words_between_formatted_values_are_no_literals(tmp_path):
    words = "Several words that stand over two lines,\nlong enough for a docstring of prose."
    path = tmp_path / "module.py"
    path.write_text(
        f'"""{words}"""\nname = "x"\nf"""{words} {{name}} {words}"""\n'
        f"f\"\"\"{{len('''{words} Inside.''')}}\"\"\"\n"
    )
    assert package_text._literals(path) == [words, f"{words} Inside."]

"""The text of the packages: prose alone, no sentence twice, nothing held out in training."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from normtutor_studies import corpus
from normtutor_studies.corpus import Pieces, words_of

PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def text():
    return corpus.load_corpus()


def letters(sentence):
    return tuple(re.findall(r"[a-z]+", sentence))


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
    assert list(corpus.prose(DOCSTRING)) == [
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
    found = corpus._literals(source)
    assert found == [words, f"A text for a compiled function. {words}", f"{words} Inside."]
    source.write_text("this is not Python", encoding="utf-8")
    assert corpus._literals(source) == []


def module_in(part):
    return next(f"m{i}" for i in range(1000) if corpus.part_of(f"m{i}") == part)


def test_a_held_out_sentence_that_training_has_is_dropped():
    train, test = module_in("train"), module_in("test")
    run = "one two three four five six seven eight nine ten eleven twelve thirteen"
    parts = corpus.split_by_module(
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


def test_the_text_is_large_and_in_three_parts_that_share_no_sentence(text):
    size, *held_out = (sum(len(s) for d in getattr(text, part) for s in d) for part in PARTS)
    assert size > 1e6
    assert all(0.02 < other / size < 0.1 for other in held_out)
    everything = [s.tobytes() for part in PARTS for d in getattr(text, part) for s in d]
    assert len(set(everything)) > 0.97 * len(everything)  # long ones are cut, and may then be alike


def test_the_corpus_is_what_the_experiments_need(text):
    assert 1000 <= len(text.vocabulary) <= 1024
    tokens = np.concatenate([s for d in text.test for s in d])
    assert (tokens == corpus.UNKNOWN).mean() < 0.001
    lengths = [len(s) - 2 for d in text.train for s in d]
    assert min(lengths) >= 1 and max(lengths) == 62
    assert all(s[0] == s[-1] == corpus.END for s in text.train[0])


SENTENCES = "the cat sat on the mat", "a hat of the cat is on the mat"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Two sentences for a text; how often it was read."""
    monkeypatch.setenv("NORMTUTOR_CACHE", str(tmp_path / "cache"))
    read = []

    def two_sentences():
        read.append(1)
        return {part: {"module": [*SENTENCES]} for part in PARTS}

    monkeypatch.setattr(corpus, "read", two_sentences)
    return read


def load(**settings):
    return corpus.load_corpus.__wrapped__(shortest=2, **settings)


@pytest.mark.parametrize("level", ["piece", "character"])
def test_a_text_is_read_once_and_comes_back_as_it_was_cut(level, small):
    for _ in range(2):
        cut = load(level=level)
        decoded = [cut.vocabulary.decode(s[1:-1]).strip() for s in cut.test[0]]
        known = [s if level == "piece" else s.translate(RARE) for s in SENTENCES]
        assert decoded == known
    assert small == [1]
    assert len(load(level=level, longest=3).test[0][0]) == 5
    assert small == [1]


# A character that training holds less than three times.
RARE = str.maketrans(
    {c: "<unk>" for c in set("".join(SENTENCES)) if "".join(SENTENCES).count(c) < 3}
)


def test_where_nothing_can_be_written_a_text_is_read_each_time(small, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NORMTUTOR_CACHE", str(tmp_path / "file"))
    assert len(load().train[0]) == 2
    assert len(load().train[0]) == 2
    assert small == [1, 1]


def test_the_vocabulary_is_that_of_the_training_part():
    vocabulary = corpus.Vocabulary.learn([["b", "a", "b"], ["c", "a"]], min_count=2)
    assert vocabulary.tokens == (*corpus.SPECIAL, "a", "b")
    numbers = vocabulary.encode(["b", "c"])
    assert numbers.tolist() == [corpus.END, 4, corpus.UNKNOWN, corpus.END]
    assert vocabulary.decode(numbers) == "<s>b<unk><s>"


@pytest.mark.parametrize(
    "settings", [{"level": "byte"}, {"shortest": 0}, {"shortest": 9, "longest": 8}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=r"level|shortest"):
        corpus.load_corpus(**settings)


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

"""Settings that several files of these tests share."""

import pytest

from normtutor.grading import answers


@pytest.fixture
def patient(monkeypatch):
    """What computes is stopped by what it computes: no clock, which a busy machine would move."""
    monkeypatch.setattr(answers, "PATIENCE", 1000)

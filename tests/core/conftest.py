"""The same random numbers for each test, and the style of the book's figures."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    """What a test draws does not depend on the tests before it."""
    torch.manual_seed(0)


@pytest.fixture
def book_style():
    """Draw as the book does, and leave nothing open."""
    import matplotlib.pyplot as plt
    from normtutor_studies import plotting

    with plt.rc_context():
        plotting.use_book_style()
        yield
    plt.close("all")

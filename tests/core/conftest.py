"""The style of the book's figures, for the tests that draw."""

import pytest


@pytest.fixture
def book_style():
    """Draw as the book does, and leave nothing open."""
    import matplotlib.pyplot as plt
    from normtutor_studies import plotting

    with plt.rc_context():
        plotting.use_book_style()
        yield
    plt.close("all")

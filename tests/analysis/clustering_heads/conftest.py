"""Fixtures of the tests of clustering heads."""

import pytest

from dynamics import SparseSettings, simulate


@pytest.fixture(scope="session")
def tiny():
    """A short training of four small networks, seven frames; not to be changed in
    place."""
    settings = SparseSettings(length=6, sparsity=2, hidden=6, data=64, batch=16)
    return simulate(settings, runs=4, steps=24, every=4)

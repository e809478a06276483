"""Fourier content of embeddings: Parseval, planted frequencies, and what it does not
depend on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.structures import fourier
from dynamics import ParticleSettings, simulate
from tests.polygons import polygon


@given(
    n=st.integers(2, 12),
    dim=st.integers(1, 4),
    seed=st.integers(0, 99),
    size=st.sampled_from([1e-200, 1.0, 1e200]),
)
def test_shares_are_those_of_the_definition_and_obey_parseval(n, dim, seed, size):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((3, n, dim)) + 5
    shares = fourier.power_fractions(size * x)
    assert shares.shape == (3, n // 2)
    assert_allclose(shares.sum(axis=-1), 1, rtol=1e-12)
    centred = x[1] - x[1].mean(axis=0)
    both = np.square(np.abs(np.fft.fft(centred, axis=0))).sum(
        axis=1
    )  # at k and at n - k
    power = np.bincount(np.minimum(np.arange(n), n - np.arange(n)), both)
    assert_allclose(power.sum() / n, np.square(centred).sum(), rtol=1e-10)
    assert_allclose(shares[1], power[1:] / power.sum(), atol=1e-12)
    turn = np.linalg.qr(generator.standard_normal((dim, dim)))[0]
    assert_allclose(fourier.power_fractions(x @ turn - 3), shares, atol=1e-12)


@pytest.mark.parametrize("n", [5, 8, 17])
def test_planted_frequencies_are_found(n):
    for k in fourier.fourier_frequencies(n):
        shares = fourier.power_fractions(polygon(n, k))
        assert_allclose(shares, np.eye(n // 2)[k - 1], atol=1e-12)
        assert fourier.dominant_frequency(shares) == k
        assert_allclose(fourier.effective_frequencies(shares), 1)
    if n > 5:
        both = np.concatenate([polygon(n, 1), polygon(n, 3)], axis=1)
        assert_allclose(fourier.effective_frequencies(fourier.power_fractions(both)), 2)
        assert_allclose(
            fourier.power_fractions(polygon(n, 1) + 2 * polygon(n, 3))[[0, 2]],
            [0.2, 0.8],
        )


def test_one_point_has_no_frequency():
    shares = fourier.power_fractions(np.full((4, 6, 2), 0.1))
    assert np.isnan(shares).all()
    assert_array_equal(fourier.dominant_frequency(shares), 0)
    with pytest.raises(ValueError, match="found 1 token"):
        fourier.power_fractions(np.zeros((1, 2)))


def test_spectrum_of_a_trajectory_ends_where_a_run_diverged():
    trajectory = simulate(ParticleSettings(n=6), runs=2, steps=4)
    trajectory["last_step"][1] = 2
    result = fourier.embedding_spectrum(trajectory)
    assert result["power_fraction"].dims == ("run", "step", "frequency")
    assert_allclose(
        result["power_fraction"][0],
        fourier.power_fractions(trajectory["embedding"][0].values),
    )
    assert np.isfinite(result["dominant_fraction"]).sum("step").values.tolist() == [
        5,
        3,
    ]
    assert (result["dominant_frequency"][1] > 0).values.tolist() == [
        True,
        True,
        True,
        False,
        False,
    ]

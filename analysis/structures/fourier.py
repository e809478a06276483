"""Fourier components of embeddings over Z_N.

Token i represents the number i modulo N. The discrete Fourier transform over tokens of
a centred embedding x,

    c_k = sum_i x_i exp(-2 pi i k i / N), a vector with one entry per axis,

has the power |c_k|² summed over axes, which does not depend on rotations. Frequencies k
and -k are taken together, so that k is 1 to N/2; k = 0 is the mean, which centring
removes. Fractions of the power sum to 1 (Parseval). The effective number of frequencies
is the exponential of their entropy: 1 for a single one, m for m of equal power.

All values are dimensionless; NaN means that all tokens are in one point.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.structures.embedding_arrays import centred_unit_norm, embedding_variable
from dynamics.trajectory.diverged import valid_frames


def fourier_frequencies(n: int) -> np.ndarray:
    """The frequencies of N tokens, 1 to N/2: (frequency,)."""
    return np.arange(1, n // 2 + 1)


def power_fractions(embedding: np.ndarray) -> np.ndarray:
    """Fraction of the power at each frequency.

    Parameters
    ----------
    embedding : array, shape (..., token, axis)

    Returns
    -------
    array, shape (..., frequency)
        At the frequencies 1 to N/2; NaN if all tokens are in one point.

    Raises
    ------
    ValueError
        For a single token.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.structures import power_fractions
    >>> angle = 2 * np.pi * 2 * np.arange(5) / 5
    >>> power_fractions(np.stack([np.cos(angle), np.sin(angle)], axis=-1)).round(6)
    array([0., 1.])
    """
    x = centred_unit_norm(embedding)
    n = x.shape[-2]
    if n < 2:
        raise ValueError("embedding: found 1 token, expected at least 2")
    coefficients = np.fft.rfft(x, axis=-2)[..., 1:, :]
    power = (coefficients.real**2 + coefficients.imag**2).sum(axis=-1) / n
    both = np.where(
        2 * fourier_frequencies(n) == n, 1.0, 2.0
    )  # k and -k, which are the same for N/2
    one_point = np.all(x == 0, axis=(-2, -1), keepdims=True)[..., 0]
    return np.where(one_point, np.nan, both * power)


def effective_frequencies(fractions: np.ndarray) -> np.ndarray:
    """The exponential of the entropy of fractions of the power (..., frequency):
    (...)."""
    logs = np.log(fractions, out=np.zeros_like(fractions), where=fractions > 0)
    return np.exp(-(fractions * logs).sum(axis=-1))


def dominant_frequency(fractions: np.ndarray) -> np.ndarray:
    """The frequency of the largest of the fractions (..., frequency), the first of
    equal ones: (...); 0 for NaN."""
    return np.where(
        np.isfinite(fractions).all(axis=-1),
        np.nan_to_num(fractions).argmax(axis=-1) + 1,
        0,
    )


def embedding_spectrum(trajectory: xr.Dataset) -> xr.Dataset:
    """Fourier components of the embedding in every frame.

    Parameters
    ----------
    trajectory : xarray.Dataset

    Returns
    -------
    xarray.Dataset
        By run and step: `power_fraction` (frequency), `dominant_frequency`,
        `dominant_fraction` and `effective_frequencies`; NaN, and frequency 0, in the
        frames after a run diverged.

    Examples
    --------
    >>> from analysis.structures import embedding_spectrum
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7), runs=2, steps=4, progress=False)
    >>> embedding_spectrum(trajectory)["power_fraction"].sum("frequency").values.round(6)[0]
    array([1., 1., 1., 1., 1.])
    """
    x = (
        embedding_variable(trajectory, "power_fractions")
        .transpose("run", "step", "token", "axis")
        .values
    )
    fractions = np.where(
        valid_frames(trajectory).values[..., None], power_fractions(x), np.nan
    )
    dims = ("run", "step")
    effective = effective_frequencies(fractions)
    data = {
        "power_fraction": (
            (*dims, "frequency"),
            fractions,
            dimensionless("fraction of the power at a frequency"),
        ),
        "dominant_frequency": (
            dims,
            dominant_frequency(fractions),
            dimensionless("dominant frequency, 0 for none"),
        ),
        "dominant_fraction": (
            dims,
            fractions.max(axis=-1),
            dimensionless("fraction of the dominant frequency"),
        ),
        "effective_frequencies": (
            dims,
            effective,
            dimensionless("effective number of frequencies"),
        ),
    }
    frequencies = fourier_frequencies(x.shape[-2])
    return xr.Dataset(
        data,
        {"frequency": ("frequency", frequencies, dimensionless("k of ±k, in Z_N"))},
    )

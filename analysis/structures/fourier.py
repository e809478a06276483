"""Which frequencies of Z_N an embedding is made of.

Token i stands for the number i modulo N. The discrete Fourier transform over tokens of a centred embedding x,

    c_k = sum_i x_i exp(-2 pi i k i / N), a vector with one entry an axis,

has the power |c_k|² summed over axes, which is the same however the axes are turned. Frequencies k and -k go together,
so that k runs from 1 to N/2; k = 0 is the mean, which centring has removed. Shares of the power sum to 1 (Parseval).
The effective number of frequencies is the exponential of their entropy: 1 for one alone, m for m of equal power.

Array functions take (..., token, axis); the labelled one takes a trajectory. All values are dimensionless; NaN means
that all tokens are in one point, which has no frequency. What is no embedding of finite real numbers raises ValueError.
"""

import numpy as np
import xarray as xr

from analysis.structures.circles_and_grids import check_embedding, rescale_by_power_of_two
from dynamics.trajectory.diverged import valid_frames


def fourier_frequencies(n: int) -> np.ndarray:
    """The frequencies of N tokens that differ up to sign, 1 to N/2: (frequency,)."""
    return np.arange(1, n // 2 + 1)


def centred_unit_norm(embedding: np.ndarray) -> np.ndarray:
    """The embedding centred and of Frobenius norm 1, zero where all tokens are in one point: (..., token, axis)."""
    x = rescale_by_power_of_two(check_embedding(embedding))
    x = rescale_by_power_of_two(
        x - x[..., :1, :]
    )  # tokens in one point become exact zeros, which minus the mean are not
    x = x - x.mean(axis=-2, keepdims=True)
    size = np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    return np.divide(x, size, out=np.zeros_like(x), where=size > 0)


def power_fractions(embedding: np.ndarray) -> np.ndarray:
    """Share of the power at each of `frequencies(N)`: (..., token, axis) -> (..., frequency).

    Raises ValueError for a single token, which has none.
    """
    x = centred_unit_norm(embedding)
    n = x.shape[-2]
    if n < 2:
        raise ValueError("embedding: found 1 token, expected at least 2")
    coefficients = np.fft.rfft(x, axis=-2)[..., 1:, :]
    power = (coefficients.real**2 + coefficients.imag**2).sum(axis=-1) / n
    both = np.where(2 * fourier_frequencies(n) == n, 1.0, 2.0)  # k and -k, which for N/2 are one
    shapeless = np.all(x == 0, axis=(-2, -1), keepdims=True)[..., 0]
    return np.where(shapeless, np.nan, both * power)


def effective_frequencies(shares: np.ndarray) -> np.ndarray:
    """The exponential of the entropy of shares (..., frequency): (...)."""
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.exp(-(shares * logs).sum(axis=-1))


def dominant_frequency(shares: np.ndarray) -> np.ndarray:
    """The frequency with the largest of the shares (..., frequency), the first of equal ones: (...); 0 for none."""
    return np.where(np.isfinite(shares).all(axis=-1), np.nan_to_num(shares).argmax(axis=-1) + 1, 0)


def embedding_spectrum(trajectory: xr.Dataset) -> xr.Dataset:
    """By run and step: `power_share` (frequency), `dominant_frequency`, `dominant_share`, `effective_frequencies`.

    NaN, and frequency 0, in the frames of a run after it diverged.
    """
    x = trajectory["embedding"].transpose("run", "step", "token", "axis").values
    valid = valid_frames(trajectory).values
    shares = np.where(valid[..., None], power_fractions(x), np.nan)
    dims = ("run", "step")
    return xr.Dataset(
        {
            "power_share": ((*dims, "frequency"), shares, _named("share of the power at a frequency of Z_N")),
            "dominant_frequency": (
                dims,
                dominant_frequency(shares),
                _named("frequency with the largest share, 0 for none"),
            ),
            "dominant_share": (dims, shares.max(axis=-1), _named("share of the dominant frequency")),
            "effective_frequencies": (dims, effective_frequencies(shares), _named("effective number of frequencies")),
        },
        {"frequency": ("frequency", fourier_frequencies(x.shape[-2]), _named("k of ±k, in Z_N"))},
    )


def _named(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}

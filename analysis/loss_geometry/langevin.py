"""Chains of stochastic gradient Langevin dynamics around given parameters, all as one
batch.

A chain starts at the parameters w* and follows

    w <- w - eps/2 (beta_n grad L(w) + gamma (w - w*)) + sqrt(eps) xi,   xi ~ N(0, 1),

so that it samples, for small eps, the density exp(-beta_n L(w) - gamma |w - w*|^2 / 2)
(Lau et al. 2023, arXiv 2308.12108)."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import torch

from dynamics.networks.derivatives import mapped_gradient
from dynamics.settings import check_integer, check_real

ChainLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A loss of flat parameters (parameter,) on some examples, given by their indices."""


@dataclasses.dataclass(frozen=True)
class ChainOptions:
    """How chains sample. All values are dimensionless.

    Raises
    ------
    SettingsError
        If a value is not allowed.

    Examples
    --------
    >>> ChainOptions(draws=100).draws
    100
    """

    chains: int = 8
    """Number of chains at each frame, each with random numbers of its own."""
    draws: int = 400
    """Number of steps of a chain that are averaged over."""
    burn_in: int = 200
    """Number of steps before them."""
    step_size: float | None = None
    """Step size eps of a chain. Default: a fifth of 1 / (beta_n h + gamma) with the
    largest eigenvalue h of the Hessian at the frame, so that the variance along any
    direction is at most a twentieth too large; divided by 4, up to six times, while a
    chain diverges."""
    localisation: float = 100.0
    """Strength gamma of the attraction to the frame's parameters."""
    temperature: float | None = None
    """Inverse temperature beta_n, the factor of the mean loss. Default: n / log n for n
    examples."""
    batch: int = 0
    """Number of examples of a step, drawn with replacement, the same for all chains. 0:
    all."""
    chain_seed: int = 0
    """Seed of the random numbers of the chains."""

    def __post_init__(self) -> None:
        check_integer("chains", self.chains, 1, 10**6)
        check_integer("draws", self.draws, 2, 10**9)
        check_integer("burn_in", self.burn_in, 0, 10**9)
        check_integer("batch", self.batch, 0, 10**9)
        check_integer("chain_seed", self.chain_seed, 0, 2**62)
        check_real("localisation", self.localisation)
        for name in ("step_size", "temperature"):
            if getattr(self, name) is not None:
                check_real(name, getattr(self, name), positive=True)

    def beta_n(self, examples: int) -> float:
        """The inverse temperature for a number of examples."""
        if self.temperature is not None:
            return self.temperature
        return examples / math.log(max(examples, 2))


def sample_losses(
    loss: ChainLoss,
    center: torch.Tensor,
    examples: int,
    options: ChainOptions,
    step_size: float,
    free: torch.Tensor | None = None,
    stream: int = 0,
    halves: int = 0,
) -> np.ndarray:
    """The excess of the loss over that at the center, at each draw of each chain.

    Parameters
    ----------
    loss : callable
        ``loss(row, indices)``: the mean loss at flat parameters (parameter,) on the
        examples with the given indices (example,).
    center : torch.Tensor
        The parameters w* (parameter,).
    examples : int
        Number of examples n.
    options : ChainOptions
    step_size : float
        Step size eps.
    free : torch.Tensor, optional
        Which parameters move, (parameter,) bool. Default: all.
    stream : int
        Number that gives chains of another frame other random numbers.
    halves : int
        If positive, only so many of the chains, with two steps of half the size in place
        of each step, whose noise adds up to that of the step.

    Returns
    -------
    numpy.ndarray
        (chain, draw) float64: L(w) - L(w*), both on the examples of the step. Not finite
        from the step on in which a chain diverges.

    Examples
    --------
    >>> def loss(row, indices): return row.square().sum() / 2
    >>> options = ChainOptions(localisation=0.0, temperature=100.0)
    >>> excess = sample_losses(loss, torch.zeros(4).double(), 1000, options, 1e-3)
    >>> excess.shape, bool(abs(100.0 * excess.mean() - 4 / 2) < 1)
    ((8, 400), True)
    """
    seed = np.random.SeedSequence([options.chain_seed, stream]).generate_state(1)
    generator = torch.Generator().manual_seed(int(seed[0]))
    derivative = mapped_gradient(loss, (0, None))
    chains = halves or options.chains
    rows = center.repeat(chains, 1)
    parts = torch.Generator().manual_seed(int(seed[0]) + 1)
    moving = torch.ones_like(center) if free is None else free.to(center)
    if halves:
        step_size = step_size / 2
    noise_scale = math.sqrt(step_size) * moving
    drift_scale = step_size / 2 * moving
    beta_n = options.beta_n(examples)
    everything = torch.arange(examples)
    reference = loss(center, everything)
    excess = np.empty((chains, options.draws))
    shape = (options.chains, len(center))
    for step in range(options.burn_in + options.draws):
        indices = everything
        if 0 < options.batch < examples:
            indices = torch.randint(examples, (options.batch,), generator=generator)
            reference = loss(center, indices)
        values, gradients = derivative(rows, indices)
        if step >= options.burn_in:
            excess[:, step - options.burn_in] = (values - reference).double().numpy()
        noise = torch.randn(shape, generator=generator, dtype=rows.dtype)[:chains]
        noises = [noise]
        if halves:
            other = torch.randn(rows.shape, generator=parts, dtype=rows.dtype)
            noises = [(noise + other) / math.sqrt(2), (noise - other) / math.sqrt(2)]
        for part, noise in enumerate(noises):
            if part:
                _, gradients = derivative(rows, indices)
            drift = beta_n * gradients + options.localisation * (rows - center)
            rows = rows - drift_scale * drift + noise_scale * noise
    return excess


def effective_draws(series: np.ndarray) -> np.ndarray:
    """The effective sample sizes of chains (chain, draw): draws over the sum of their
    autocorrelations, up to the first pair of lags with a negative sum (Geyer 1992).

    Examples
    --------
    >>> independent = np.random.default_rng(0).normal(size=(4, 2000))
    >>> bool((effective_draws(independent) > 1200).all())
    True
    """
    draws = series.shape[-1]
    centred = series - series.mean(axis=-1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * draws, axis=-1)
    products = np.fft.irfft(np.abs(spectrum) ** 2, axis=-1)[..., :draws]
    variance = np.where(products[..., :1] > 0, products[..., :1], 1.0)
    correlation = products / variance
    pairs = correlation[..., : draws // 2 * 2].reshape(*series.shape[:-1], -1, 2)
    sums = pairs.sum(axis=-1)
    positive = np.minimum.accumulate(sums > 0, axis=-1)
    time = 2 * np.where(positive, sums, 0.0).sum(axis=-1) - 1
    return draws / np.maximum(time, 1.0)

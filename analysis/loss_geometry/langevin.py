"""Chains of stochastic gradient Langevin dynamics around given parameters, all as one
batch.

A chain starts at the parameters w* and follows

    w <- w - eps/2 (beta_n grad L(w) + gamma (w - w*)) + sqrt(eps) xi,   xi ~ N(0, 1),

so that it samples, for small eps, the density exp(-beta_n L(w) - gamma |w - w*|^2 / 2)
(Lau et al. 2023, arXiv 2308.12108)."""

import math
from collections.abc import Callable

import numpy as np
import torch

from analysis.loss_geometry.chain_options import ChainOptions
from dynamics.networks.derivatives import mapped_gradient

ChainLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A loss of flat parameters (parameter,) on some examples, given by their indices."""


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

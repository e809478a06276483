"""docs/analyses/llc.md for quadratic losses, whose chains are Gaussian: their moments at
each step are known."""

import functools
import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.loss_geometry import ChainOptions, learning_coefficients
from dynamics import ModelFile, open_trajectory, record
from tests.twins.differences import examples, same

SIZES = {"a": 3, "b": 2}
FRAMES = 2


def moments(curvatures, slopes, step_size, beta, pull, times):
    """The mean of beta (L(w) - L(w*)) at some steps of a chain, and the covariance
    between them; by coordinate L - L* = h u² / 2 + b u."""
    mean, covariance = np.zeros(len(times)), np.zeros((len(times), len(times)))
    times = np.array(times)
    apart, first = np.abs(times[:, None] - times), np.minimum(times[:, None], times)
    for h, b in zip(curvatures, slopes, strict=True):
        rate = beta * h + pull
        kept = 1 - step_size * rate / 2
        u = -beta * b / rate * (1 - kept**times)
        variance = step_size / (1 - kept**2)
        c = variance * (1 - kept ** (2 * first)) * kept**apart
        mean += h / 2 * (np.diag(c) + u**2) + b * u
        along = h * u + b
        covariance += h**2 / 2 * c**2 + np.outer(along, along) * c
    return beta * mean, beta**2 * covariance


def effective(chain):
    """Draws over the sum of autocorrelations, up to the first pair of lags with a
    negative sum."""
    n = len(chain)
    x = chain - chain.mean()
    if not x.any():
        return float(n)

    def correlation(lag):
        if lag >= n:
            return 0.0
        return x[: n - lag] @ x[lag:] / (x @ x)

    whole, lag = -1.0, 0
    while lag < n:
        pair = correlation(lag) + correlation(lag + 1)
        if pair < 0:
            break
        whole += 2 * pair
        lag += 2
    return n / max(whole, 1.0)


@functools.cache
def recorded(folder):
    model = torch.nn.Module()
    for name, size in SIZES.items():
        setattr(model, name, torch.nn.Parameter(torch.ones(size)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(model, optimizer, f"{folder}/q.nc", weights=True) as recording:
        for _ in range(FRAMES - 1):
            optimizer.zero_grad()
            (model.a.sum() + model.b.sum()).backward()
            optimizer.step()
            recording.step()
    with open_trajectory(f"{folder}/q.nc") as trajectory:
        return trajectory.load()


def test_learning_coefficients_of_quadratic_losses(tmp_path):
    @settings(max_examples=examples(3))
    @given(
        st.sampled_from([20, 300]),
        st.sampled_from([1.0, 100.0]),
        st.integers(0, 3),
        st.sampled_from([0.0, 0.3]),
        st.sampled_from(["", "a"]),
        st.sampled_from([0, 7]),
        st.none() | st.sampled_from([5.0]),
        st.integers(0, 999),
    )
    def check(n, pull, flat, away, moving, batch, temperature, seed):
        generator = np.random.default_rng(seed)
        size = sum(SIZES.values())
        q, _ = np.linalg.qr(generator.standard_normal((size, size)))
        h = generator.exponential(2, size)
        h[:flat] = 0
        matrix = (q * h) @ q.T
        trajectory = recorded(tmp_path).copy(deep=True)
        points = generator.standard_normal((FRAMES, size)).astype(np.float32)
        trajectory["parameter.a"][0] = points[:, :3]
        trajectory["parameter.b"][0] = points[:, 3:]
        centre = points[0].astype(float) - away
        values = torch.from_numpy(matrix), torch.from_numpy(centre)

        def loss(parameters, examples):
            w = torch.cat([parameters["a"], parameters["b"]]) - values[1]
            return (w @ values[0] @ w / 2 + 1) * examples.mean()

        file = ModelFile(
            loss=loss, batches=lambda: [torch.ones(n, dtype=torch.float64)]
        )
        options = ChainOptions(
            chains=4,
            draws=120,
            burn_in=30,
            localisation=pull,
            batch=batch,
            temperature=temperature,
            chain_seed=seed,
        )
        result = learning_coefficients(
            trajectory,
            range(FRAMES),
            options,
            functions=file,
            layers=(moving,) if moving else (),
            dtype=torch.float64,
        )
        free = range(3) if moving else range(size)
        curvatures, axes = np.linalg.eigh(matrix[np.ix_(free, free)])
        curvatures = np.maximum(curvatures, 0)
        # as the temperature of the options is n beta
        beta = n / math.log(n) if temperature is None else temperature
        for t in range(FRAMES):
            one = result.isel(run=0, step=t)
            offset = points[t].astype(float) - centre
            slopes = axes.T @ (matrix @ offset)[list(free)]
            same("llc", one["loss"], 1 + offset @ matrix @ offset / 2, 1e-6)
            check_frame(one, curvatures, slopes, beta, options)

    check()


def check_frame(one, curvatures, slopes, beta, options):
    size = float(one["step_size"])
    expected = 0.2 / (beta * max(curvatures) + options.localisation)
    same("llc step", size / expected, 1, 0.02)
    trace = one["trace"].values
    count, draws = trace.shape
    assert (count, draws) == (options.chains, options.draws)
    arguments = (curvatures, slopes)
    times = np.arange(options.burn_in + 1, options.burn_in + draws + 1)
    mean, covariance = moments(*arguments, size, beta, options.localisation, times)
    error = math.sqrt(covariance.mean() / count)
    assert abs(float(one["llc"]) - mean.mean()) <= 6 * error
    # the first steps, in which the chains leave their centre, and the variance
    whole = trace.mean(axis=0) - mean
    assert np.abs(whole / np.sqrt(np.diag(covariance) / count)).max() < 8
    means = [sum(chain) / draws for chain in trace]
    between = np.std(means, ddof=1) / math.sqrt(count)
    weights = [effective(chain) for chain in trace]
    same("llc", one["llc"], np.mean(means))
    same("llc", one["effective_draws"], sum(weights), 1e-6)
    errors = [np.var(x) / w for x, w in zip(trace, weights, strict=True)]
    within = math.sqrt(sum(errors)) / count
    same("llc", one["within_error"], within, 1e-6)
    same("llc", one["llc_error"], max(between, within), 1e-6)
    same("llc", one["diverged_chains"], 0)
    third = draws // 3
    change = trace[:, -third:].mean() - trace[:, :third].mean()
    drift = change / (math.sqrt(6) * max(between, within))
    same("llc", one["drift"], drift, 1e-6)
    fine, _ = moments(*arguments, size / 2, beta, options.localisation, 2 * times)
    bias = 2 * (mean.mean() - fine.mean())
    assert abs(float(one["step_bias"]) - bias) <= 6 * float(one["bias_error"])

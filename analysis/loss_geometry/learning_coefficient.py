"""Local learning coefficients along training.

The local learning coefficient of parameters w* is estimated by

    llc = beta_n (mean of L over the chains - L(w*))

where the chains sample around w* (`langevin`). It measures how degenerate the minimum
is: d/2 for a regular minimum of d parameters, and less the more directions are flat
(Lau et al. 2023, arXiv 2308.12108). In a quadratic minimum with the Hessian's eigenvalues
h, the chains give sum of beta_n h / (beta_n h + gamma) / 2, so directions with beta_n h
below gamma do not count."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from analysis.linearization.curvature_operators import matching_parameters
from analysis.linearization.frame_results import Variables
from analysis.linearization.loss_operators import hessian_operator
from analysis.linearization.operator_spectra import largest_magnitude
from analysis.linearization.training_loss import ExampleLoss, training_model
from analysis.loss_geometry.frame_measures import few_threads, measure_frames
from analysis.loss_geometry.langevin import (
    ChainOptions,
    effective_draws,
    sample_losses,
)
from analysis.output.results import labelled
from dynamics.progress import progress_bar
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel

_VARIABLES: Variables = {
    "llc": "local learning coefficient, mean of the chains",
    "llc_error": "standard error of the mean of the chains",
    "within_error": "standard error from the autocorrelation within the chains",
    "loss": "loss of the frame",
    "step_size": "step size of the chains",
    "effective_draws": "effective number of draws of all chains",
    "step_bias": "estimated error of the coefficient by the step size",
    "bias_error": "standard error of this estimate",
    "resolution": "smallest change of the loss at its precision, times beta_n",
    "drift": "last third minus first third of the draws, in standard errors",
    "diverged_chains": "number of chains that diverged and are left out",
    "trace": (("chain", "draw"), "beta_n times the loss above that of the frame"),
}
STABLE = 0.2
"""Default step size times the largest curvature of the sampled density."""
SMALLER_STEPS = 6
"""How many times a default step size with which a chain diverges is divided by 4."""
BIAS_CHAINS = 2
"""Number of chains that are repeated with half the step size."""
LARGE_DRIFT = 3.0
"""Drift, in standard errors, above which chains count as not stationary."""


def learning_coefficients(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    options: ChainOptions | None = None,
    functions: ModelFile | None = None,
    layers: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
    log: Callable[[str], Any] | None = None,
) -> xr.Dataset:
    """Local learning coefficients of the training loss at some frames of a trajectory.

    SIGINT after the first frame ends the computation: the result has NaN in the frames
    that are left, and its attribute `frames_left` is their number.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package with its weights, or of a recorded model.
    frames : sequence of int
        Indices along `step`.
    options : ChainOptions, optional
    functions : ModelFile, optional
        Functions of a recorded model.
    layers : sequence of str
        Patterns of the names of the parameters that move. Default: all (otherwise a
        weight-refined coefficient, Wang et al. 2024, arXiv 2410.02984).
    dtype : torch.dtype
        Type in which the chains are computed.
    log : callable, optional
        Called with the expected cost, a line of text, before the computation.

    Returns
    -------
    xr.Dataset
        `llc`, `llc_error`, `within_error`, `loss`, `effective_draws`, `drift`,
        `step_bias` with `bias_error`, `resolution` and `diverged_chains` (run, step),
        and `trace` (run, step, chain, draw); all dimensionless. The bias is twice the
        difference of two chains from the same with half the step size and the same
        noise, as the error is proportional to the step size.

    Raises
    ------
    SettingsError
        If a model has no loss, or a pattern matches no parameter.
    TrajectoryError
        If no weights are recorded.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> options = ChainOptions(chains=2, draws=10, burn_in=5)
    >>> learning_coefficients(short, [0, 1], options)["llc"].dims
    ('run', 'step')
    """
    options = options or ChainOptions()

    def before(model: RecordedModel, frame: int, count: int) -> None:
        chains = FrameChains(model, frame, layers)
        attributes["parameters"] = int(chains.free.sum())
        attributes["examples"] = chains.loss.examples
        attributes["temperature"] = options.beta_n(chains.loss.examples)
        if log is not None:
            log(chains.describe_cost(options, count))

    attributes = {**_plain_options(options), "layers": ", ".join(layers)}
    result = measure_frames(
        trajectory,
        frames,
        lambda model, frame: FrameChains(model, frame, layers).measure(options),
        _VARIABLES,
        {"chain": options.chains, "draw": options.draws},
        functions=functions,
        dtype=dtype,
        copies=options.chains,
        before=before,
    )
    return result.assign_attrs(attributes)


def calibrate_chains(
    trajectory: xr.Dataset,
    frame: int,
    step_sizes: Sequence[float],
    localisations: Sequence[float],
    options: ChainOptions | None = None,
    functions: ModelFile | None = None,
    layers: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
) -> xr.Dataset:
    """The learning coefficient of the first run at one frame for several step sizes and
    localisations, to choose both: where it depends on neither, and no chain diverges or
    drifts.

    Parameters
    ----------
    trajectory, options, functions, layers, dtype
        As `learning_coefficients`.
    frame : int
        Index along `step`.
    step_sizes, localisations : sequence of float

    Returns
    -------
    xr.Dataset
        The variables of `learning_coefficients` except `trace`, (step_size,
        localisation).

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> options = ChainOptions(chains=2, draws=10, burn_in=5)
    >>> result = calibrate_chains(short, 1, [1e-5, 1e-4], [10.0, 100.0, 1000.0], options)
    >>> result["llc"].shape
    (2, 3)
    """
    options = options or ChainOptions()
    points = list(itertools.product(step_sizes, localisations))
    results = []
    model = training_model(trajectory, 0, functions, dtype)
    with few_threads(model, options.chains):
        chains = FrameChains(model, frame, layers)
        for step_size, localisation in progress_bar(
            points, desc="calibration", unit="point"
        ):
            point = dataclasses.replace(
                options, step_size=step_size, localisation=localisation
            )
            results.append(chains.measure(point))
    shape = (len(step_sizes), len(localisations))
    dims = ("step_size", "localisation")
    variables = {
        name: (np.reshape([result[name] for result in results], shape), meaning)
        for name, meaning in _VARIABLES.items()
        if isinstance(meaning, str) and name != "step_size"
    }
    coords = {"step_size": list(step_sizes), "localisation": list(localisations)}
    attributes = _plain_options(options) | {
        "step": int(trajectory["step"][frame]),
        "examples": chains.loss.examples,
        "temperature": options.beta_n(chains.loss.examples),
        "parameters": int(chains.free.sum()),
    }
    return xr.Dataset(labelled(dims, **variables), coords, attributes)


def _plain_options(options: ChainOptions) -> dict[str, Any]:
    fields = dataclasses.asdict(options)
    return {name: value for name, value in fields.items() if value is not None}


class FrameChains:
    """The chains of one frame of a model with one run. Raises SettingsError."""

    def __init__(
        self, model: RecordedModel, frame: int, layers: Sequence[str] = ()
    ) -> None:
        self.loss = ExampleLoss(model, frame)
        self.model = model
        self.frame = frame
        model.check_derivatives(0, frame)
        self.row = model.row(0, frame)
        self.stream = int(model.trajectory["step"][frame])
        self.free = torch.from_numpy(matching_parameters(model.shapes, layers))

    def describe_cost(self, options: ChainOptions, count: int) -> str:
        """The expected time of `count` frames, from some steps of the chains."""
        few = dataclasses.replace(options, draws=5, burn_in=0)
        step_size = self.step_size(options)
        self._sample(few, step_size)
        begin = time.perf_counter()
        self._sample(few, step_size)
        steps = options.draws + options.burn_in
        seconds = (time.perf_counter() - begin) / few.draws * steps * count
        return (
            f"cost        {count} frames of {steps} steps of {options.chains} chains:"
            f" about {seconds:.3g} s"
        )

    def step_size(self, options: ChainOptions) -> float:
        """The given step size, or one that suits the largest eigenvalue of the Hessian;
        NaN if the loss has no finite Hessian."""
        if options.step_size is not None:
            return options.step_size
        hessian = hessian_operator(self.model, 0, self.frame)
        largest = largest_magnitude(hessian.scaled(self.free.double().numpy()))
        strength = options.beta_n(self.loss.examples) * largest + options.localisation
        return STABLE / strength

    def _sample(
        self, options: ChainOptions, step_size: float, halves: int = 0
    ) -> np.ndarray:
        n = self.loss.examples
        return sample_losses(
            self.loss, self.row, n, options, step_size, self.free, self.stream, halves
        )

    def _step_bias(
        self, options: ChainOptions, step_size: float, trace: np.ndarray
    ) -> dict[str, float]:
        """Twice the difference of the first chains (chain, draw) from those with half
        the step size, with its standard error; NaN if a chain diverges."""
        few = min(BIAS_CHAINS, options.chains)
        halves = self._sample(options, step_size, few)
        change = trace[:few] - options.beta_n(self.loss.examples) * halves
        if not np.isfinite(change).all():
            return {"step_bias": np.nan, "bias_error": np.nan}
        summary = summarise_chains(change)
        return {
            "step_bias": 2 * summary["llc"],
            "bias_error": 2 * summary["within_error"],
        }

    def measure(self, options: ChainOptions) -> dict[str, Any]:
        """The variables of the frame."""
        step_size = self.step_size(options)
        excess = self._sample(options, step_size)
        for _ in range(SMALLER_STEPS if options.step_size is None else 0):
            if np.isfinite(excess).all():
                break
            step_size /= 4
            excess = self._sample(options, step_size)
        trace = options.beta_n(self.loss.examples) * excess
        finite = np.isfinite(trace.sum(axis=1))
        summary: dict[str, Any] = dict.fromkeys(_VARIABLES, np.nan)
        if finite.any():
            summary |= summarise_chains(trace[finite])
            summary |= self._step_bias(options, step_size, trace)
        loss = self.loss(self.row)
        spacing = abs(float(loss)) * torch.finfo(loss.dtype).eps
        return summary | {
            "loss": float(loss),
            "resolution": options.beta_n(self.loss.examples) * spacing,
            "step_size": step_size,
            "diverged_chains": int((~finite).sum()),
            "trace": np.where(finite[:, None], trace, np.nan),
        }


def summarise_chains(trace: np.ndarray) -> dict[str, float]:
    """The mean of chains (chain, draw), its standard errors between and within chains,
    the effective number of draws, and the drift."""
    chains, draws = trace.shape
    means = trace.mean(axis=1)
    effective = effective_draws(trace)
    within = float(np.sqrt((trace.var(axis=1) / effective).mean() / chains))
    between = float(means.std(ddof=1) / np.sqrt(chains)) if chains > 1 else within
    third = max(1, draws // 3)
    change = trace[:, -third:].mean() - trace[:, :third].mean()
    change_error = np.sqrt(6) * max(between, within)
    return {
        "llc": float(means.mean()),
        "llc_error": max(between, within),
        "within_error": within,
        "effective_draws": float(effective.sum()),
        "drift": float(change / change_error) if change_error > 0 else 0.0,
    }

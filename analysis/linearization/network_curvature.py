"""Curvature of a network's training loss along its trajectory, and how much of the
movement it explains.

At a recorded frame with weights theta, the Hessian H of the training loss gives

- the eigenmodes of gradient flow, whose growth rates are minus the eigenvalues of H;
- sharpness, its largest eigenvalue; gradient descent with learning rate lr is unstable
  beyond 2 / lr (Cohen et al. 2021, "the edge of stability"). If layers have different
  learning rates, H is replaced by sqrt(lr_i lr_j) H_ij over the first lr. Momentum and
  weight decay change the limit (`optimizer_limits`). Adam has a different one, on H
  divided by the root of its mean squared gradient: 2 / lr is then a scale;
- the extreme eigenvalues of the diagonal block of each layer;
- fractions of the movement to the next recorded frame, d = theta' - theta: cos² of d
  with the direction of the lowest eigenvalue, the sum of cos² over all directions with
  negative eigenvalues, and cos² with that of the highest one. For a random direction
  cos² is 1 / parameters on average, and the sum is this times the number of directions.

Networks with more than 2000 parameters have only both ends of the spectrum. All values
are dimensionless. NaN: frames of a run after it diverged, and movements from the last
frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
import xarray as xr

from analysis.linearization.curvature_operators import CurvatureOperator
from analysis.linearization.eigenmodes import (
    NULL_MODE_TOLERANCE,
    StateModes,
    count_growing,
    sorted_eigenmodes,
)
from analysis.linearization.frame_results import (
    Variables,
    frame_dataset,
    valid_jobs,
)
from analysis.linearization.loss_operators import objective_operator
from analysis.linearization.operator_spectra import (
    estimate_trace,
    largest_eigenvalue,
    movement_fractions,
    spectrum_ends,
    whole_spectrum,
)
from analysis.linearization.optimizer_limits import (
    StabilityRates,
    limit_words,
    network_rates,
    relative_learning_rates,
)
from analysis.linearization.training_loss import training_objective
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import network_of
from dynamics.networks.transformer_network import Transformer
from dynamics.progress import progress_bar
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import check_variable_recorded

_MAX_DENSE = 2000
"""Largest number of parameters for which whole Hessians are computed."""
_ENDS = 3
"""Number of eigenvalues at each end of the spectrum of a larger network."""
_ACCURACY = 1e-10
"""Accuracy of these eigenvalues, relative to the largest magnitude."""

CURVATURE_SCALARS = {
    "sharpness": (
        "largest eigenvalue of the Hessian, or of that scaled by the layers' learning"
        " rates"
    ),
    "relative_sharpness": "largest eigenvalue of the Hessian over its limit",
    "limit": "largest eigenvalue of the Hessian at which gradient descent is stable",
    "trace": "trace of the Hessian",
    "trace_error": "standard error of the trace if it is estimated",
    "lowest_share": (
        "fraction of the next movement along the direction of the lowest eigenvalue"
    ),
    "negative_share": (
        "fraction of the next movement within all directions of negative eigenvalue"
    ),
    "negative_chance": "that fraction for a movement in a random direction",
    "highest_share": (
        "fraction of the next movement along the direction of the highest eigenvalue"
    ),
}

_LAYER = ("layer",)
_VARIABLES: Variables = {
    **CURVATURE_SCALARS,
    "eigenvalue": (("mode",), "eigenvalues of the Hessian, ascending"),
    "layer_lowest": (_LAYER, "lowest eigenvalue of the Hessian's block of a layer"),
    "layer_highest": (_LAYER, "highest eigenvalue of the Hessian's block of a layer"),
}

_Network = ConstantAttention | ClusteringHead
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def _whole_frame(
    hessian: CurvatureOperator,
    rates: np.ndarray,
    limits: StabilityRates,
    movement: np.ndarray | None,
) -> dict[str, float | np.ndarray]:
    """`_VARIABLES` from a Hessian, relative learning rates (parameter,), limits and the
    movement (parameter,)."""
    values, vectors = whole_spectrum(hessian)
    fractions = movement_fractions(vectors, movement)
    negative = values < -NULL_MODE_TOLERANCE * np.abs(values).max()
    layers = [hessian.restricted([name]).eigvalsh()[[0, -1]] for name in hessian.shapes]
    lowest, highest = np.transpose(layers)
    sharpness = values[-1]
    if not (rates == 1).all():
        sharpness = hessian.scaled(np.sqrt(rates)).eigvalsh()[-1]
    return {
        **_over_limit(hessian, sharpness, limits, lambda one: one.eigvalsh()[-1]),
        "trace": hessian.matrix.trace(),
        "trace_error": 0.0,
        "lowest_share": fractions[0],
        "negative_share": fractions[negative].sum(),
        "negative_chance": negative.mean(),
        "highest_share": fractions[-1],
        "eigenvalue": values,
        "layer_lowest": lowest,
        "layer_highest": highest,
    }


def _ends_frame(
    hessian: CurvatureOperator,
    rates: np.ndarray,
    limits: StabilityRates,
    movement: np.ndarray | None,
) -> dict[str, float | np.ndarray]:
    """`_VARIABLES` from both ends of the spectrum; those that need the whole Hessian
    are NaN."""
    values, vectors = spectrum_ends(hessian, 2 * _ENDS, tolerance=_ACCURACY)
    trace = estimate_trace(hessian)
    fractions = movement_fractions(vectors, movement)
    sharpness = values[-1]
    if not (rates == 1).all():
        sharpness = largest_eigenvalue(hessian.scaled(np.sqrt(rates)), _ACCURACY)
    return dict.fromkeys(_VARIABLES, np.nan) | {
        **_over_limit(
            hessian,
            sharpness,
            limits,
            lambda one: largest_eigenvalue(one, _ACCURACY),
        ),
        "trace": trace.value,
        "trace_error": trace.error,
        "lowest_share": fractions[0],
        "highest_share": fractions[-1],
        "eigenvalue": values,
    }


def _over_limit(
    hessian: CurvatureOperator,
    sharpness: float,
    limits: StabilityRates,
    largest: Callable[[CurvatureOperator], float],
) -> dict[str, float | np.ndarray]:
    """The sharpness, its fraction of the limit, and the limit."""
    fraction = limits.plain.fraction(hessian, sharpness, limits.root, largest=largest)
    limit = limits.plain.eigenvalue(sharpness, fraction)
    return {"sharpness": sharpness, "relative_sharpness": fraction, "limit": limit}


def loss_curvature(
    trajectory: xr.Dataset, frames: Sequence[int], quiet: bool = False
) -> xr.Dataset:
    """Curvature of the training loss at some frames of a network's trajectory.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network, with its weights.
    frames : sequence of int
        Indices along `step`. Movements are to the frame after each.
    quiet : bool
        Show no progress bar.

    Returns
    -------
    xr.Dataset
        `eigenvalue` (run, step, mode), ascending; `CURVATURE_SCALARS` (run, step);
        `layer_lowest` and `layer_highest` (run, step, layer).

    Raises
    ------
    TrajectoryError
        If it is not the trajectory of a network, or has no weights.
    """
    network = network_of(trajectory)
    if isinstance(network, Transformer):
        raise TrajectoryError(
            "attribute system: found transformer, expected modular or sparse"
        )
    rows = flat_weight_pairs(trajectory, network, frames)
    valid = valid_frames(trajectory).values
    jobs = valid_jobs(trajectory, frames)
    parameters = sum(network.lengths)
    rates = relative_learning_rates(network)
    steps = trajectory["step"].values[list(frames)].tolist()
    names, lengths = list(network.variables), network.lengths
    limits = [network_rates(network.settings, names, lengths, step) for step in steps]
    objectives = [
        training_objective(network, int(seed)) for seed in trajectory["seed"].values
    ]

    def frame_curvature(job: tuple[int, int]) -> dict[str, float | np.ndarray] | None:
        run, place = job
        row = torch.from_numpy(rows[run, place, 0])
        hessian = objective_operator(objectives[run], row)
        after = frames[place] + 1
        moves = after < valid.shape[1] and valid[run, after]
        movement = rows[run, place, 1] - rows[run, place, 0] if moves else None
        if parameters > _MAX_DENSE:
            if not torch.isfinite(torch.func.grad(objectives[run].loss)(row)).all():
                return None
            return _ends_frame(hessian, rates, limits[place], movement)
        if not np.isfinite(hessian.matrix).all():
            return None
        return _whole_frame(hessian, rates, limits[place], movement)

    frame_values = map_in_threads(frame_curvature, jobs, "Hessians", quiet)
    modes = parameters if parameters <= _MAX_DENSE else 2 * _ENDS
    sizes = {"layer": len(network.variables), "mode": modes}
    result = frame_dataset(trajectory, frames, _VARIABLES, sizes, jobs, frame_values)
    result = result.assign_coords(layer=list(network.variables))
    return result.assign_attrs(
        parameters=parameters,
        lr=float(network.settings.lr),
        **limit_words(trajectory),
    )


def network_state_modes(states: xr.Dataset) -> list[StateModes]:
    """The modes of gradient flow in the first frame of each run: the eigenvectors of
    the Hessian of the training loss, which grow where their eigenvalue is negative.
    Networks with more than 2000 parameters have only the fastest mode. Raises
    TrajectoryError as `loss_curvature`."""
    network = network_of(states)
    if isinstance(network, Transformer):
        raise TrajectoryError(
            "attribute system: found transformer, expected modular or sparse"
        )
    rows = flat_weight_pairs(states, network, [0])[:, 0, 0]
    seeds = states["seed"].values.tolist()

    def modes_of_run(run: int) -> StateModes:
        objective = training_objective(network, seeds[run])
        hessian = objective_operator(objective, torch.from_numpy(rows[run]))
        growing = np.nan
        if hessian.size <= _MAX_DENSE:
            values, vectors = whole_spectrum(hessian)
            growing = float(count_growing(sorted_eigenmodes(-values)))
        else:
            values, vectors = spectrum_ends(hessian, 2, tolerance=_ACCURACY)
        fastest = hessian.unflatten(vectors[:, 0])
        return StateModes(growing, float(-values[0]), fastest)

    return map_in_threads(modes_of_run, range(len(seeds)), "Hessians", quiet=True)


def flat_weight_pairs(
    trajectory: xr.Dataset, network: _Network, frames: Sequence[int]
) -> np.ndarray:
    """Flat weights of frames and of the frames after them, in float64: (run, frame,
    this or next, parameter).

    The frame after the last one is the last one itself.
    """
    this = np.asarray(frames)
    both = np.stack([this, np.minimum(this + 1, trajectory.sizes["step"] - 1)], axis=-1)
    needed, where = np.unique(both, return_inverse=True)
    pieces = []
    for name, dims in network.variables.items():
        check_variable_recorded(trajectory, name)
        values = (
            trajectory[name].transpose("run", "step", *dims).isel(step=needed).values
        )
        pieces.append(values.reshape(*values.shape[:2], -1))
    flat = np.concatenate(pieces, axis=-1).astype(np.float64)
    return flat[:, where.reshape(both.shape)]


def map_in_threads(
    function: Callable[[_Job], _Result], jobs: Sequence[_Job], what: str, quiet: bool
) -> list[_Result]:
    """Results of jobs, in their order; jobs run in parallel in as many threads as torch
    has, each on one thread."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(
            threads, initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            results = pool.map(function, jobs)
            return list(progress_bar(results, quiet, desc=what, total=len(jobs)))
    finally:
        torch.set_num_threads(threads)

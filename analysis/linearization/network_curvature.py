"""The curvature of a network's training loss along its trajectory, and how much of the movement it explains.

At a recorded frame with weights theta, the Hessian H of the training loss (`analysis.linearization.hessians`) gives

- the modes of gradient flow, growth rates minus the eigenvalues of H (`analysis.linearization.eigenmodes`);
- sharpness, its largest eigenvalue, by which gradient descent of learning rate lr is unstable beyond 2 / lr (Cohen et
  al. 2021, "the edge of stability"). Where layers learn at different rates it is that of sqrt(lr_i lr_j) H_ij, over
  the first lr. With momentum beta the limit is 2 (1 + beta) / lr; Adam has a limit of its own, on H divided by the
  root of its mean squared gradient, so that here 2 / lr is a scale and no limit;
- the extremes of each layer's own block;
- shares of the movement to the next recorded frame, d = theta' - theta: cos² of d with the direction of the lowest
  eigenvalue, the sum of it over all directions whose eigenvalue is negative, and that with the highest one. A random
  direction has 1 / parameters of one direction on average, and as many times as much of a span.

Networks of more than `DENSE` parameters have both ends of the spectrum alone. All values are dimensionless; what has no
value is NaN: frames of a run after it diverged, a movement from the last frame.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.linearization.eigenmodes import NULL_MODE_TOLERANCE
from analysis.linearization.hessians import estimate_trace, extreme_eigenpairs, training_objective
from dynamics.networks.clustering_head import MLP_VARIABLES, ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import check_variable_recorded, network_of

_MAX_DENSE = 2000
"""Parameters up to which Hessians are whole."""
_ENDS = 3
"""Eigenvalues at each end of a spectrum that is not whole."""

CURVATURE_SCALARS = {
    "sharpness": "largest eigenvalue of the Hessian, or of that scaled by the layers' learning rates",
    "trace": "trace of the Hessian",
    "trace_error": "standard error of the trace where it is estimated",
    "lowest_share": "share of the next movement along the direction of the lowest eigenvalue",
    "negative_share": "share of the next movement within all directions of negative eigenvalue",
    "negative_chance": "that share for a movement in a random direction",
    "highest_share": "share of the next movement along the direction of the highest eigenvalue",
}

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class FrameCurvature(NamedTuple):
    """What is found at one frame."""

    eigenvalues: np.ndarray
    """(mode,) rising"""
    scalars: dict[str, float]
    """by the names of SCALARS"""
    layers: np.ndarray
    """(layer, 2) lowest and highest eigenvalue of each block; NaN where the Hessian is not whole"""


# ------------------------------------------------------------------------------------------------ one frame


def movement_fractions(vectors: np.ndarray, movement: np.ndarray) -> np.ndarray:
    """cos² of a movement (parameter,) with orthonormal columns (parameter, direction): (direction,), NaN if it is 0."""
    size = np.linalg.norm(movement)
    if not size > 0:
        return np.full(vectors.shape[1], np.nan)
    return np.square(vectors.T @ (movement / size))


def _dense_frame(
    hessian: torch.Tensor, blocks: Sequence[slice], rates: np.ndarray, movement: np.ndarray | None
) -> FrameCurvature:
    """From a Hessian (parameter, parameter), the parameters of each layer, their learning rates (parameter,)
    over the first one, and the movement (parameter,), if there is one."""
    values, vectors = (each.numpy() for each in torch.linalg.eigh(hessian))
    layers = np.array([_ends(hessian[block, block]) for block in blocks])
    along = movement_fractions(vectors, movement) if movement is not None else np.full(len(values), np.nan)
    negative = values < -NULL_MODE_TOLERANCE * np.abs(values).max()
    scalars = {
        "sharpness": values[-1] if (rates == 1).all() else _scaled_sharpness(hessian, rates),
        "trace": float(hessian.trace()),
        "trace_error": 0.0,
        "lowest_share": along[0],
        "negative_share": along[negative].sum(),
        "negative_chance": negative.mean(),
        "highest_share": along[-1],
    }
    return FrameCurvature(values, scalars, layers)


def _ends(block: torch.Tensor) -> np.ndarray:
    return torch.linalg.eigvalsh(block).numpy()[[0, -1]]


def _scaled_sharpness(hessian: torch.Tensor, rates: np.ndarray) -> float:
    root = torch.from_numpy(np.sqrt(rates))
    return float(torch.linalg.eigvalsh(root[:, None] * hessian * root)[-1])


def _lanczos_frame(
    loss: Callable[[torch.Tensor], torch.Tensor],
    row: torch.Tensor,
    layers: int,
    rates: np.ndarray,
    movement: np.ndarray | None,
) -> FrameCurvature:
    """As `whole_frame` from both ends of the spectrum, by Lanczos."""
    found, total = extreme_eigenpairs(loss, row, _ENDS), estimate_trace(loss, row)
    along = movement_fractions(found.vectors, movement) if movement is not None else np.full(2 * _ENDS, np.nan)
    sharpness = found.values[-1]
    if not (rates == 1).all():
        root = torch.from_numpy(np.sqrt(rates))
        sharpness = extreme_eigenpairs(lambda scaled: loss(scaled * root), row / root).values[-1]
    scalars = dict.fromkeys(CURVATURE_SCALARS, np.nan)
    scalars.update(sharpness=sharpness, trace=total.value, trace_error=total.error)
    scalars.update(lowest_share=along[0], highest_share=along[-1])
    return FrameCurvature(found.values, scalars, np.full((layers, 2), np.nan))


# -------------------------------------------------------------------------------------- along a trajectory


def loss_curvature(trajectory: xr.Dataset, places: Sequence[int], quiet: bool = False) -> xr.Dataset:
    """Eigenvalues (run, step, mode) rising, the SCALARS (run, step), and layer_lowest, layer_highest (run, step,
    layer), at the frames that stand at some places along `step`. The next frame is that of the trajectory.

    Raises TrajectoryError for a trajectory without the weights of a network.
    """
    network = network_of(trajectory)
    rows = flat_weight_pairs(trajectory, network, places)
    last, steps = trajectory["last_step"].values, trajectory["step"].values
    jobs = [
        (run, frame)
        for run in range(trajectory.sizes["run"])
        for frame, place in enumerate(places)
        if steps[place] <= last[run]
    ]
    whole, blocks, rates = sum(network.lengths) <= _MAX_DENSE, _blocks(network), relative_learning_rates(network)
    objectives = [training_objective(network, int(seed)) for seed in trajectory["seed"].values]

    def at(job: tuple[int, int]) -> FrameCurvature | None:
        run, frame = job
        row = torch.from_numpy(rows[run, frame, 0])
        place = places[frame]
        moves = place + 1 < len(steps) and steps[place + 1] <= last[run]
        movement = rows[run, frame, 1] - rows[run, frame, 0] if moves else None
        if not whole:
            if not torch.isfinite(torch.func.grad(objectives[run].loss)(row)).all():
                return None
            return _lanczos_frame(objectives[run].loss, row, len(blocks), rates, movement)
        hessian = objectives[run].hessian(row)
        return _dense_frame(hessian, blocks, rates, movement) if torch.isfinite(hessian).all() else None

    found = map_in_threads(at, jobs, "Hessians", quiet)
    return _labelled(trajectory, network, places, jobs, found)


def flat_weight_pairs(
    trajectory: xr.Dataset, network: ConstantAttention | ClusteringHead, places: Sequence[int]
) -> np.ndarray:
    """Parameters of frames and of the frames after them, float64: (run, frame, this or next, parameter).

    The frame after the last one is that one again.
    """
    frames = np.asarray(places)
    both = np.stack([frames, np.minimum(frames + 1, trajectory.sizes["step"] - 1)], axis=-1)
    needed, where = np.unique(both, return_inverse=True)
    pieces = []
    for name, dims in network.variables.items():
        check_variable_recorded(trajectory, name)
        values = trajectory[name].transpose("run", "step", *dims).isel(step=needed).values
        pieces.append(values.reshape(*values.shape[:2], -1))
    flat = np.concatenate(pieces, axis=-1).astype(np.float64)
    return flat[:, where.reshape(both.shape)]


def relative_learning_rates(network: ConstantAttention | ClusteringHead) -> np.ndarray:
    """Each parameter's learning rate over lr: (parameter,)."""
    discount = getattr(network.settings, "mlp_lr_discount", 1.0)
    named = zip(network.variables, network.lengths, strict=True)
    return np.concatenate([np.full(length, 1 / discount if name in MLP_VARIABLES else 1.0) for name, length in named])


def _blocks(network: ConstantAttention | ClusteringHead) -> list[slice]:
    named = zip(network.begins.values(), network.lengths, strict=True)
    return [slice(begin, begin + length) for begin, length in named]


def map_in_threads(function: Callable[[_Job], _Result], jobs: Sequence[_Job], what: str, quiet: bool) -> list[_Result]:
    """The results of jobs, in their order: as many at a time as torch has threads, each of them on one."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            found = pool.map(function, jobs)
            return list(tqdm(found, what, len(jobs), disable=True if quiet else None, leave=False))
    finally:
        torch.set_num_threads(threads)


def _labelled(
    trajectory: xr.Dataset,
    network: ConstantAttention | ClusteringHead,
    places: Sequence[int],
    jobs: Sequence[tuple[int, int]],
    found: Sequence[FrameCurvature | None],
) -> xr.Dataset:
    shape = (trajectory.sizes["run"], len(places))
    parameters = sum(network.lengths)
    modes = parameters if parameters <= _MAX_DENSE else 2 * _ENDS
    values, layers = np.full((*shape, modes), np.nan), np.full((*shape, len(network.variables), 2), np.nan)
    scalars = {name: np.full(shape, np.nan) for name in CURVATURE_SCALARS}
    for job, frame in zip(jobs, found, strict=True):
        if frame is None:
            continue
        values[job], layers[job] = frame.eigenvalues, frame.layers
        for name, value in frame.scalars.items():
            scalars[name][job] = value
    each = ("run", "step")
    variables: dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]] = {}
    for name, numbers in scalars.items():
        variables[name] = (each, numbers, _attrs(CURVATURE_SCALARS[name]))
    variables["eigenvalue"] = ((*each, "mode"), values, _attrs("eigenvalues of the Hessian, rising"))
    for end, word in enumerate(("lowest", "highest")):
        attrs = _attrs(f"{word} eigenvalue of the Hessian's block of a layer")
        variables[f"layer_{word}"] = ((*each, "layer"), layers[..., end], attrs)
    step = trajectory["step"].values[list(places)]
    coords = {"step": step, "seed": ("run", trajectory["seed"].values), "layer": list(network.variables)}
    return xr.Dataset(variables, coords, {"parameters": parameters, "lr": float(network.settings.lr)})


def _attrs(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}

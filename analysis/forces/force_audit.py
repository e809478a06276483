"""The force audit: how much of the gradient of a network's embeddings do the particle forces of CA explain?

At the embeddings E of a network along its training, two targets are compared with the particle forces of CA
section 6 over the network's training pairs: the negative gradient -dL/dE, and the update, which is the displacement
to the next recorded frame. For the network of CA the gradient is computed from the recorded weights. For a model
recorded by `dynamics.record` it is that of the first update after each frame, without weight decay; its training pairs
are the variable `training_pairs` (run, step, pair, 2) if it is recorded, else all unordered pairs. Each target is
compared

- with the particle law, all forces with their constants and balance: cosine, and R² with one free, positive factor;
- with the four force fields (like attraction, unlike repulsion, like and unlike alignment), fitted by least squares
  in every frame: R², coefficients, and weights. A weight is the coefficient times the norm of the field, divided by
  the norm of the target.

Each comparison is made for the whole target and for its part without shift and scaling: particles keep their mean and
their spread (CA section 6), so the forces do not predict these.

Any target is partly explained by four fields. As a baseline the fit is repeated with randomly renamed tokens, so that
other pairs count as like; `renamed_r_squared` is the mean R² of these fits (NaN up to N = 3, where every renaming
preserves the task). R² = 1 - |y - fit|² / |y|², over all tokens and axes, is not centred. `chance` is the mean R² of
four random directions. All values are dimensionless.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.forces.directions import cosine_similarity, without_shift_and_scaling
from analysis.output.tables import Column, interval_columns
from analysis.statistics.intervals import mean_interval
from dynamics.errors import TrajectoryError
from dynamics.kernels.compiling import numba_threads
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import constant_attention_of, weights
from dynamics.particles.pair_forces import FIELD_NAMES, force_fields
from dynamics.particles.pair_list import group_pairs
from dynamics.particles.system import ParticleSystem
from dynamics.randomness import random_stream
from dynamics.settings import ModularSettings, ParticleSettings, RecordedSettings, check_integer
from dynamics.tasks import all_pairs, training_pairs
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import check_variable_recorded, numbers_modulo

RENAMINGS = 8
AUDITED_FRAMES = 41

TARGETS = ("gradient", "update")
TARGET_PARTS = ("whole", "normalised")


# ------------------------------------------------------------------------------------------------ fits


class FieldFit(NamedTuple):
    """Least-squares fit of a target by force fields, without an intercept."""

    coefficients: np.ndarray
    """(..., field); 0 for a field that is 0 everywhere, NaN if the target is 0."""
    weights: np.ndarray
    """(..., field); coefficient times norm of the field over norm of the target."""
    r_squared: np.ndarray
    """(...); NaN if the target is 0."""


def fit_force_fields(target: np.ndarray, fields: np.ndarray) -> FieldFit:
    """Fit force fields to a target by least squares.

    Parameters
    ----------
    target : array, shape (..., token, axis)
        Finite numbers.
    fields : array, shape (field, ..., token, axis)

    Returns
    -------
    FieldFit

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.forces import fit_force_fields
    >>> fields = np.random.default_rng(0).standard_normal((2, 5, 3))
    >>> fit_force_fields(2 * fields[0] - fields[1], fields).coefficients
    array([ 2., -1.])
    """
    lead = target.shape[:-2]
    y = np.asarray(target, dtype=np.float64).reshape(*lead, -1)
    x = np.moveaxis(np.asarray(fields, dtype=np.float64).reshape(len(fields), *lead, -1), 0, -1)
    size, length = np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-2)
    y = np.divide(y, size[..., None], out=np.zeros_like(y), where=size[..., None] > 0)
    x = np.divide(x, length[..., None, :], out=np.zeros_like(x), where=length[..., None, :] > 0)
    weights = (np.linalg.pinv(x, rcond=1e-10) @ y[..., None])[..., 0]
    rest = y - (x @ weights[..., None])[..., 0]
    r_squared = np.where(size > 0, 1 - (rest**2).sum(axis=-1), np.nan)
    scale = np.divide(size[..., None], length, out=np.zeros_like(length), where=length > 0)
    weights = np.where(size[..., None] > 0, weights, np.nan)
    return FieldFit(weights * scale, weights, r_squared)


def fields_with_renamed_tokens(embedding: np.ndarray, pairs: np.ndarray, names: np.ndarray) -> np.ndarray:
    """The four fields (field, ..., token, axis) if token i had the number names[i]; pairs (pair, 2) of true numbers."""
    n = embedding.shape[-2]
    renamed = np.empty_like(embedding)
    renamed[..., names, :] = embedding
    return force_fields(renamed, group_pairs(n, names[pairs])).force[..., names, :]


def random_renamings(n: int, seed: int, count: int) -> list[np.ndarray]:
    """Random permutations (token,) of n tokens that do not preserve the task; none for up to three tokens."""
    generator = random_stream(int(seed), "audit/names")
    renamings: list[np.ndarray] = []
    while n > 3 and len(renamings) < count:
        names = generator.permutation(n)
        if not _preserves_modular_sums(names):
            renamings.append(names)
    return renamings


def _preserves_modular_sums(names: np.ndarray) -> bool:
    """Whether pairs of equal sums keep equal sums: the names are u i + c modulo N."""
    n = len(names)
    return bool((names == (names[0] + np.arange(n) * (names[1] - names[0])) % n).all())


# -------------------------------------------------------------------------------------- of a trajectory


def geometric_frames(count: int, most: int) -> np.ndarray:
    """Indices (frame,) of at most `most` (2 or more) of `count` frames, denser at the start, with the first and
    last."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(int)) - 1


def audit_forces(
    trajectory: xr.Dataset,
    law: ParticleSettings | None = None,
    frames: int = AUDITED_FRAMES,
    renamings: int = RENAMINGS,
) -> xr.Dataset:
    """Compare the gradient and the updates of a network's embeddings with the particle forces (CA section 6).

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of the network of CA (system ``modular``) with recorded weights, or of any model that adds numbers
        modulo N, recorded with ``embedding_gradient=True``.
    law : ParticleSettings, optional
        Constants and balance of the particle forces, by default CA's at f_a = 1. Its n and dim are the network's.
    frames : int
        Number of audited frames, denser at the start.
    renamings : int
        Number of random renamings of the tokens for the baseline.

    Returns
    -------
    xarray.Dataset
        By run, target, part and step: `cosine` and `law_r_squared` with the particle law; `r_squared`,
        `renamed_r_squared`, `coefficient` (field) and `weight` (field) of the four fields; `chance` (part). The targets
        are ``gradient`` and ``update``, the parts ``whole`` and ``normalised``, without shift and scaling. NaN in the
        frames after a run diverged. The last frame of a recorded model has no gradient, and is left out. Attributes:
        `clock`, the unit of steps, and `pairs`, which pairs the forces are summed over.

    Raises
    ------
    TrajectoryError
        If the trajectory has no weights of the network of CA, or no gradient of a recorded model.
    SettingsError
        For fewer than two frames.

    Examples
    --------
    >>> from analysis.forces import audit_forces
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=4, progress=False)
    >>> audit_forces(trajectory, renamings=2)["r_squared"].dims
    ('run', 'target', 'part', 'step')
    """
    has_network = trajectory.attrs["system"] == ModularSettings.system
    read_run = _read_network_run if has_network else _read_recorded_run
    (_check_network_run if has_network else _check_recorded_run)(trajectory)
    n, dim = trajectory.attrs["modulus"], trajectory.sizes["axis"]
    law = dataclasses.replace(law or ParticleSettings(), n=n, dim=dim, start="random", start_step=0)
    count = trajectory.sizes["step"] - (0 if has_network else 1)
    at = geometric_frames(count, check_integer("frames", frames, 2, 10**9))
    seeds = trajectory["seed"].values
    results = []
    for run, seed in enumerate(seeds):
        embedding, targets, pairs = read_run(trajectory, run, at)
        with numba_threads(1):  # the frames of one run are too little work for several threads
            results.append(_audit_run(embedding, targets, pairs, law, random_renamings(n, seed, renamings)))
    dims = ("run", "target", "part", "step", "field")
    result = xr.Dataset(
        {
            name: (dims[: values.ndim + 1], np.stack([each[name] for each in results]))
            for name, values in results[0].items()
        },
        {
            "step": trajectory["step"].values[at],
            "time": ("step", trajectory["time"].values[at]),
            "seed": ("run", seeds),
            "target": list(TARGETS),
            "part": list(TARGET_PARTS),
            "field": list(FIELD_NAMES),
        },
    )
    result = result.where(valid_frames(result.assign(last_step=trajectory["last_step"].drop_attrs())))
    free = n * dim - np.array([0, dim + 1])
    result["chance"] = ("part", np.clip(len(FIELD_NAMES) / np.maximum(free, 1), 0, 1))
    pairs_known = has_network or "training_pairs" in trajectory
    return result.assign_attrs(
        law=json.dumps(dataclasses.asdict(law)),
        renamings=renamings,
        clock="epoch" if has_network else "step",
        pairs="the training pairs" if pairs_known else "all unordered pairs, each once",
    )


def can_be_audited(trajectory: xr.Dataset) -> bool:
    """Whether a trajectory has what `audit_forces` needs."""
    try:
        is_network = trajectory.attrs["system"] == ModularSettings.system
        (_check_network_run if is_network else _check_recorded_run)(trajectory)
    except TrajectoryError:
        return False
    return True


def _check_network_run(trajectory: xr.Dataset) -> None:
    for name in constant_attention_of(trajectory).variables:
        check_variable_recorded(trajectory, name)


def _read_network_run(
    trajectory: xr.Dataset, run: int, frames: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The embedding (step, token, axis) of a run of the network of CA, the targets (target, step, token, axis) at some
    frames, and the training pairs (pair, 2)."""
    network = constant_attention_of(trajectory)
    settings, seeds = network.settings, trajectory["seed"].values[[run]]
    chosen = training_pairs(settings.n, settings.train_pairs, seeds)[0]
    one = trajectory[list(network.variables)].isel(run=[run]).load()
    recorded = weights(one.isel(step=frames).assign_attrs(trajectory.attrs), run=0)
    force = -embedding_gradient(network, recorded, chosen)
    embedding = recorded["embedding"].numpy().astype(np.float64)
    later = np.minimum(frames + 1, trajectory.sizes["step"] - 1)
    update = one["embedding"].isel(run=0, step=later).transpose("step", "token", "axis").values - embedding
    return embedding, np.stack([force, update]), all_pairs(settings.n)[chosen]


def _check_recorded_run(trajectory: xr.Dataset) -> None:
    system = trajectory.attrs["system"]
    if "embedding_gradient" not in trajectory and system != RecordedSettings.system:
        expected = f"{ModularSettings.system}, or a model recorded by dynamics.record(..., embedding_gradient=True)"
        raise TrajectoryError(f"attribute system: found {system}, expected {expected}")
    numbers_modulo(trajectory)
    check_variable_recorded(trajectory, "embedding_gradient")
    if trajectory.sizes["step"] < 2:
        raise TrajectoryError("dimension step: found a single frame, expected at least two")


def _read_recorded_run(
    trajectory: xr.Dataset, run: int, frames: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_read_network_run`, of a recorded model, whose gradient lies in the frame after that of the embedding."""
    n, one = trajectory.attrs["modulus"], trajectory.isel(run=run)
    embedding, after, gradient = (
        one[name].isel(step=at, token=slice(n)).transpose("step", "token", "axis").values.astype(np.float64)
        for name, at in (("embedding", frames), ("embedding", frames + 1), ("embedding_gradient", frames + 1))
    )
    lasts = (one["step"].values[frames + 1] <= one["last_step"].values)[:, None, None]
    return embedding, np.stack([np.where(lasts, -gradient, 0.0), after - embedding]), _recorded_pairs(one, n)


def _recorded_pairs(one: xr.Dataset, n: int) -> np.ndarray:
    """The training pairs (pair, 2) of a recorded run: unordered, each once."""
    if "training_pairs" not in one:
        return all_pairs(n)
    pairs = one["training_pairs"].isel(step=0).values
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.isin(pairs, np.arange(n)).all():
        expected = f"(step, pair, 2) numbers from 0 to {n - 1}"
        raise TrajectoryError(f"variable training_pairs: found {one['training_pairs'].shape}, expected {expected}")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0)


def embedding_gradient(
    network: ConstantAttention, weights: Mapping[str, torch.Tensor], chosen: np.ndarray
) -> np.ndarray:
    """dL/dE of the training loss in float64, (step, token, axis), at weights (step, ...) of one run.

    chosen (pair,) bool are the training pairs among `all_pairs`.
    """
    pairs = torch.from_numpy(all_pairs(network.settings.n))
    fraction = torch.from_numpy(chosen / chosen.sum())
    double = {name: weight.double() for name, weight in weights.items()}
    double["embedding"].requires_grad_()
    loss = network.loss(double, pairs, fraction).sum()
    return torch.autograd.grad(loss, double["embedding"])[0].numpy()


def _audit_run(
    embedding: np.ndarray,
    targets: np.ndarray,
    pairs: np.ndarray,
    law: ParticleSettings,
    renamings: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:
    """The audit of one run from its embedding (step, token, axis), targets (target, step, token, axis) and training
    pairs (pair, 2): arrays (target, part, step), coefficients and weights (target, part, step, field)."""

    def parts(motion: np.ndarray) -> np.ndarray:
        return np.stack([motion, without_shift_and_scaling(motion, embedding)], axis=-4)

    def fit(fields: np.ndarray) -> FieldFit:
        each = parts(fields)  # (field, part, step, token, axis)
        return fit_force_fields(target_parts, np.broadcast_to(each[:, None], (len(fields), *target_parts.shape)))

    target_parts = parts(targets)
    law_force = parts(ParticleSystem(law, pairs=pairs).force(embedding)[0])
    cosine = cosine_similarity(target_parts, law_force)
    fitted = fit(force_fields(embedding, group_pairs(law.n, pairs)).force)
    renamed = [fit(fields_with_renamed_tokens(embedding, pairs, names)).r_squared for names in renamings]
    return {
        "cosine": cosine,
        "law_r_squared": np.where(cosine > 0, cosine, 0 * cosine) ** 2,
        "r_squared": fitted.r_squared,
        "renamed_r_squared": np.mean(renamed, axis=0) if renamed else np.full(cosine.shape, np.nan),
        "coefficient": fitted.coefficients,
        "weight": fitted.weights,
    }


# -------------------------------------------------------------------------------------------- as a table

_TABLE_EPOCHS = (0, 20, 100, 500, 2000)

_TABLE_QUANTITIES = {
    "cosine_whole": ("cosine", "gradient", "whole"),
    "cosine": ("cosine", "gradient", "normalised"),
    "law_r_squared": ("law_r_squared", "gradient", "normalised"),
    "r_squared": ("r_squared", "gradient", "normalised"),
    "renamed_r_squared": ("renamed_r_squared", "gradient", "normalised"),
    "cosine_update": ("cosine", "update", "normalised"),
}
"""Variable, target and part of each column."""

_HEADINGS = {
    "cosine_whole": "cosine whole",
    "cosine": "cosine",
    "law_r_squared": "R² law",
    "r_squared": "R² 4 fields",
    "renamed_r_squared": "renamed",
    "cosine_update": "cos update",
    "weight_like_attraction": "like attr.",
    "weight_unlike_repulsion": "unlike rep.",
    "weight_like_alignment": "like align.",
    "weight_unlike_alignment": "unlike align.",
}

_AUDIT_COLUMNS = (
    Column("runs", "runs"),
    *(Column(heading, name, digits=2, interval="half-width") for name, heading in _HEADINGS.items()),
)


def audit_columns(audit: xr.Dataset) -> list[Column]:
    """The columns of the table of an audit."""
    return [Column(audit.attrs["clock"], "epoch"), *_AUDIT_COLUMNS]


def audit_rows(audit: xr.Dataset, **leading: float) -> list[dict[str, float]]:
    """Rows of a table: means over runs with 95% intervals at the frames nearest to some epochs and the last.

    leading: values of further columns on the left.
    """
    rows, step = [], audit["step"].values
    epochs = [epoch for epoch in _TABLE_EPOCHS if epoch < step[-1]] + [step[-1]]
    for at in sorted({int(abs(step - epoch).argmin()) for epoch in epochs}):
        frame = audit.isel(step=at)
        samples = {
            name: frame[variable].sel(target=target, part=part).values
            for name, (variable, target, part) in _TABLE_QUANTITIES.items()
        }
        for name in ("weight", "coefficient"):
            fit = frame[name].sel(target="gradient", part="normalised")
            samples |= {f"{name}_{field}": fit.sel(field=field).values for field in FIELD_NAMES}
        row = {**leading, "epoch": int(frame["step"]), "runs": int(np.isfinite(samples["cosine_whole"]).sum())}
        for name, sample in samples.items():
            row |= interval_columns(name, mean_interval(sample[np.isfinite(sample)], limits=_limits(name)))
        rows.append(row)
    return rows


def _limits(name: str) -> tuple[float, float]:
    """The possible range of a quantity of the table."""
    if "r_squared" in name:
        return 0.0, 1.0
    return (-1.0, 1.0) if name.startswith("cosine") else (-np.inf, np.inf)


def audit_legend(audit: xr.Dataset) -> str:
    """The explanation below the table."""
    chance = float(audit["chance"].sel(part="normalised"))
    return (
        "All columns except 'cosine whole' refer to -dL/dE without its shift and scaling components, and 'cos update'\n"
        "to the update. The last four columns are the weights of the fields in the fit. Four random directions would\n"
        f"have an R² of {chance:.2f}. Forces are summed over {audit.attrs['pairs']}."
    )

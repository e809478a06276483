"""The force audit: how much of the gradient of a network's embeddings do the forces of
a particle law explain?

At the embeddings E of a network along its training, two targets are compared with the
forces of a law over the network's training pairs, by default those of CA section 6: the
negative gradient -dL/dE, and the update, which is the displacement to the next recorded
frame (`analysis.forces.audited_runs`). Each target is compared

- with the law, all forces with their constants and balance: cosine, and R² of this law
  times the best positive number;
- with the fields of the forces (for CA four: like attraction, unlike repulsion, like
  and unlike alignment), fitted by least squares in every frame: R², coefficients, and
  weights. A weight is the coefficient times the norm of the field, divided by the norm
  of the target.

Each comparison is made for the whole target and for its part without shift and scaling:
particles keep their mean and their spread (CA section 6), so the forces do not predict
these. If key frequencies are given, the comparison is also made in the plane of each:
embedding and target are projected on the plane that contains the Fourier component of
the embedding at this frequency, where its tokens can form a circle, and the forces are
those of the projected embedding.

Any target is partly explained by some fields. As a baseline the fit is repeated with
randomly renamed tokens, so that other pairs count as like; `renamed_r_squared` is the
mean R² of these fits (NaN up to N = 3, where every renaming preserves the task). R² = 1
- |y - fit|² / |y|², over all tokens and axes, is not centred. `chance` is the mean R²
of as many random directions. All values are dimensionless."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.forces.audited_runs import (
    TARGETS,
    AuditedRun,
    audited_trajectory,
    has_last_gradient,
    is_network,
    read_audited_run,
)
from analysis.forces.directions import cosine_similarity, without_shift_and_scaling
from analysis.forces.law_words import LawWords, law_words
from analysis.forces.pair_force_matrices import (
    fields_with_renamed_tokens,
    law_fields,
    law_force,
)
from analysis.output.results import with_comments
from analysis.output.tables import Column, interval_columns
from analysis.statistics.division import ratio
from analysis.statistics.intervals import drop_non_finite, mean_interval
from analysis.structures.fourier import fourier_frequencies
from dynamics.kernels.compiling import numba_threads
from dynamics.particles import known_law
from dynamics.progress import progress_bar
from dynamics.randomness import random_stream
from dynamics.recording.model_file import ModelFile
from dynamics.settings import ParticleSettings
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import time_unit
from dynamics.trajectory.selection import Selection

RENAMINGS = 8
PLANE_RENAMINGS = 2
"""Renamings in the plane of each key frequency, over which the baseline is also a
mean."""
AUDITED_FRAMES = 41

TARGET_PARTS = ("whole", "normalised")

_PLANE_MEASURES = ("cosine", "law_r_squared", "r_squared", "renamed_r_squared")


# --------------------------------------------------------------------------------- fits


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
    x = np.moveaxis(
        np.asarray(fields, dtype=np.float64).reshape(len(fields), *lead, -1), 0, -1
    )
    size = np.linalg.norm(y, axis=-1)
    length = np.linalg.norm(x, axis=-2)
    y = ratio(y, size[..., None], 0.0)
    x = ratio(x, length[..., None, :], 0.0)
    weights = (np.linalg.pinv(x, rcond=1e-10) @ y[..., None])[..., 0]
    rest = y - (x @ weights[..., None])[..., 0]
    r_squared = np.where(size > 0, 1 - (rest**2).sum(axis=-1), np.nan)
    scale = ratio(size[..., None], length, 0.0)
    weights = np.where(size[..., None] > 0, weights, np.nan)
    return FieldFit(weights * scale, weights, r_squared)


def random_renamings(n: int, seed: int, count: int) -> list[np.ndarray]:
    """Random permutations (token,) of n tokens that do not preserve the task; none for
    up to three tokens."""
    generator = random_stream(int(seed), "audit/names")
    renamings: list[np.ndarray] = []
    while n > 3 and len(renamings) < count:
        names = generator.permutation(n)
        # the names u i + c modulo N keep equal sums
        linear_names = (names[0] + np.arange(n) * (names[1] - names[0])) % n
        if (names != linear_names).any():
            renamings.append(names)
    return renamings


# ---------------------------------------------------------------------- of a trajectory


def audited_frames(
    trajectory: xr.Dataset,
    frames: int | Selection | np.ndarray,
    least: int,
    model: ModelFile | None = None,
) -> np.ndarray:
    """Indices of the selected frames that have a gradient: of at most `frames`, denser
    at the start, or of the given indices. Raises SettingsError for a number of frames
    below `least`."""
    count = trajectory.sizes["step"] - (not has_last_gradient(trajectory, model))
    if isinstance(frames, np.ndarray):
        return np.unique(np.minimum(frames, count - 1))
    if not isinstance(frames, Selection):
        frames = Selection(frames=frames, spacing="early")
    return frames.frame_indices(trajectory.isel(step=slice(count)), least)


def scaled_r_squared(cosine: np.ndarray) -> np.ndarray:
    """R² of a field times the best positive number, from the cosine between the field
    and the target."""
    return np.where(cosine > 0, cosine, 0 * cosine) ** 2


def audit_forces(
    trajectory: xr.Dataset,
    law: ParticleSettings | None = None,
    frames: int | Selection | np.ndarray = AUDITED_FRAMES,
    renamings: int = RENAMINGS,
    keys: np.ndarray | None = None,
    model: ModelFile | None = None,
) -> xr.Dataset:
    """Compare the gradient and the updates of a network's embeddings with the forces of
    a law, by default those of CA section 6.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory with recorded weights of the network of CA (system ``modular``) or
        of a transformer that adds numbers, or of any model that adds numbers modulo N,
        recorded with ``embedding_gradient=True``.
    law : ParticleSettings, optional
        Forces, constants and balance, by default CA's at f_a = 1. Its n and dim are the
        network's. Settings of a system from outside define `forces`.
    frames : int, Selection or array of int
        Number of audited frames, denser at the start, a selection of frames, or their
        indices.
    renamings : int
        Number of random renamings of the tokens for the baseline.
    keys : array of bool, shape (run, frequency), optional
        The frequencies, among 1 to N/2, in whose planes the comparison is also made,
        such as those from `analysis.progress_measures.trajectory_key_frequencies`.
    model : ModelFile, optional
        Functions of a model from outside, by which the gradient is computed if it is
        not recorded: `embedding`, and `loss` and `batches`, or `logits` and
        `training_pairs`.

    Returns
    -------
    xarray.Dataset
        By run, target, part and step: `cosine` and `law_r_squared` with the law;
        `r_squared`, `renamed_r_squared`, `coefficient` (field) and `weight` (field) of
        its fields, which have the names of its forces; `chance` (part). The targets are ``gradient`` and
        ``update``, the parts ``whole`` and ``normalised``, without shift and scaling.
        With keys, `plane_cosine`, `plane_law_r_squared`, `plane_r_squared` and
        `plane_renamed_r_squared`, by run, target, frequency and step, of the normalised
        part in each plane; NaN at other frequencies. NaN in the frames after a run
        diverged. The last frame of a recorded model has no gradient, and is left out.
        Attributes: `unit_of_time` (epoch or step), `unit`, its number of
        steps, `pairs`, which pairs the forces are summed over, and `law_name`,
        `law_short_name` and `law_force_count`, words for the law and the number of its
        fields.

    Raises
    ------
    TrajectoryError
        If the trajectory has no weights of a network that adds numbers, or no gradient
        of a recorded model.
    SettingsError
        For fewer than two frames, and for settings that do not say the law of their
        system.

    Examples
    --------
    >>> from analysis.forces import audit_forces
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=4, progress=False)
    >>> audit_forces(trajectory, renamings=2)["r_squared"].dims
    ('run', 'target', 'part', 'step')
    """
    trajectory = audited_trajectory(trajectory, model)
    has_network = is_network(trajectory)
    n = trajectory.attrs["modulus"]
    dim = trajectory.sizes["axis"]
    law = dataclasses.replace(
        known_law(law or ParticleSettings()), n=n, start="random", start_step=0
    )
    at = audited_frames(trajectory, frames, 2, model)
    seeds = trajectory["seed"].values
    results = []
    for run, seed in enumerate(progress_bar(seeds, desc="audit", unit="run")):
        audited = read_audited_run(trajectory, run, at, model)
        names = random_renamings(n, seed, renamings)
        # the frames of one run are too little work for several threads
        with numba_threads(1):
            outcome = _audit_run(audited, law, names)
            if keys is not None:
                outcome |= _audit_planes(audited, law, names, keys[run])
        results.append(outcome)
    result = xr.Dataset(
        {
            name: (
                _dims(name)[: values.ndim + 1],
                np.stack([item[name] for item in results]),
            )
            for name, values in results[0].items()
        },
        {
            "step": trajectory["step"].values[at],
            "time": ("step", trajectory["time"].values[at]),
            "seed": ("run", seeds),
            "target": list(TARGETS),
            "part": list(TARGET_PARTS),
            "field": [force.name for force in law.forces],
        },
    )
    if keys is not None:
        result = result.assign_coords(frequency=fourier_frequencies(n))
    result = result.where(
        valid_frames(result.assign(last_step=trajectory["last_step"].drop_attrs()))
    )
    free = n * dim - np.array([0, dim + 1])
    chance = np.clip(len(law.forces) / np.maximum(free, 1), 0, 1)
    result["chance"] = ("part", chance)
    has_function = model is not None and model.training_pairs is not None
    pairs_known = has_network or has_function or "training_pairs" in trajectory
    word, unit = time_unit(trajectory)
    result = with_comments(result, _COMMENTS)
    return result.assign_attrs(
        law=json.dumps(dataclasses.asdict(law) | {"dim": dim}),
        renamings=renamings,
        unit_of_time=word,
        unit=unit,
        pairs="the training pairs" if pairs_known else "all unordered pairs, each once",
        **LawWords.of(law).attributes,
    )


_COMMENTS = {
    "cosine": "cosine between the target and the force of the law",
    "law_r_squared": "R² of the law, times the best positive number",
    "r_squared": "R² of the best combination of the law's fields",
    "renamed_r_squared": "R² of the best combination with randomly renamed tokens",
    "coefficient": "coefficient of a field in the best combination",
    "weight": "length of a field in the best combination, relative to the target",
    "chance": "R² of as many random fields, expected",
    "target": "what is compared with the forces: the gradient or the update",
    "part": "the whole target, or its part without shift and scaling",
    "field": "field of forces of the law",
    "plane_cosine": "cosine with the force of the law, in the plane of a frequency",
    "plane_law_r_squared": "R² of the law, in the plane of a frequency",
    "plane_r_squared": "R² of the law's fields, in the plane of a frequency",
    "plane_renamed_r_squared": "R² with renamed tokens, in the plane of a frequency",
}
"""The meanings of the variables in the result of `audit_forces`."""


def _dims(name: str) -> tuple[str, ...]:
    return (
        "run",
        "target",
        "frequency" if name.startswith("plane_") else "part",
        "step",
        "field",
    )


def _audit_run(
    audited: AuditedRun, law: ParticleSettings, renamings: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """The audit of one run: arrays (target, part, step), coefficients and weights
    (target, part, step, field)."""
    embedding, targets, pairs = audited

    def parts(motion: np.ndarray) -> np.ndarray:
        return np.stack([motion, without_shift_and_scaling(motion, embedding)], axis=-4)

    def fit(fields: np.ndarray) -> FieldFit:
        item = parts(fields)  # (field, part, step, token, axis)
        return fit_force_fields(
            target_parts,
            np.broadcast_to(item[:, None], (len(item), *target_parts.shape)),
        )

    target_parts = parts(targets)
    fields = law_fields(embedding, pairs, law.forces)
    force = law_force(embedding, pairs, law, fields)
    cosine = cosine_similarity(target_parts, parts(force))
    fitted = fit(fields.force)
    others = fields_with_renamed_tokens(
        embedding, pairs, fields.force, renamings, law.forces
    )
    renamed = [fit(other).r_squared for other in others] or [np.nan * cosine]
    return {
        "cosine": cosine,
        "law_r_squared": scaled_r_squared(cosine),
        "r_squared": fitted.r_squared,
        "renamed_r_squared": np.mean(renamed, axis=0),
        "coefficient": fitted.coefficients,
        "weight": fitted.weights,
    }


def _audit_planes(
    audited: AuditedRun,
    law: ParticleSettings,
    renamings: Sequence[np.ndarray],
    keys: np.ndarray,
) -> dict[str, np.ndarray]:
    """The audit of the normalised part of a run in the planes of the key frequencies
    (frequency,) bool: arrays (target, frequency, step)."""
    few = renamings[:PLANE_RENAMINGS]
    planes = {
        k: _audit_run(in_plane(audited, k + 1), law, few)
        for k in np.flatnonzero(keys).tolist()
    }
    part = TARGET_PARTS.index("normalised")
    result = {}
    for name in _PLANE_MEASURES:
        values = result[f"plane_{name}"] = np.full(
            (len(TARGETS), len(keys), len(audited.embedding)), np.nan
        )
        for k, plane in planes.items():
            values[:, k] = plane[name][:, part]
    return result


def in_plane(audited: AuditedRun, frequency: int) -> AuditedRun:
    """A run projected on the plane of the Fourier component of its embedding at a
    frequency, in each frame."""
    n = audited.embedding.shape[-2]
    angle = 2 * np.pi * frequency * np.arange(n) / n
    component = (
        np.stack([np.cos(angle), np.sin(angle)]) @ audited.embedding
    )  # (step, 2, axis)
    plane = np.linalg.qr(component.swapaxes(-1, -2))[0]
    return AuditedRun(audited.embedding @ plane, audited.targets @ plane, audited.pairs)


# --------------------------------------------------------------------------- as a table

_TABLE_TIMES = (0, 20, 100, 500, 2000)

_TABLE_QUANTITIES = {
    "cosine_whole": ("cosine", "gradient", "whole"),
    "cosine": ("cosine", "gradient", "normalised"),
    "law_r_squared": ("law_r_squared", "gradient", "normalised"),
    "r_squared": ("r_squared", "gradient", "normalised"),
    "renamed_r_squared": ("renamed_r_squared", "gradient", "normalised"),
    "cosine_update": ("cosine", "update", "normalised"),
}
"""Variable, target and part of each column."""

_PLANE_HEADINGS = {
    "plane_cosine": "cosine planes",
    "plane_r_squared": "R² planes",
    "plane_renamed_r_squared": "renamed planes",
}

_FIELD_HEADINGS = {
    "like_attraction": "like attr.",
    "unlike_repulsion": "unlike rep.",
    "like_alignment": "like align.",
    "unlike_alignment": "unlike align.",
}
"""Short names of fields."""


def audit_columns(audit: xr.Dataset) -> list[Column]:
    """The columns of the table of an audit."""
    words = law_words(audit)
    headings = {
        "cosine_whole": "cosine whole",
        "cosine": "cosine",
        "law_r_squared": "R² law",
        "r_squared": f"R² {words.force_count} {words.field_noun}",
        "renamed_r_squared": "renamed",
        "cosine_update": "cos update",
    }
    for name, heading in _PLANE_HEADINGS.items():
        if name in audit:
            headings[name] = heading
    for field in audit["field"].values:
        heading = _FIELD_HEADINGS.get(field, field.replace("_", " "))
        headings[f"weight_{field}"] = heading
    return mean_columns(audit, headings)


def mean_columns(result: xr.Dataset, headings: Mapping[str, str]) -> list[Column]:
    """The columns of the time, the number of runs, and means with their intervals."""
    columns = [
        Column(heading, name, digits=2, interval="half-width")
        for name, heading in headings.items()
    ]
    unit = result.attrs["unit_of_time"]
    return [Column(unit, unit), Column("runs", "runs"), *columns]


def frame_time(result: xr.Dataset, step: float) -> float:
    """The time of a step in the unit of a result, an int if it is whole."""
    time = float(step) / result.attrs["unit"]
    return int(time) if time.is_integer() else time


def audit_rows(audit: xr.Dataset, **leading: float) -> list[dict[str, float]]:
    """Rows of a table: means over runs with 95% intervals at the frames nearest to some
    times and the last.

    leading: values of further columns on the left.
    """
    rows = []
    times = audit["step"].values / audit.attrs["unit"]
    shown = [time for time in _TABLE_TIMES if time < times[-1]] + [times[-1]]
    for at in sorted({int(abs(times - time).argmin()) for time in shown}):
        frame = audit.isel(step=at)
        samples = {
            name: frame[variable].sel(target=target, part=part).values
            for name, (variable, target, part) in _TABLE_QUANTITIES.items()
        }
        for name in ("weight", "coefficient"):
            fit = frame[name].sel(target="gradient", part="normalised")
            samples |= {
                f"{name}_{field}": fit.sel(field=field).values
                for field in audit["field"].values
            }
        for name in [name for name in _PLANE_HEADINGS if name in audit]:
            samples[name] = frame[name].sel(target="gradient").mean("frequency").values
        row = {
            **leading,
            audit.attrs["unit_of_time"]: frame_time(audit, float(frame["step"])),
            "runs": int(np.isfinite(samples["cosine_whole"]).sum()),
        }
        for name, sample in samples.items():
            mean = mean_interval(drop_non_finite(sample), limits=_limits(name))
            row |= interval_columns(name, mean)
        rows.append(row)
    return rows


def _limits(name: str) -> tuple[float, float]:
    """The possible range of a quantity of the table."""
    if "r_squared" in name:
        return 0.0, 1.0
    return (-1.0, 1.0) if "cosine" in name else (-np.inf, np.inf)


_PLANE_LEGEND = (
    "\nThe columns 'planes' are means over the planes of the key frequencies of each"
    " run."
)


def audit_legend(audit: xr.Dataset) -> str:
    """The explanation below the table."""
    chance = float(audit["chance"].sel(part="normalised"))
    words = law_words(audit)
    columns = f"last {words.number} columns are the weights of the fields"
    directions = f"{words.number.capitalize()} random directions"
    if words.force_count == 1:
        columns = "last column is the weight of the field"
        directions = "One random direction"
    return (
        "All columns except 'cosine whole' refer to -dL/dE without its shift and"
        f" scaling components, and 'cos update'\nto the update. The {columns}"
        f" in the fit. {directions} would\nhave an R² of {chance:.2f}. Forces are"
        f" summed over {audit.attrs['pairs']}."
        + (_PLANE_LEGEND if "plane_cosine" in audit else "")
    )

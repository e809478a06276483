"""The best pair law: how much of the gradient of a network's embeddings does any force
between pair sums explain?

A pair law is a force on the pair sum x_ij by the others x_km,

    f(r) (x_ij - x_km) / r + h(c) x_km / |x_km|,    r = |x_ij - x_km|,    c = cosine of x_ij and x_km

with functions f and h of its own for pairs with equal modular sums (like) and with
different ones (unlike). CA's law is f = -1 and h = f_a 1(c > 0) for like pairs, f = 1/r
and h = -f_a 1(c > 0) for unlike pairs, weighted by its balance. Here the functions are
estimated: f piecewise linear in log r, h constant on intervals of c
(`analysis.forces.pair_force_matrices`), one law for all runs and frames but for a
positive factor in each frame. The coefficients maximise the mean of cos² between force
and -dL/dE, with a ridge that is chosen by cross-validation over runs.

All values of the law are for held-out runs and frames: those of a run at every second
frame are by a law that was fitted at the other frames to other runs, all of them or, of
more than five, four fifths. `analysis.forces.force_audit` has the meaning of -dL/dE, of
its normalised part, which is the target here, of renamed tokens and of planes. Cosines
and R² (cos² if the cosine is positive) are dimensionless, distances are in units of the
root mean square distance of two pair sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.forces.audited_runs import (
    AuditedRun,
    audited_trajectory,
    read_audited_run,
)
from analysis.forces.directions import without_shift_and_scaling
from analysis.forces.force_audit import (
    audited_frames,
    frame_time,
    in_plane,
    mean_columns,
    random_renamings,
    scaled_r_squared,
)
from analysis.forces.pair_force_matrices import (
    ANGLE_CENTRES,
    BASIS,
    DISTANCES,
    fields_by_matrices,
    pair_sum_distance,
)
from analysis.output.tables import Column, interval_columns
from analysis.statistics.division import ratio
from analysis.statistics.intervals import drop_non_finite, mean_interval
from dynamics.errors import TrajectoryError
from dynamics.particles import FIELD_NAMES, group_pairs
from dynamics.recording.model_file import ModelFile
from dynamics.settings import ParticleSettings
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import time_unit
from dynamics.trajectory.selection import Selection

LAW_FRAMES = 16
"""Default number of frames."""

LEAST_FRAMES = 4
"""Smallest number of frames."""
RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Ridges among which cross-validation chooses, relative to the diagonal of the normal
equations."""
SPACES = ("whole", "planes")
LAWS = ("CA", "four fields", "pair law", "renamed")
"""The law of CA with its constants, its four fields and the pair law with fitted
coefficients, and the pair law fitted with renamed tokens."""
_ROUNDS = 30
_FOLDS = 5


class Moments(NamedTuple):
    """Products of fields and of a target of norm 1, from which fits and cosines follow;
    with any leading axes."""

    gram: np.ndarray
    """(..., field, field)"""
    product: np.ndarray
    """(..., field); NaN if the target is 0."""

    def select(self, mask: np.ndarray | slice, fields: slice = slice(None)) -> Moments:
        return Moments(
            self.gram[mask][..., fields, fields], self.product[mask][..., fields]
        )


_SEEN = 1e-3
"""Mean square of a field, relative to the largest of the same function, from which its
coefficient is shown."""
_CUTS = np.cumsum(list(BASIS.values()))[:-1]
_FOUR, _PAIR = slice(0, len(FIELD_NAMES)), slice(len(FIELD_NAMES), None)
"""The fields of CA and the basis of the pair law among the fields of
`fields_by_matrices`."""


def field_moments(
    force: np.ndarray, target: np.ndarray, embedding: np.ndarray
) -> Moments:
    """Products of fields (field, step, token, axis) with each other and with a target
    (step, token, axis), both without shift and scaling."""
    x = np.moveaxis(without_shift_and_scaling(force, embedding), 0, 1).reshape(
        len(target), len(force), -1
    )
    y = without_shift_and_scaling(target, embedding).reshape(len(target), -1)
    size = np.linalg.norm(y, axis=1)[:, None]
    y = ratio(y, size)
    return Moments(x @ x.swapaxes(-1, -2), (x @ y[..., None])[..., 0])


def fit_coefficients(moments: Moments, ridge: float) -> np.ndarray:
    """The coefficients (field,) of one law for all samples but for a positive factor in
    each; moments (sample, ...).

    Least squares for the coefficients and the factors in turn. A field that is 0
    everywhere has the coefficient 0."""
    gram, product = moments
    factor = np.ones(len(gram))
    for _ in range(_ROUNDS):
        normal = np.einsum("s,sfg->fg", factor**2, gram)
        diagonal = np.where(normal.diagonal() > 0, normal.diagonal(), 1)
        coefficients = np.linalg.solve(
            normal + ridge * np.diag(diagonal), factor @ product
        )
        along = product @ coefficients
        square = _quadratic(gram, coefficients)
        factor = ratio(np.maximum(along, 0), square, 0.0)
        if not factor.any():
            break
        factor /= factor.mean()
    return coefficients


def law_cosines(moments: Moments, coefficients: np.ndarray) -> np.ndarray:
    """Cosine of the force of a law and the target in each sample; NaN where either is
    0."""
    along = moments.product @ coefficients
    return ratio(along, np.sqrt(_quadratic(moments.gram, coefficients)))


def _quadratic(gram: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    return np.einsum("f,...fg,g->...", coefficients, gram, coefficients)


def choose_ridge(moments: Moments, group: np.ndarray) -> float:
    """The ridge with the largest mean R² of samples of one group by the law of the
    others; group (sample,)."""
    scores = []
    for ridge in RIDGES:
        result = np.full(len(group), np.nan)
        for item in np.unique(group):
            law = fit_coefficients(moments.select(group != item), ridge)
            result[group == item] = scaled_r_squared(
                law_cosines(moments.select(group == item), law)
            )
        scores.append(np.nanmean(result))
    return RIDGES[int(np.argmax(scores))]


def held_out_cosines(
    moments: Moments, run: np.ndarray, frame: np.ndarray
) -> np.ndarray:
    """Cosines of samples, (sample,), each by a law fitted to the runs of other folds at
    frames of the other parity.

    run, frame (sample,) are indices. NaN where the target is 0.
    """
    fold = run % _FOLDS
    cosines = np.full(len(run), np.nan)
    finite = np.isfinite(moments.product).all(axis=-1)
    for item in np.unique(fold):
        for parity in range(2):
            others = finite & (fold != item) & (frame % 2 != parity)
            tested = finite & (fold == item) & (frame % 2 == parity)
            if not others.any():
                continue
            fitted = moments.select(others)
            several = len(np.unique(fold[others])) > 1
            ridge = choose_ridge(
                fitted, fold[others] if several else frame[others] // 2 % 2
            )
            cosines[tested] = law_cosines(
                moments.select(tested), fit_coefficients(fitted, ridge)
            )
    return cosines


def frame_r_squared(moments: Moments) -> np.ndarray:
    """R² of coefficients that are fitted to each sample alone: the most that any law
    can explain in it."""
    scale = np.sqrt(np.diagonal(moments.gram, axis1=-2, axis2=-1))
    scale = np.where(scale > 0, scale, 1)
    normal = moments.gram / scale[..., None] / scale[..., None, :]
    scaled = np.nan_to_num(moments.product / scale)
    r_squared = np.einsum(
        "...f,...fg,...g->...",
        scaled,
        np.linalg.pinv(normal, rcond=1e-9, hermitian=True),
        scaled,
    )
    return np.where(
        np.isfinite(moments.product).all(axis=-1), np.clip(r_squared, 0, 1), np.nan
    )


# ---------------------------------------------------------------------- of a trajectory


class _Samples(NamedTuple):
    """The frames of one run in one space."""

    moments: Moments
    renamed: Moments
    cosine: np.ndarray
    """(step,) of the law of CA."""
    paper: np.ndarray
    """(step, field) coefficients of the law of CA in the basis."""


def fit_pair_law(
    trajectory: xr.Dataset,
    law: ParticleSettings | None = None,
    frames: int | Selection | np.ndarray = LAW_FRAMES,
    keys: np.ndarray | None = None,
    model: ModelFile | None = None,
) -> xr.Dataset:
    """Fit a pair law to -dL/dE of a network's embeddings, and compare it with CA's on
    held-out runs and frames.

    Parameters
    ----------
    trajectory : xarray.Dataset
        As `audit_forces` takes, with at least two runs.
    law : ParticleSettings, optional
        Constants and balance of CA's law, by default those at f_a = 1.
    frames : int, Selection or array of int
        Number of frames, 4 or more, denser at the start, a selection of frames, or
        their indices.
    keys : array of bool, shape (run, frequency), optional
        Frequencies in whose planes laws are also fitted.
    model : ModelFile, optional
        As `audit_forces` takes.

    Returns
    -------
    xarray.Dataset
        By run, space and step: `cosine` and `r_squared` of each of the `LAWS` (law),
        and `frame_r_squared`, of fits to the frame itself, for the last three; NaN
        where there are as many coefficients as numbers. The spaces are ``whole`` and,
        with keys, ``planes``: means over the planes of a run. The law fitted to all
        runs and frames, by space: `like` and `unlike` at each `distance` (knot), where
        positive values are repulsion, and `like_alignment` and `unlike_alignment` at
        each cosine `angle` (angle_step); `paper_like` and so on are CA's law with a
        force of the same size. NaN where the data do not determine it.

    Raises
    ------
    TrajectoryError
        As `audit_forces`, and for a single run.
    SettingsError
        For fewer than four frames.

    Examples
    --------
    >>> from analysis.forces import fit_pair_law
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=40, progress=False)
    >>> fit_pair_law(trajectory, frames=4)["r_squared"].dims
    ('run', 'space', 'law', 'step')
    """
    trajectory = audited_trajectory(trajectory, model)
    if trajectory.sizes["run"] < 2:
        raise TrajectoryError(
            "dimension run: found a single run, expected at least two, of which one is"
            " held out"
        )
    law = law or ParticleSettings()
    seeds = trajectory["seed"].values
    at = audited_frames(trajectory, frames, LEAST_FRAMES, model)
    valid = valid_frames(trajectory).values[:, at]
    spaces = SPACES[: 1 + (keys is not None)]
    samples: dict[str, list[tuple[int, _Samples]]] = {space: [] for space in spaces}
    for run, seed in enumerate(
        tqdm(seeds, desc="pair law", unit="run", disable=None, leave=False)
    ):
        audited = read_audited_run(trajectory, run, at, model)
        names = random_renamings(trajectory.attrs["modulus"], seed, 1)
        audited.targets[:, ~valid[run]] = 0
        samples["whole"].append((run, _read_samples(audited, law, names)))
        for k in np.flatnonzero(keys[run]).tolist() if keys is not None else ():
            plane = in_plane(audited, k + 1)
            samples["planes"].append((run, _read_samples(plane, law, names)))
    coords = {
        "space": list(spaces),
        "law": list(LAWS),
        "step": trajectory["step"].values[at],
        "seed": ("run", seeds),
    }
    n = trajectory.attrs["modulus"]
    dims = (trajectory.sizes["axis"], 2)
    parts = [
        _fit_space(samples[space], len(seeds), (n - 1) * dim - 1)
        for space, dim in zip(spaces, dims, strict=False)
    ]
    coords |= {"distance": ("knot", DISTANCES), "angle": ("angle_step", ANGLE_CENTRES)}
    result = xr.concat(parts, "space").assign_coords(coords)
    result = result.transpose("run", "space", "law", "step", ...)
    word, unit = time_unit(trajectory)
    return result.assign_attrs(clock=word, unit=unit)


def _read_samples(
    audited: AuditedRun, law: ParticleSettings, renamings: Sequence[np.ndarray]
) -> _Samples:
    embedding, targets, pairs = audited
    fields = fields_by_matrices(embedding, pairs, basis=True)
    renamed = np.full_like(fields.force, np.nan)
    for names in renamings:
        x = np.empty_like(embedding)
        x[:, names] = embedding
        renamed = fields_by_matrices(x, names[pairs], basis=True).force[..., names, :]
    moments = field_moments(fields.force, targets[0], embedding)
    others = field_moments(renamed, targets[0], embedding)
    grouped = group_pairs(embedding.shape[1], pairs)
    weights = balance_weights(fields.magnitude, grouped, law)
    constants = np.stack(
        np.broadcast_arrays(law.ga, law.gr * weights[0], law.fa, law.fa * weights[1]),
        axis=-1,
    )
    cosine = np.array(
        [
            law_cosines(moments.select(slice(at, at + 1), _FOUR), c)[0]
            for at, c in enumerate(constants)
        ]
    )
    sizes = np.array([pair_sum_distance(frame, pairs) for frame in embedding])
    return _Samples(moments, others, cosine, _paper_coefficients(constants, sizes))


def _paper_coefficients(constants: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The law of CA in the basis, (step, field), from the constants of its four fields
    (step, 4) and the unit of length (step,)."""
    attraction, repulsion, like, unlike = constants.T[..., None]
    inverse = 1 / (DISTANCES * np.where(sizes > 0, sizes, 1)[:, None])
    facing = ANGLE_CENTRES > 0
    parts = [
        -attraction + 0 * inverse,
        repulsion * inverse,
        like * facing,
        -unlike * facing,
    ]
    return np.concatenate(parts, axis=1)


def _join_moments(moments: Sequence[Moments]) -> Moments:
    """The moments of several samples as those of one."""
    return Moments(*map(np.concatenate, zip(*moments, strict=True)))


def _fit_space(
    samples: Sequence[tuple[int, _Samples]], runs: int, free: int
) -> xr.Dataset:
    """Cosines, R² and the law of one space; those of a run are means over its samples.

    free: number of free components of the target; not more of them than coefficients
    can be fitted in a frame."""
    of_run = np.array([run for run, _ in samples])
    steps = len(samples[0][1].cosine)
    run, frame = np.repeat(of_run, steps), np.tile(np.arange(steps), len(samples))
    moments = _join_moments([one.moments for _, one in samples])
    renamed = _join_moments([one.renamed for _, one in samples])

    def by_run(values: np.ndarray) -> np.ndarray:
        means = np.full((runs, steps), np.nan)
        for value in np.unique(of_run):
            rows = values.reshape(-1, steps)[of_run == value]
            some = np.isfinite(rows).any(axis=0)
            means[value, some] = np.nanmean(rows[:, some], axis=0)
        return means

    fitted = {
        "four fields": moments.select(slice(None), _FOUR),
        "pair law": moments.select(slice(None), _PAIR),
        "renamed": renamed.select(slice(None), _PAIR),
    }
    cosines = {"CA": np.concatenate([one.cosine for _, one in samples])}
    cosines |= {
        name: held_out_cosines(value, run, frame) for name, value in fitted.items()
    }
    in_frame = {"CA": scaled_r_squared(cosines["CA"])}
    for name, value in fitted.items():
        in_frame[name] = np.full(len(run), np.nan)
        if free > value.product.shape[-1]:
            in_frame[name] = frame_r_squared(value)
    measures = {
        "cosine": cosines,
        "r_squared": {name: scaled_r_squared(cosines[name]) for name in LAWS},
        "frame_r_squared": in_frame,
    }
    data: dict[str, Any] = {}
    for measure, values_of in measures.items():
        by_law = np.stack([by_run(values_of[name]) for name in LAWS])
        data[measure] = (("law", "run", "step"), by_law)
    paper = np.concatenate([one.paper for _, one in samples])
    values = _overall_law(fitted["pair law"], run, paper)
    for name, split, expected in zip(
        BASIS, *(np.split(value, _CUTS) for value in values), strict=True
    ):
        knot = "knot" if BASIS[name] == len(DISTANCES) else "angle_step"
        data[name], data[f"paper_{name}"] = (knot, split), (knot, expected)
    return xr.Dataset(data)


def _overall_law(
    moments: Moments, run: np.ndarray, paper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of the law of all samples, and those of CA's (sample, field) as
    a mean with the same force.

    A force f(r) = k r between like pairs, or between unlike pairs, only shifts and
    scales an embedding if all pairs are present, so k is not determined: it is chosen
    so that f is nearest to CA's. The largest value is 1; NaN where hardly any force
    depends on a coefficient."""
    finite = np.isfinite(moments.product).all(axis=-1)
    selected = moments.select(finite)
    coefficients = fit_coefficients(
        selected, choose_ridge(selected, run[finite] % _FOLDS)
    )
    mean = selected.gram.mean(axis=0)
    expected = paper[finite].mean(axis=0)
    size, other = (np.sqrt(_quadratic(mean, item)) for item in (coefficients, expected))
    power = mean.diagonal()
    expected = expected * size / other
    for first in (0, len(DISTANCES)):
        part = slice(first, first + len(DISTANCES))
        weight = power[part] * DISTANCES
        factor = (
            weight
            @ (expected - coefficients)[part]
            / max(weight @ DISTANCES, np.finfo(float).tiny)
        )
        coefficients[part] += factor * DISTANCES
    most = np.concatenate(
        [np.full(len(part), part.max()) for part in np.split(power, _CUTS)]
    )
    seen = power > _SEEN * most
    scale = np.abs(coefficients[seen]).max()
    return np.where(seen, coefficients / scale, np.nan), np.where(
        seen, expected / scale, np.nan
    )


# --------------------------------------------------------------------------- as a table

_TABLE_QUANTITIES = {
    "cosine_ca": ("cosine CA", "cosine", "CA"),
    "cosine_pair": ("pair law", "cosine", "pair law"),
    "r_squared_ca": ("R² CA", "r_squared", "CA"),
    "r_squared_four": ("4 fields", "r_squared", "four fields"),
    "r_squared_pair": ("pair law", "r_squared", "pair law"),
    "r_squared_renamed": ("renamed", "r_squared", "renamed"),
    "frame_pair": ("R² in frame", "frame_r_squared", "pair law"),
    "frame_renamed": ("renamed", "frame_r_squared", "renamed"),
}
"""Heading, variable and law of each column."""


def pair_law_columns(result: xr.Dataset) -> list[Column]:
    """The columns of the table."""
    headings = {name: heading for name, (heading, *_) in _TABLE_QUANTITIES.items()}
    return [Column("space", "space"), *mean_columns(result, headings)]


def pair_law_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """Rows of a table: means over runs with 95% intervals in each space and frame."""
    rows = []
    for space in result["space"].values:
        for step in result["step"].values:
            frame = result.sel(space=space, step=step)
            row: dict[str, Any] = {"space": str(space), "step": int(step)}
            row[result.attrs["clock"]] = frame_time(result, step)
            row["runs"] = int(np.isfinite(frame["cosine"].sel(law="CA")).sum())
            for name, (_, variable, law) in _TABLE_QUANTITIES.items():
                limits = (-1.0, 1.0) if variable == "cosine" else (0.0, 1.0)
                sample = drop_non_finite(frame[variable].sel(law=law).values)
                row |= interval_columns(name, mean_interval(sample, limits=limits))
            rows.append(row)
    return rows


PAIR_LAW_LEGEND = (
    "Cosine and R² (with one positive factor) of -dL/dE without shift and scaling. '4"
    " fields', 'pair law' and\n'renamed' are fitted to other runs and other frames; 'in"
    " frame' to the frame itself, where it is the most that\nany law between pair sums"
    " explains. Part of that is chance: compare it with 'renamed', for renamed tokens."
)
"""The explanation below the table."""

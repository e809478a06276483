"""The best pair law: how much of the gradient of a network's embeddings does any force
between pair sums explain?

A pair law is a force on the pair sum x_ij by the others x_km,

    f(r) (x_ij - x_km) / r + h(c) x_km / |x_km|,    r = |x_ij - x_km|,    c = cosine of x_ij and x_km

with functions f and h of its own for pairs with equal modular sums (like) and with
different ones (unlike). Any law of `dynamics.forces` is one; CA's has f = -1 and h = f_a
1(c > 0) for like pairs, f = 1/r and h = -f_a 1(c > 0) for unlike pairs, weighted by its
balance. Here the functions are estimated: f piecewise linear in log r, h constant on intervals of c
(`analysis.forces.pair_force_matrices`), one law for all runs and frames but for a
positive factor in each frame. The coefficients maximise the mean of cos² between force
and -dL/dE, with a ridge that is chosen by cross-validation over runs.

All values of the law are for held-out runs and frames: those of a run at every second
frame are by a law that was fitted at the other frames to other runs, all of them or, of
more than five, four fifths. `analysis.forces.force_audit` has the meaning of -dL/dE, of
its normalised part, which is the target here, of renamed tokens and of planes. Cosines
and R² (cos² if the cosine is positive) are dimensionless, distances are in units of the
root mean square distance of two pair sums.

`fitted_forces` returns the law as forces for particles. Particles have a standard
deviation of 1, so that over all pairs i <= j of N particles in D dimensions this root
mean square is sqrt(4 D (N + 2) / (N + 1)): the squares of the pair sums add up to (N +
2) N D. The law is multiplied by the factor with which the mean square of its force, over
the frames that it was fitted to and without shift and scaling, is that of the law that
it is compared with, so that a step size means the same for both. The balance of that law
enters by its mean coefficients over the frames; the fitted law has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

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
from analysis.forces.law_words import LawWords, law_words
from analysis.forces.pair_force_matrices import (
    ANGLE_CENTRES,
    ANGLES,
    BASIS,
    DISTANCES,
    fields_by_matrices,
    pair_sum_distance,
)
from analysis.output.tables import Column, interval_columns
from analysis.statistics.division import ratio
from analysis.statistics.intervals import drop_non_finite, mean_interval
from analysis.statistics.resampling import (
    FEWEST_FOR_JACKKNIFE,
    leave_one_out_interval,
)
from dynamics.errors import TrajectoryError
from dynamics.expressions import number_text
from dynamics.forces import Force, law_json
from dynamics.law_files import LAW_ATTRIBUTE
from dynamics.particles import group_pairs, known_law
from dynamics.particles.integrator import field_weights
from dynamics.progress import progress_bar
from dynamics.recording.model_file import ModelFile
from dynamics.settings import ParticleSettings
from dynamics.strengths import evaluate
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
OWN_LAWS = ("given law", "its fields", "pair law", "renamed")
"""The same if another law than CA's is given."""
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
_BASIS_FIELDS = sum(BASIS.values())
_GIVEN, _PAIR = slice(-_BASIS_FIELDS), slice(-_BASIS_FIELDS, None)
"""The fields of the given law and the basis of the pair law among the fields of
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
        normal = np.tensordot(factor**2, gram, 1)
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
    return (gram @ coefficients) @ coefficients


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
    """(step,) of the given law."""
    given: np.ndarray
    """(step, field) coefficients of the given law in the basis."""


def fit_pair_law(
    trajectory: xr.Dataset,
    law: ParticleSettings | None = None,
    frames: int | Selection | np.ndarray = LAW_FRAMES,
    keys: np.ndarray | None = None,
    model: ModelFile | None = None,
) -> xr.Dataset:
    """Fit a pair law to -dL/dE of a network's embeddings, and compare it with CA's, or
    another given law, on held-out runs and frames.

    Parameters
    ----------
    trajectory : xarray.Dataset
        As `audit_forces` takes, with at least two runs.
    law : ParticleSettings, optional
        Forces, constants and balance of the given law, by default CA's at f_a = 1.
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
        each cosine `angle` (angle_step), with 95% intervals `like_low`, `like_high` and
        so on, by leaving out each of three or more runs; `paper_like` and so on are the
        given law, by default CA's, with a force of the same size. NaN where the data do
        not determine it. `force_factor`, by which the functions have the size of the
        given law. The attribute `law_json` has the law of the whole space for
        ``ParticleSettings(law=...)``, see `fitted_forces`.

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
    law = known_law(law or ParticleSettings())
    seeds = trajectory["seed"].values
    at = audited_frames(trajectory, frames, LEAST_FRAMES, model)
    valid = valid_frames(trajectory).values[:, at]
    spaces = SPACES[: 1 + (keys is not None)]
    samples: dict[str, list[tuple[int, _Samples]]] = {space: [] for space in spaces}
    for run, seed in enumerate(progress_bar(seeds, desc="pair law", unit="run")):
        audited = read_audited_run(trajectory, run, at, model)
        names = random_renamings(trajectory.attrs["modulus"], seed, 1)
        audited.targets[:, ~valid[run]] = 0
        samples["whole"].append((run, _read_samples(audited, law, names)))
        for k in np.flatnonzero(keys[run]).tolist() if keys is not None else ():
            plane = in_plane(audited, k + 1)
            samples["planes"].append((run, _read_samples(plane, law, names)))
    words = LawWords.of(law)
    coords = {
        "space": list(spaces),
        "law": list(LAWS if words == LawWords() else OWN_LAWS),
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
    result = result.assign_attrs(
        unit_of_time=word, unit=unit, modulus=n, dim=dims[0], **words.attributes
    )
    return result.assign_attrs({LAW_ATTRIBUTE: law_json(fitted_forces(result))})


def _read_samples(
    audited: AuditedRun, law: ParticleSettings, renamings: Sequence[np.ndarray]
) -> _Samples:
    embedding, targets, pairs = audited
    fields = fields_by_matrices(embedding, pairs, law.forces, basis=True)
    renamed = np.full_like(fields.force, np.nan)
    for names in renamings:
        x = np.empty_like(embedding)
        x[:, names] = embedding
        fields_of_names = fields_by_matrices(x, names[pairs], law.forces, basis=True)
        renamed = fields_of_names.force[..., names, :]
    moments = field_moments(fields.force, targets[0], embedding)
    others = field_moments(renamed, targets[0], embedding)
    grouped = group_pairs(embedding.shape[1], pairs)
    constants = field_weights(fields.magnitude[_GIVEN], law, grouped).T
    cosine = np.array(
        [
            law_cosines(moments.select(slice(at, at + 1), _GIVEN), c)[0]
            for at, c in enumerate(constants)
        ]
    )
    sizes = np.array([pair_sum_distance(frame, pairs) for frame in embedding])
    given = _coefficients_in_basis(law.forces, constants, sizes)
    return _Samples(moments, others, cosine, given)


def _coefficients_in_basis(
    forces: Sequence[Force], constants: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """A law in the basis, (step, field), from the constants of its fields (step, force)
    and the unit of length (step,)."""
    distances = DISTANCES * np.where(sizes > 0, sizes, 1)[:, None]
    angles = np.broadcast_to(ANGLE_CENTRES, (len(sizes), ANGLES))
    parts = {name: np.zeros((len(sizes), count)) for name, count in BASIS.items()}
    for force, constant in zip(forces, constants.T, strict=True):
        values = distances if force.is_radial else angles
        strength = evaluate(force.expression, values) * constant[:, None]
        for kind in ("like", "unlike"):
            if force.acts_between(kind):
                parts[kind if force.is_radial else f"{kind}_alignment"] += strength
    return np.concatenate(list(parts.values()), axis=1)


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
        "four fields": moments.select(slice(None), _GIVEN),
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
    given = np.concatenate([one.given for _, one in samples])
    law = _overall_law(fitted["pair law"], run, given)
    for suffix, values in law.functions.items():
        for name, split in zip(BASIS, np.split(values, _CUTS), strict=True):
            knot = "knot" if BASIS[name] == len(DISTANCES) else "angle_step"
            data[suffix.format(name)] = (knot, split)
    return xr.Dataset(data | {"force_factor": law.factor})


class _OverallLaw(NamedTuple):
    """The law of all samples."""

    functions: dict[str, np.ndarray]
    """(field,) The coefficients, their bounds, and those of the given law, by the names
    of variables with the name of a function in {}; NaN where hardly any force depends
    on a coefficient."""
    factor: float
    """The factor by which the coefficients have the size of the given law."""


def _overall_law(moments: Moments, run: np.ndarray, given: np.ndarray) -> _OverallLaw:
    """The law of all samples, and the given one, whose coefficients are a mean over the
    samples (sample, field), with the same force. The largest value is 1."""
    finite = np.isfinite(moments.product).all(axis=-1)
    selected = moments.select(finite)
    of_run = run[finite]
    ridge = choose_ridge(selected, of_run % _FOLDS)
    mean = selected.gram.mean(axis=0)
    power = mean.diagonal()

    def force_size(coefficients: np.ndarray) -> float:
        return float(np.sqrt(_quadratic(mean, coefficients)))

    fitted = fit_coefficients(selected, ridge)
    own = given[finite].mean(axis=0)
    scale = float(ratio(force_size(fitted), force_size(own), 0.0))
    expected = own * scale
    coefficients = _nearest_coefficients(fitted, expected, power)
    runs = np.unique(of_run)
    without = []
    for item in runs if len(runs) >= FEWEST_FOR_JACKKNIFE else ():
        one = fit_coefficients(selected.select(of_run != item), ridge)
        one = one * ratio(force_size(fitted), force_size(one), 0.0)
        without.append(_nearest_coefficients(one, expected, power))
    bounds = np.full((2, len(coefficients)), np.nan)
    if without:
        intervals = [
            leave_one_out_interval(value, [values])
            for value, values in zip(
                coefficients.tolist(), np.transpose(without), strict=True
            )
        ]
        bounds = np.array([[item.low, item.high] for item in intervals]).T
    most = np.concatenate(
        [np.full(len(part), part.max()) for part in np.split(power, _CUTS)]
    )
    seen = power > _SEEN * most
    largest = float(np.abs(coefficients[seen]).max())
    functions = {
        "{}": coefficients,
        "{}_low": bounds[0],
        "{}_high": bounds[1],
        "paper_{}": expected,
    }
    return _OverallLaw(
        {
            name: np.where(seen, values / largest, np.nan)
            for name, values in functions.items()
        },
        float(ratio(largest, scale, 1.0)),
    )


def _nearest_coefficients(
    coefficients: np.ndarray, expected: np.ndarray, power: np.ndarray
) -> np.ndarray:
    """Coefficients with the same force that are nearest to those of the given law.

    A force f(r) = k r between like pairs, or between unlike pairs, only shifts and
    scales an embedding if all pairs are present, so k is not determined: it is chosen
    so that f is nearest to that of the given law. power: mean square of each field."""
    nearest = coefficients.copy()
    for first in (0, len(DISTANCES)):
        part = slice(first, first + len(DISTANCES))
        weight = power[part] * DISTANCES
        factor = (
            weight
            @ (expected - coefficients)[part]
            / max(weight @ DISTANCES, np.finfo(float).tiny)
        )
        nearest[part] += factor * DISTANCES
    return nearest


# ----------------------------------------------------------------- as a law of particles


def fitted_forces(
    result: xr.Dataset,
    n: int | None = None,
    dim: int | None = None,
    space: str = "whole",
) -> tuple[Force, ...]:
    """The fitted pair law as forces for particles.

    Parameters
    ----------
    result : xarray.Dataset
        Of `fit_pair_law`.
    n, dim : int, optional
        Number of particles N and dimension D, by default those of the network. They
        determine the unit of length, sqrt(4 D (N + 2) / (N + 1)), which is the root mean
        square distance of two pair sums.
    space : {"whole", "planes"}, optional

    Returns
    -------
    tuple of Force
        ``like_force``, ``unlike_force``, ``like_alignment`` and ``unlike_alignment``,
        without balance, and with the size of the force of the law that the result was
        compared with, so that the step size means the same. Values that are not
        determined are those of the nearest distance or angle that is; a function
        without any is 0.

    Examples
    --------
    >>> from analysis.forces import fit_pair_law, fitted_forces
    >>> from dynamics import ModularSettings, ParticleSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=40, progress=False)
    >>> law = fitted_forces(fit_pair_law(trajectory, frames=4))
    >>> [force.name for force in law]
    ['like_force', 'unlike_force', 'like_alignment', 'unlike_alignment']
    >>> ParticleSettings(n=5, law=law).law == law
    True
    """
    n = result.attrs["modulus"] if n is None else n
    dim = result.attrs["dim"] if dim is None else dim
    unit = float(np.sqrt(4 * dim * (n + 2) / (n + 1)))
    one = result.sel(space=space)
    factor = float(one["force_factor"])
    knots = _numbers(np.log(one["distance"].values * unit))
    kinds: tuple[Literal["like", "unlike"], ...] = ("like", "unlike")
    forces = []
    for kind in kinds:
        values = _numbers(factor * _continued(one[kind].values))
        strength = f"interp(log(r), {knots}, {values})"
        forces.append(Force(f"{kind}_force", kind, "difference", strength))
    for kind in kinds:
        name = f"{kind}_alignment"
        strength = _steps(factor * _continued(one[name].values))
        forces.append(Force(name, kind, "other", strength))
    return tuple(forces)


def _numbers(values: np.ndarray) -> str:
    """A list of numbers as text of an expression."""
    return f"[{', '.join(map(number_text, values.tolist()))}]"


def _continued(values: np.ndarray) -> np.ndarray:
    """Values whose NaN are replaced by the nearest number, or all by 0."""
    known = np.flatnonzero(np.isfinite(values))
    if len(known) == 0:
        return np.zeros_like(values)
    places = np.abs(np.arange(len(values))[:, None] - known).argmin(axis=1)
    return values[known[places]]


def _steps(values: np.ndarray) -> str:
    """An expression of c that is constant on equal intervals from -1 to 1."""
    *lower, last = map(number_text, values.tolist())
    ends = (np.arange(1, len(values)) * 2 / len(values) - 1).tolist()
    text = last
    for value, end in reversed(list(zip(lower, ends, strict=True))):
        text = f"where(c < {number_text(end)}, {value}, {text})"
    return text


# --------------------------------------------------------------------------- as a table


class _Quantity(NamedTuple):
    """A column of the table."""

    heading: str
    variable: str
    law: str


def _table_quantities(result: xr.Dataset) -> dict[str, _Quantity]:
    """The columns by their names."""
    given, fields, *_ = map(str, result["law"].values)
    short = law_words(result).short_name
    few = "4 fields" if fields == "four fields" else fields
    end = {"CA": "ca", "law": "law"}[short]
    fields_end = {"four fields": "four", "its fields": "fields"}[fields]
    return {
        f"cosine_{end}": _Quantity(f"cosine {short}", "cosine", given),
        "cosine_pair": _Quantity("pair law", "cosine", "pair law"),
        f"r_squared_{end}": _Quantity(f"R² {short}", "r_squared", given),
        f"r_squared_{fields_end}": _Quantity(few, "r_squared", fields),
        "r_squared_pair": _Quantity("pair law", "r_squared", "pair law"),
        "r_squared_renamed": _Quantity("renamed", "r_squared", "renamed"),
        "frame_pair": _Quantity("R² in frame", "frame_r_squared", "pair law"),
        "frame_renamed": _Quantity("renamed", "frame_r_squared", "renamed"),
    }


def pair_law_columns(result: xr.Dataset) -> list[Column]:
    """The columns of the table."""
    headings = {
        name: quantity.heading for name, quantity in _table_quantities(result).items()
    }
    return [Column("space", "space"), *mean_columns(result, headings)]


def pair_law_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """Rows of a table: means over runs with 95% intervals in each space and frame."""
    rows = []
    quantities = _table_quantities(result)
    for space in result["space"].values:
        for step in result["step"].values:
            frame = result.sel(space=space, step=step)
            row: dict[str, Any] = {"space": str(space), "step": int(step)}
            row[result.attrs["unit_of_time"]] = frame_time(result, step)
            row["runs"] = int(np.isfinite(frame["cosine"].isel(law=0)).sum())
            for name, (_, variable, law) in quantities.items():
                limits = (-1.0, 1.0) if variable == "cosine" else (0.0, 1.0)
                sample = drop_non_finite(frame[variable].sel(law=law).values)
                row |= interval_columns(name, mean_interval(sample, limits=limits))
            rows.append(row)
    return rows


def pair_law_legend(result: xr.Dataset) -> str:
    """The explanation below the table."""
    fields = "4 fields" if "four fields" in result["law"] else "its fields"
    return (
        "Cosine and R² (with one positive factor) of -dL/dE without shift and scaling."
        f" '{fields}', 'pair law' and\n'renamed' are fitted to other runs and other"
        " frames; 'in frame' to the frame itself, where it is the most that\nany law"
        " between pair sums explains. Part of that is chance: compare it with"
        " 'renamed', for renamed tokens."
    )

r"""The Jacobian of the particles' force field, and of the normalised motion (CA section
6).

F sums the forces of a law between pair sums s_p = x_i + x_j (`dynamics.forces`). With d =
s_p - s_q, r = \|d\|, u = s_q / \|s_q\|, v = s_p / \|s_p\| and c = u . v, the derivatives
of a force of q on p are

    along the difference, f(r) d / r    by s_q:  (f/r - f') d d^T / r² - f/r
                                        by s_p:  minus that
    along the other, h(c) u             by s_q:  (h (1 - u u^T) + h' u (v - c u)^T) / \|s_q\|
                                        by s_p:  h' u (u - c v)^T / \|s_p\|

At a jump of a strength, such as that of CA's alignment at c = 0, the derivative is taken
as 0. Balance by magnitude is a ratio of two sums of \|f\| or \|h\|, whose derivative is
included; other balances are constant. Where the force is undefined it is 0, and so is
its derivative. Forces along the difference are reciprocal and have a symmetric Jacobian,
minus the Hessian of their potential, if their weights are constant; those along the
other are not reciprocal and have no potential.

Particles do not follow F. Since they keep zero mean and unit variance, they move along
G = F - mean - lambda x, where lambda keeps the variance constant, overall or along each
axis. An arrangement is at rest if G = 0, even if F is not 0. In an orthonormal basis Q
of the directions allowed by the constraint, without common rotations, the Jacobian of G
is

    Q^T (dF/dx - lambda) Q,      lambda = x . F / (N D), or x_a . F_a / N for each axis a, or none

and its eigenvalues are the eigenmodes. The step rule matters: "force" follows F itself;
"direction" scales F by sqrt(N) / \|F\|, which at rest rescales time and keeps the
signs; "particle" follows each F_i / \|F_i\|. A step of size h is stable if no mode
decays faster than 2 / h, up to the factor 1 / (1 + h lambda) of the normalisation.

Array functions take embeddings (..., token, axis) in float64; everything is
dimensionless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import xarray as xr

from analysis.linearization.curvature_operators import CurvatureOperator
from analysis.linearization.eigenmodes import (
    StateModes,
    count_growing,
    sorted_eigenmodes,
)
from analysis.linearization.frame_results import (
    Variables,
    frame_dataset,
    valid_jobs,
)
from analysis.statistics.division import ratio
from analysis.structures.embedding_arrays import check_embedding
from dynamics.errors import TrajectoryError
from dynamics.expressions import Expression
from dynamics.particles import known_law
from dynamics.particles.force_terms import TINY
from dynamics.particles.integrator import field_weights
from dynamics.particles.pair_list import PairList
from dynamics.particles.particle_system import ParticleSystem
from dynamics.progress import progress_bar
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.strengths import evaluate
from dynamics.trajectory.schema import read_settings

_MAX_COORDINATES = 1000
"""Largest number of coordinates (particles times axes) for spectra."""
_MAX_PAIRS = 3000
"""Largest number of interacting pair sums; memory and time grow with its square."""
_RANK_TOLERANCE = 1e-9
"""Singular values up to this fraction of the largest one count as 0."""


class LinearizedField(NamedTuple):
    """A force field and its Jacobian at some embeddings."""

    force: np.ndarray
    """(..., token, axis)"""
    jacobian: np.ndarray
    """(..., token x axis, token x axis_in), with axes fastest"""


# ---------------------------------------------------------------------- the force field


def force_and_jacobian(
    embedding: np.ndarray, settings: ParticleSettings, pairs: PairList | None = None
) -> LinearizedField:
    """The total balanced force and its Jacobian.

    Parameters
    ----------
    embedding : array, (..., token, axis)
    settings : ParticleSettings
    pairs : PairList, optional
        Pairs whose sums interact (default: those of the settings).

    Returns
    -------
    LinearizedField

    Raises
    ------
    SettingsError
        For another shape than that of the settings, and for settings that do not say
        the law of their system.
    ValueError
        For an embedding that is not finite.

    Examples
    --------
    >>> from dynamics import ParticleSettings
    >>> x = np.random.default_rng(0).standard_normal((5, 2))
    >>> field = force_and_jacobian(x, ParticleSettings(n=5, fa=0, repulsion_balance="none"))
    >>> bool(np.allclose(field.jacobian, field.jacobian.T))  # the gradient of a potential
    True
    """
    settings = known_law(settings, "settings")
    x = check_embedding(embedding)
    n, dim = x.shape[-2:]
    if (n, dim) != (settings.n, settings.dim):
        raise SettingsError(
            "n, dim",
            f"{settings.n}, {settings.dim}",
            f"those of the embedding, {n} and {dim}",
        )
    pairs = ParticleSystem(settings).pairs if pairs is None else pairs
    frames = x.reshape(-1, n, dim)
    force = np.empty(frames.shape)
    jacobian = np.empty((len(frames), n * dim, n * dim))
    law = _PairLaw(settings, pairs)
    for frame, positions in enumerate(frames):
        force[frame], jacobian[frame] = law.at(positions)
    lead = x.shape[:-2]
    return LinearizedField(
        force.reshape(x.shape), jacobian.reshape(*lead, n * dim, n * dim)
    )


class _PairSums(NamedTuple):
    """Pair sums, and their places relative to each other."""

    apart: np.ndarray
    """(axis, pair, other pair) Difference to the other pair sum."""
    distance: np.ndarray
    """(pair, other pair)"""
    inverse: np.ndarray
    """(pair, other pair) 1 / distance; 0 for coincident pair sums."""
    unit: np.ndarray
    """(pair, axis) Direction; 0 at the origin."""
    reach: np.ndarray
    """(pair,) 1 / length; 0 at the origin."""
    cosine: np.ndarray
    """(pair, other pair)"""

    @classmethod
    def at(cls, points: np.ndarray) -> _PairSums:
        """Those at some points (pair, axis)."""
        points = np.where((points * points).sum(-1, keepdims=True) > TINY, points, 0.0)
        apart = np.moveaxis(points[:, None] - points, -1, 0)
        square = (apart * apart).sum(0)
        distance = np.sqrt(square) * (square > TINY)
        reach = ratio(1.0, np.linalg.norm(points, axis=-1), 0.0)
        cosine = points @ points.T * reach[:, None] * reach
        return cls(
            apart,
            distance,
            ratio(1.0, distance, 0.0),
            points * reach[:, None],
            reach,
            np.clip(cosine, -1.0, 1.0),
        )

    def along_differences(self, strength: np.ndarray) -> np.ndarray:
        """The sum over other pair sums of strength (pair, other pair) times the
        direction of the difference, (pair, axis)."""
        factor = strength * self.inverse
        return np.stack([(factor * item).sum(-1) for item in self.apart], -1)


class _PairLaw:
    """The forces of some settings between some pairs."""

    def __init__(self, settings: ParticleSettings, pairs: PairList) -> None:
        self.settings = settings
        self.forces = settings.forces
        self.expressions = [force.expression for force in self.forces]
        self.pairs = pairs
        count = len(pairs.first)
        rows = np.arange(count)
        self.sums = np.zeros((count, pairs.n))
        """How often the sum of each pair contains each token: (pair, token)."""
        np.add.at(self.sums, (rows, pairs.first), 1.0)
        np.add.at(self.sums, (rows, pairs.second), 1.0)
        self.moves = self.sums if pairs.twice else np.minimum(self.sums, 1.0)
        """How often the force on each pair moves each token: (pair, token)."""
        residue = np.repeat(np.arange(len(pairs.bounds) - 1), np.diff(pairs.bounds))
        like = residue[:, None] == residue
        self.acts = {"like": like, "unlike": ~like, "all": np.ones_like(like)}
        for mask in self.acts.values():
            np.fill_diagonal(mask, False)

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Force (token, axis) and Jacobian (token x axis, token x axis) at positions
        (token, axis)."""
        sums = _PairSums.at(self.sums @ x)
        strengths = self._strengths(self.expressions, sums)
        slopes = self._strengths([item.derivative() for item in self.expressions], sums)
        magnitude = np.abs(strengths).sum((1, 2))
        weights = field_weights(magnitude, self.settings, self.pairs)
        fields = self._fields(strengths, sums)
        jacobian = self._by_tokens(weights, strengths, slopes, sums)
        changes = self._magnitude_slopes(np.sign(strengths) * slopes, sums)
        names = [force.name for force in self.forces]
        for place, force in enumerate(self.forces):
            is_balanced = self.settings.balance_of(force) == "magnitude"
            if is_balanced and magnitude[place] > 0:
                # weight = constant A / B has the slope (constant dA - weight dB) / B
                change = (
                    self.settings.constant_of(force)
                    * changes[names.index(force.against)]
                )
                slope = (change - weights[place] * changes[place]) / magnitude[place]
                jacobian += np.outer(fields[place], slope)
        return np.tensordot(weights, fields, 1), jacobian

    def _strengths(
        self, expressions: Sequence[Expression], sums: _PairSums
    ) -> np.ndarray:
        """An expression of each force between all pair sums, (force, pair, other pair);
        0 where the force does not act."""
        directed = (sums.reach[:, None] > 0) & (sums.reach > 0)
        result = np.zeros((len(self.forces), *directed.shape))
        for values, force, expression in zip(
            result, self.forces, expressions, strict=True
        ):
            defined = sums.inverse > 0 if force.is_radial else directed
            acts = self.acts[force.pairs] & defined
            variable = sums.distance if force.is_radial else sums.cosine
            np.copyto(values, evaluate(expression, variable), where=acts)
        return result

    def _fields(self, strengths: np.ndarray, sums: _PairSums) -> np.ndarray:
        """The field of each force on the tokens, (force, token, axis)."""
        on_pairs = [
            sums.along_differences(strength)
            if force.is_radial
            else strength @ sums.unit
            for force, strength in zip(self.forces, strengths, strict=True)
        ]
        return self.moves.T @ np.stack(on_pairs)

    def _magnitude_slopes(self, changes: np.ndarray, sums: _PairSums) -> np.ndarray:
        """The derivative of the summed magnitude of each force by the positions,
        (force, token, axis), from that of the magnitudes by distance or cosine."""
        by_sums = []
        for force, change in zip(self.forces, changes, strict=True):
            if force.is_radial:
                by_sums.append(sums.along_differences(change))
            else:
                along = (change * sums.cosine).sum(1)[:, None] * sums.unit
                by_sums.append((change @ sums.unit - along) * sums.reach[:, None])
        return 2 * self.sums.T @ np.stack(by_sums)  # each pair of pairs counts twice

    def _by_tokens(
        self,
        weights: np.ndarray,
        strengths: np.ndarray,
        slopes: np.ndarray,
        sums: _PairSums,
    ) -> np.ndarray:
        """The Jacobian at constant weights."""
        apart, _, inverse, unit, reach, cosine = sums
        radial = weights * [force.is_radial for force in self.forces]
        push = np.tensordot(radial, strengths, 1) * inverse
        bend = (push - np.tensordot(radial, slopes, 1)) * inverse**2
        turn = np.tensordot(weights - radial, strengths, 1) * reach
        slope = np.tensordot(weights - radial, slopes, 1)
        steer = slope * reach
        n = self.sums.shape[1]
        dim = len(apart)
        result = np.empty((n, dim, n, dim))
        for one in range(dim):
            for other in range(dim):
                # derivative by s_q for each q, and by s_p
                between = bend * apart[one] * apart[other]
                own = -between.sum(1)
                if one == other:
                    between += turn - push
                    own += push.sum(1)
                towards = steer * unit[:, other, None]
                along = (turn + steer * cosine) * unit[:, other]
                between += (towards - along) * unit[:, one]
                rest = (slope * cosine) @ unit[:, one] * unit[:, other]
                own += reach * (slope @ (unit[:, one] * unit[:, other]) - rest)
                by_sum = between @ self.sums + own[:, None] * self.sums
                result[:, one, :, other] = self.moves.T @ by_sum
        return result.reshape(n * dim, n * dim)


# -------------------------------------------------------------------- normalised motion


def step_rule_field(
    field: LinearizedField, settings: ParticleSettings
) -> LinearizedField:
    """The field that a step follows by the settings' rule, of one embedding: F, or
    scaled to length sqrt(N), or to 1 for each particle.

    NaN where a force of 0 would be scaled.
    """
    if settings.step_rule == "force":
        return field
    n, dim = field.force.shape
    groups = field.force
    scale = 1.0
    if settings.step_rule == "direction":
        groups = groups.reshape(1, -1)
        scale = np.sqrt(n)
    size = np.linalg.norm(groups, axis=-1, keepdims=True)
    unit = ratio(groups, size)
    rows = field.jacobian.reshape(*groups.shape, n * dim)
    along = np.einsum("ga,gax->gx", unit, rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        stretch = (scale / size)[..., None]
        turned = (rows - unit[..., None] * along[:, None]) * stretch
    return LinearizedField(
        (scale * unit).reshape(n, dim), turned.reshape(field.jacobian.shape)
    )


def free_directions(x: np.ndarray, settings: ParticleSettings) -> np.ndarray:
    """Orthonormal motions that keep mean and variance of an embedding: (token, axis) ->
    (token x axis, mode).

    If no axis is distinguished, rotations of all particles together are left out: at
    rest they are null modes, and leaving them out changes no other mode. Rotations that
    move no particle, which exist for flat arrangements, are not removed, so these have
    more modes than others."""
    n, dim = x.shape
    axes = np.eye(dim)
    x = x - x.mean(axis=0, keepdims=True)
    directions = [np.tile(row, n) / np.sqrt(n) for row in axes]
    if settings.variance == "axis":
        directions += [_unit((x * row).reshape(-1)) for row in axes]
    else:
        size = _unit(x.reshape(-1))
        for one in range(dim):
            for other in range(one):
                turn = np.outer(axes[one], axes[other])
                plane = turn - turn.T
                directions.append((size.reshape(n, dim) @ plane).reshape(-1))
        if settings.variance == "overall":
            directions.append(size)
    basis, sizes, _ = np.linalg.svd(np.stack(directions, -1))
    return basis[:, (sizes > _RANK_TOLERANCE * sizes[0]).sum() :]


def _unit(row: np.ndarray) -> np.ndarray:
    """A vector scaled to length 1; one of length 0 stays."""
    return ratio(row, np.linalg.norm(row), 0.0)


def constrained_field(
    x: np.ndarray, field: LinearizedField, settings: ParticleSettings
) -> LinearizedField:
    """The normalised motion G of an embedding (token, axis) and its Jacobian (mode,
    mode) in the basis of `free_directions`, from the field that is followed; NaN if the
    variance to be kept is zero."""
    dim = x.shape[1]
    centred = field.force - field.force.mean(axis=0, keepdims=True)
    if settings.variance == "none":
        pull = np.zeros((1, dim))
    else:
        axes = 0 if settings.variance == "axis" else (0, 1)
        size = (x * x).sum(axis=axes, keepdims=True)
        inner = (x * field.force).sum(axis=axes, keepdims=True)
        pull = np.broadcast_to(ratio(inner, size), (1, dim))
    basis = free_directions(x, settings)
    by_coordinate = np.broadcast_to(pull, x.shape).reshape(-1, 1)
    by_basis = field.jacobian @ basis - by_coordinate * basis
    return LinearizedField(centred - pull * x, basis.T @ by_basis)


def eigenvalues(matrix: np.ndarray) -> np.ndarray:
    """The eigenvalues of a square matrix, (mode,) complex; NaN if it is not finite."""
    if not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan, dtype=np.complex128)
    return np.linalg.eigvals(matrix).astype(np.complex128)


# ------------------------------------------------------------------------- trajectories


def force_spectra(
    trajectory: xr.Dataset, frames: list[int], quiet: bool = False
) -> xr.Dataset:
    """Eigenmodes of particles at some frames of a trajectory.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of particles.
    frames : list of int
        Indices along `step`.
    quiet : bool
        Show no progress bar.

    Returns
    -------
    xr.Dataset
        `growth_rate`, `rotation_rate` (run, step, mode) of the normalised motion;
        `force_growth_rate`, `force_rotation_rate` (run, step, force_mode) of dF/dx
        alone; `asymmetry` (run, step), Frobenius norm of the antisymmetric part of
        dF/dx over that of dF/dx; `rest` (run, step), the norm of G over that of F. NaN
        in the frames of a run after it diverged, and after the last mode of frames that
        have fewer modes than others.

    Raises
    ------
    TrajectoryError
        For another system, more than 1000 coordinates or more than 3000 pairs.
    """
    settings = _particle_settings(trajectory)
    pairs = _checked_pairs(settings)
    some = trajectory.isel(step=frames)
    x = (
        some["embedding"]
        .transpose("run", "step", "token", "axis")
        .values.astype(np.float64)
    )
    jobs = valid_jobs(trajectory, frames)
    spectra = [
        _frame_spectra(x[job], settings, pairs)
        for job in progress_bar(jobs, desc="modes", unit="frame", quiet=quiet)
    ]
    sizes = {
        dim: max((np.size(frame[name]) for frame in spectra), default=0)
        for dim, name in (("mode", "growth_rate"), ("force_mode", "force_growth_rate"))
    }
    result = frame_dataset(trajectory, frames, _VARIABLES, sizes, jobs, spectra)
    return result.assign_attrs(lr=settings.step_size)


def force_operator(frame: xr.Dataset) -> CurvatureOperator:
    """The Jacobian of the total force at a trajectory of one frame. Raises
    TrajectoryError as `force_spectra`."""
    settings = _particle_settings(frame)
    pairs = _checked_pairs(settings)
    x = frame["embedding"].transpose("run", "step", "token", "axis").values[0, 0]
    jacobian = force_and_jacobian(x, settings, pairs).jacobian
    return CurvatureOperator(
        {"embedding": x.shape}, jacobian.__matmul__, lambda: jacobian, False
    )


def _particle_settings(trajectory: xr.Dataset) -> ParticleSettings:
    """The settings of a trajectory of particles. Raises TrajectoryError for another
    system."""
    settings = read_settings(trajectory)
    # a user's system may have settings that are derived from those of particles
    if settings.system != ParticleSettings.system:
        raise TrajectoryError(
            f"attribute system: found {settings.system}, expected particles"
        )
    return cast(ParticleSettings, settings)


def _checked_pairs(settings: ParticleSettings) -> PairList:
    """The pairs whose sums interact. Raises TrajectoryError for more particles than
    spectra are for."""
    coordinates = settings.n * settings.dim
    if not 1 < coordinates <= _MAX_COORDINATES:
        raise TrajectoryError(
            f"n times dim: found {coordinates}, spectra are for 2 to {_MAX_COORDINATES}"
        )
    pairs = ParticleSystem(settings).pairs
    count = len(pairs.first)
    if count > _MAX_PAIRS:
        raise TrajectoryError(
            f"n: found {settings.n} with {count} pairs, spectra are for up to"
            f" {_MAX_PAIRS}"
        )
    return pairs


def particle_state_modes(
    states: xr.Dataset, settings: ParticleSettings
) -> Iterator[StateModes]:
    """The modes of the normalised motion in the first frame of each run. Raises
    TrajectoryError as `force_spectra`, before the first of them is computed."""
    pairs = _checked_pairs(settings)
    first = states["embedding"].isel(step=0).transpose("run", "token", "axis")
    return (_particle_modes(x, settings, pairs) for x in first.values)


def _particle_modes(
    x: np.ndarray, settings: ParticleSettings, pairs: PairList
) -> StateModes:
    """The modes of an embedding (token, axis)."""
    field = step_rule_field(force_and_jacobian(x, settings, pairs), settings)
    jacobian = constrained_field(x, field, settings).jacobian
    if not np.isfinite(jacobian).all():
        return StateModes(np.nan, np.nan, {"embedding": np.full(x.shape, np.nan)})
    rates, vectors = np.linalg.eig(jacobian)
    place = int(rates.real.argmax())
    fastest = (free_directions(x, settings) @ vectors[:, place]).real
    direction = (fastest / np.linalg.norm(fastest)).reshape(x.shape)
    growing = float(count_growing(sorted_eigenmodes(rates)))
    return StateModes(growing, float(rates[place].real), {"embedding": direction})


_VARIABLES: Variables = {
    "growth_rate": (("mode",), "growth rate of a mode of the normalised motion"),
    "rotation_rate": (("mode",), "rotation rate of a mode of the normalised motion"),
    "force_growth_rate": (
        ("force_mode",),
        "real part of an eigenvalue of the force's Jacobian",
    ),
    "force_rotation_rate": (
        ("force_mode",),
        "imaginary part of an eigenvalue of the force's Jacobian",
    ),
    "asymmetry": (
        "Frobenius norm of the antisymmetric part of the force's Jacobian over that"
        " of the Jacobian"
    ),
    "rest": "norm of the normalised force over that of the force; 0 at rest",
}


def _frame_spectra(
    x: np.ndarray, settings: ParticleSettings, pairs: PairList
) -> dict[str, float | np.ndarray]:
    """The variables of one embedding (token, axis)."""
    field = force_and_jacobian(x, settings, pairs)
    followed = step_rule_field(field, settings)
    motion = constrained_field(x, followed, settings)
    modes = sorted_eigenmodes(eigenvalues(motion.jacobian))
    force_modes = sorted_eigenmodes(eigenvalues(field.jacobian))
    return {
        "growth_rate": modes.growth,
        "rotation_rate": modes.rotation,
        "force_growth_rate": force_modes.growth,
        "force_rotation_rate": force_modes.rotation,
        "asymmetry": _norm_ratio(
            (field.jacobian - field.jacobian.T) / 2, field.jacobian
        ),
        "rest": _norm_ratio(motion.force, followed.force),
    }


def _norm_ratio(part: np.ndarray, whole: np.ndarray) -> float:
    """The Frobenius norm of one matrix over that of another; NaN if that is 0."""
    size = float(np.linalg.norm(whole, axis=(-2, -1)))
    return float(np.linalg.norm(part, axis=(-2, -1))) / size if size > 0 else np.nan

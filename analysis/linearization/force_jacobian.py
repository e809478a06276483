r"""The Jacobian of the particles' force field, and of the normalised motion (CA section
6).

F sums pair forces of the pair sums s_p = x_i + x_j (`dynamics.particles.pair_forces`).
With d = s_p - s_q, r = \|d\| and u = s_q / \|s_q\|, the derivatives by s_q of the force
of q on p are

    like attraction      1/r - d d^T / r³                and minus that by s_p
    unlike repulsion     2 d d^T / r⁴ - 1/r²             and minus that by s_p
    alignment            ± (1 - u u^T) / \|s_q\| in the half-plane s_p . s_q > 0, and 0 by s_p

The boundary of the half-plane has measure zero, so the set of pairs that align is taken
as locally constant. So are weights that are ratios of numbers of pairs, and the total
magnitude of attraction. The weight of repulsion balanced by magnitude, w = A / sum 1/r,
has a derivative, which is included. Where the force is undefined it is 0, and so is its
derivative. Attraction and repulsion are reciprocal and have a symmetric Jacobian, minus
the Hessian of their potential, if their weights are constant; alignment is not
reciprocal and has no potential.

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

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr
from tqdm import tqdm

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
from dynamics.particles.pair_forces import TINY
from dynamics.particles.pair_list import PairList
from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import ParticleSettings, SettingsError
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
    SettingsError, ValueError

    Examples
    --------
    >>> from dynamics import ParticleSettings
    >>> x = np.random.default_rng(0).standard_normal((5, 2))
    >>> field = force_and_jacobian(x, ParticleSettings(n=5, fa=0, repulsion_balance="none"))
    >>> bool(np.allclose(field.jacobian, field.jacobian.T))  # the gradient of a potential
    True
    """
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


class _PairLaw:
    """The pair forces of some settings between some pairs."""

    def __init__(self, settings: ParticleSettings, pairs: PairList) -> None:
        self.settings = settings
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
        self.like = residue[:, None] == residue
        np.fill_diagonal(self.like, False)
        self.unlike = residue[:, None] != residue

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Force (token, axis) and Jacobian (token x axis, token x axis) at positions
        (token, axis)."""
        s = self.settings
        points = self.sums @ x
        points[(points * points).sum(-1) <= TINY] = 0.0
        apart = np.moveaxis(points[:, None] - points, -1, 0)  # (axis, pair, other pair)
        square = (apart * apart).sum(0)
        inverse = ratio(1.0, np.sqrt(square) * (square > TINY), 0.0)
        repel, aligned = self._balances(points, inverse)

        # the force of q on p is strength times d; its derivative by s_q is bend d d^T -
        # strength
        attract = s.ga * self.like * inverse
        push = s.gr * repel * self.unlike * inverse**2
        strength = push - attract
        bend = 2 * push * inverse**2 - attract * inverse**2
        length = np.linalg.norm(points, axis=-1)
        unit = ratio(points, length[:, None], 0.0)
        reach = ratio(1.0, length, 0.0)

        on_pairs = (
            np.stack([(strength * item).sum(-1) for item in apart], -1) + aligned @ unit
        )
        force = self.moves.T @ on_pairs
        jacobian = self._by_tokens(apart, strength, bend, aligned * reach, unit)
        if s.repulsion_balance == "magnitude":
            jacobian += self._by_balance(apart, inverse, push)
        return force, jacobian

    def _balances(
        self, points: np.ndarray, inverse: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The weight of repulsion, and the weights of alignment between pair sums
        (pair, other pair)."""
        s = self.settings
        pairs = self.pairs
        near = (points @ points.T > 0).astype(np.float64)
        alike = near * self.like
        different = near * self.unlike
        by_count = pairs.like / pairs.unlike if pairs.unlike else 0.0
        repulsion = (inverse * self.unlike).sum()
        attraction = ((inverse > 0) & self.like).sum()
        repel = {
            "none": 1.0,
            "count": by_count,
            "magnitude": _ratio(attraction, repulsion),
        }
        align = {
            "none": 1.0,
            "count": by_count,
            "magnitude": _ratio(alike.sum(), different.sum()),
        }
        return repel[s.repulsion_balance], s.fa * (
            alike - align[s.alignment_balance] * different
        )

    def _by_tokens(
        self,
        apart: np.ndarray,
        strength: np.ndarray,
        bend: np.ndarray,
        turn: np.ndarray,
        unit: np.ndarray,
    ) -> np.ndarray:
        """The Jacobian at constant weights, from derivatives between pair sums; turn is
        alignment over |s_q|."""
        n = self.sums.shape[1]
        dim = len(apart)
        result = np.empty((n, dim, n, dim))
        for one in range(dim):
            for other in range(dim):
                between = (
                    bend * apart[one] * apart[other]
                    - turn * unit[:, one] * unit[:, other]
                )
                if one == other:
                    between += turn - strength
                # derivative by s_p itself: minus the sum over q, without alignment
                own = -(bend * apart[one] * apart[other]).sum(1) + (
                    one == other
                ) * strength.sum(1)
                by_sum = between @ self.sums + own[:, None] * self.sums
                result[:, one, :, other] = self.moves.T @ by_sum
        return result.reshape(n * dim, n * dim)

    def _by_balance(
        self, apart: np.ndarray, inverse: np.ndarray, push: np.ndarray
    ) -> np.ndarray:
        """The part from the weight of repulsion, which is inverse to R = sum 1/r: F_r
        (-dR/dx) / R."""
        cubes = self.unlike * inverse**3
        total = (self.unlike * inverse).sum()
        if not total > 0:
            return np.zeros((self.sums.shape[1] * len(apart),) * 2)
        repulsion = self.moves.T @ np.stack(
            [(push * item).sum(-1) for item in apart], -1
        )
        slope = self.sums.T @ np.stack(
            [-2 * (cubes * item).sum(-1) for item in apart], -1
        )
        return -np.outer(repulsion.ravel(), slope.ravel()) / total


def _ratio(like: float, unlike: float) -> float:
    return float(like / unlike) if unlike > 0 else 0.0


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
    settings = read_settings(trajectory)
    if not isinstance(settings, ParticleSettings):
        raise TrajectoryError(
            f"attribute system: found {settings.system}, expected particles"
        )
    pairs = _checked_pairs(settings)
    some = trajectory.isel(step=frames)
    x = (
        some["embedding"]
        .transpose("run", "step", "token", "axis")
        .values.astype(np.float64)
    )
    jobs = valid_jobs(trajectory, frames)
    is_hidden = True if quiet else None
    spectra = [
        _frame_spectra(x[job], settings, pairs)
        for job in tqdm(jobs, "modes", unit="frame", disable=is_hidden, leave=False)
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
    settings = read_settings(frame)
    assert isinstance(settings, ParticleSettings)
    pairs = _checked_pairs(settings)
    x = frame["embedding"].transpose("run", "step", "token", "axis").values[0, 0]
    jacobian = force_and_jacobian(x, settings, pairs).jacobian
    return CurvatureOperator(
        {"embedding": x.shape}, jacobian.__matmul__, lambda: jacobian, False
    )


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

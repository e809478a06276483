"""Whether a circuit of VC's network is a fixed point of gradient descent, and one that it returns to.

The loss is that of the population, all p^L sequences alike, so that nothing depends on a sample; L is its mean
cross-entropy, theta all parameters. A circuit that solves the task has no fixed point nearby: the larger its logits,
the smaller L, which has its infimum 0 at infinity. So "fixed point" can mean two things:

- in the limit: with the size of the logits, gradient and Hessian fall exponentially, and their direction tells;
- in earnest: with weight decay, of L + decay |theta|² / 2, whose gradient is 0 where a circuit has `settled`.

Exchanging counting positions changes neither the population nor the target, so that it maps L to itself. At a circuit
with one P for all counting positions the gradient is therefore invariant too: gradient descent never breaks the
symmetry by itself, whatever the circuit. The same holds for spurious positions that share a P. What can break it is a
push, and whether that grows is told by the Hessian in the breaking directions, those in which these P differ while
their mean stays. By Schur's lemma each eigenvalue there occurs k - 1 times, or L - k - 1 times, and there are as many
different ones as axes. A training sample has no such symmetry, and its gradient breaks a little of it.

Everything is float64 and dimensionless. A flat row has the parameters in the order of `Parameters`.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch.func import grad, vmap
from tqdm import tqdm

from analysis.linearization.clustering_head_hessian import ClusteringHeadHessian
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.randomness import random_stream
from dynamics.settings import SettingsError, SparseSettings
from dynamics.tasks import sparse_sum

MAX_POPULATION = 1 << 13

NULL_EIGENVALUE_TOLERANCE = 1e-9
"""Eigenvalues up to this share of the largest are taken for 0."""

BROKEN_SYMMETRIES = ("order", "suffix")
"""The invariances whose breaking is looked at: of counting positions, and of spurious ones."""

_Loss = Callable[[torch.Tensor], torch.Tensor]


def all_sequences(s: SparseSettings) -> np.ndarray:
    """All sequences, (sequence, position). Raises SettingsError where they are too many."""
    if s.vocab**s.length > MAX_POPULATION:
        allowed = f"a length at which there are at most {MAX_POPULATION} sequences"
        raise SettingsError("length", f"{s.length} at {s.vocab} tokens", allowed)
    return np.array(list(itertools.product(range(s.vocab), repeat=s.length)))


class RegularizedLoss:
    """Mean cross-entropy over sequences (sequence, position) plus decay |theta|² / 2, of a flat row (parameter,).

    The same as `ClusteringHead.losses`, whose attention it spreads over a table by one product.
    """

    def __init__(self, network: ClusteringHead, tokens: np.ndarray, decay: float = 0.0) -> None:
        self.network, self.decay = network, decay
        self.chosen = (torch.from_numpy(tokens)[..., None] == torch.arange(network.settings.rows)).flatten(-2).double()
        self.target = torch.from_numpy(sparse_sum(tokens, network.settings))[:, None]
        self.cross_entropy = ClusteringHeadHessian(network, tokens, np.full(len(tokens), 1 / len(tokens)))

    def __call__(self, row: torch.Tensor) -> torch.Tensor:
        weights = self.network.unflatten(row)
        table = self.network.table(weights)
        scores = (table @ weights["query"]) / self.network.settings.dim**0.5
        attended = torch.exp(scores - scores.amin(-1).amax().detach())[..., None]
        sums = self.chosen @ torch.cat([attended * table, attended], dim=-1).flatten(0, 1)
        xi = (sums[:, :-1] / sums[:, -1:]) @ weights["value"].T
        log_share = torch.log_softmax(self.network.transform(weights, xi) @ weights["embedding"].T, dim=-1)
        return -torch.gather(log_share, -1, self.target).mean() + self.decay / 2 * (row * row).sum()

    @torch.no_grad()
    def hessian(self, row: torch.Tensor) -> torch.Tensor:
        """At a row: (parameter, parameter)."""
        return self.cross_entropy.hessian(row) + self.decay * torch.eye(len(row), dtype=row.dtype)


# ----------------------------------------------------------------------------------------- breaking directions


def symmetry_breaking_directions(network: ClusteringHead, part: str) -> torch.Tensor:
    """Orthonormal directions (parameter, direction) in which the P of counting positions ("order"), or of spurious
    ones ("suffix"), differ while their mean stays."""
    s = network.settings
    counting = list(s.counting)
    places = counting if part == "order" else [t for t in range(s.length) if t not in counting]
    count, begin = len(places), network.begins["position_embedding"]
    apart = np.linalg.qr(np.eye(count) - 1 / max(1, count))[0][:, : max(0, count - 1)]
    found = np.zeros((sum(network.lengths), max(0, count - 1), s.dim))
    for axis in range(s.dim):
        found[begin + s.dim * np.array(places, dtype=np.int64) + axis, :, axis] = apart
    return torch.from_numpy(found.reshape(len(found), -1))


# ------------------------------------------------------------------------------------------------- fixed points


class StationaryPoint(NamedTuple):
    """Where a circuit has come to rest under weight decay."""

    row: torch.Tensor
    gradient: float
    """Norm of the gradient that is left"""


def find_stationary_point(
    loss: RegularizedLoss, row: torch.Tensor, steps: int = 1500, newton: int = 30, rest: float = 1e-10
) -> StationaryPoint:
    """The stationary point that descent from a row leads to: L-BFGS, then damped Newton steps until the gradient is
    below `rest`, or none of them helps any more."""

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.from_numpy(x).requires_grad_()
        value = loss(at)
        return float(value.detach()), torch.autograd.grad(value, at)[0].numpy()

    limits = {"maxiter": steps, "maxfun": 2 * steps, "gtol": 1e-9, "ftol": 0.0, "maxcor": 30}
    found = minimize(value_and_slope, row.numpy(), jac=True, method="L-BFGS-B", options=limits)
    row = torch.from_numpy(found.x)
    for _ in range(newton):
        if float(grad(loss)(row).norm()) <= rest:
            break
        nearer = _newton_step(loss, row)
        if nearer is None:
            break
        row = nearer
    return StationaryPoint(row, float(grad(loss)(row).norm()))


def _newton_step(loss: RegularizedLoss, row: torch.Tensor) -> torch.Tensor | None:
    """A row further down, by Newton's method with the least damping that helps; None if none does.

    Eigenvalues are taken by their size, so that saddles repel, and enlarged by the damping, so that directions in which
    nothing changes, such as a rotation of all embeddings, are left alone. A step helps if it halves the gradient, or
    lowers the loss by a tenth of what the quadratic form lets expect.
    """
    slope, before = grad(loss)(row), float(loss(row))
    values, vectors = torch.linalg.eigh(loss.hessian(row))
    along, size = vectors.T @ slope, values.abs()
    for damping in NULL_EIGENVALUE_TOLERANCE * 10.0 ** np.arange(10):
        way = along / (size + damping * size.max())
        there, expected = row - vectors @ way, float((along * way).sum()) / 2
        lowered = before - float(loss(there))
        if lowered > max(0.1 * expected, 1e-15) or float(grad(loss)(there).norm()) <= 0.5 * float(slope.norm()):
            return there
    return None


class LocalLandscape(NamedTuple):
    """A circuit as a point of the landscape."""

    loss: float
    """Cross-entropy over the population, without weight decay"""
    gradient: float
    """Norm of the gradient, of weight decay too"""
    broken: tuple[float, float]
    """Norm of its parts in the breaking directions, by `PARTS`"""
    sample_broken: tuple[float, float]
    """The same for a training sample"""
    spectrum: np.ndarray
    """(parameter,) eigenvalues of the Hessian, in order"""
    breaking: tuple[np.ndarray, np.ndarray]
    """Eigenvalues of the Hessian in the breaking directions, by `PARTS`"""


def local_landscape(
    network: ClusteringHead, row: torch.Tensor, tokens: np.ndarray, sample: np.ndarray, decay: float
) -> LocalLandscape:
    """What there is at a flat row: gradient, Hessian, and their parts that break invariances.

    tokens: the population; sample: training sequences, both (sequence, position).
    """
    loss = RegularizedLoss(network, tokens, decay)
    parts = [symmetry_breaking_directions(network, part) for part in BROKEN_SYMMETRIES]
    slope, sampled = grad(loss)(row), grad(RegularizedLoss(network, sample, decay))(row)
    whole = loss.hessian(row)
    values = [torch.linalg.eigvalsh(part.T @ whole @ part).numpy() for part in parts]
    return LocalLandscape(
        float(RegularizedLoss(network, tokens)(row)),
        float(slope.norm()),
        (float((parts[0].T @ slope).norm()), float((parts[1].T @ slope).norm())),
        (float((parts[0].T @ sampled).norm()), float((parts[1].T @ sampled).norm())),
        torch.linalg.eigvalsh(whole).numpy(),
        (values[0], values[1]),
    )


# ----------------------------------------------------------------------------------------------------- pushes


def random_perturbations(
    network: ClusteringHead, row: torch.Tensor, size: float, draws: int
) -> dict[str, torch.Tensor]:
    """Random displacements of a row by their kind, (draw, parameter): none, breaking by `PARTS`, and of all parameters.

    Each has the length size x |theta|. A part without a direction, such as that of one position alone, has none.
    """
    generator = random_stream(0, "stability/push")
    kinds = {"none": torch.zeros(1, len(row), dtype=row.dtype)}
    for name in (*BROKEN_SYMMETRIES, "all"):
        basis = torch.eye(len(row), dtype=row.dtype) if name == "all" else symmetry_breaking_directions(network, name)
        if basis.shape[1]:
            drawn = torch.from_numpy(generator.standard_normal((draws, basis.shape[1]))) @ basis.T
            kinds[name] = size * float(row.norm()) * drawn / drawn.norm(dim=1, keepdim=True)
    return kinds


class DescentPath(NamedTuple):
    """Gradient descent from several rows."""

    steps: np.ndarray
    """(frame,)"""
    rows: torch.Tensor
    """(frame, start, parameter)"""
    time: np.ndarray
    """(frame, start) learning rates of the steps so far, summed: time of the gradient flow"""


def gradient_descent(loss: _Loss, starts: torch.Tensor, lr: float, steps: int, frames: int = 41) -> DescentPath:
    """Gradient descent from rows (start, parameter); frames are at even distances of steps, the first and last kept.

    A step by which the loss of a row would rise is not taken, and its learning rate halved, to grow again by a tenth a
    step up to `lr`: what is seen is the landscape and not an overshoot.
    """
    both = vmap(torch.func.grad_and_value(loss))
    kept = np.unique(np.linspace(0, steps, frames).round().astype(np.int64))
    rows, rate, time = starts, torch.full(starts.shape[:1], lr, dtype=starts.dtype), torch.zeros(len(starts)).double()
    slope, value = both(rows)
    found, times = [rows], [time]
    for step in tqdm(range(1, steps + 1), "descent", unit="step", disable=None, leave=False):
        trial = rows - rate[:, None] * slope
        trial_slope, trial_value = both(trial)
        taken = trial_value <= value
        time = time + torch.where(taken, rate, 0.0)
        rows, slope = (torch.where(taken[:, None], new, old) for new, old in ((trial, rows), (trial_slope, slope)))
        value = torch.where(taken, trial_value, value)
        rate = torch.where(taken, (1.1 * rate).clamp(max=lr), rate / 2)
        if step in kept:
            found.append(rows)
            times.append(time)
    return DescentPath(kept, torch.stack(found), torch.stack(times).numpy())

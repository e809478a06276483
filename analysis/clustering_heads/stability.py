"""Circuits of VC's network as fixed points of gradient descent, and the response of
descent to perturbations.

The loss is the mean cross-entropy L over the population, all p^L sequences with equal
weight, so that nothing depends on a sample; theta are all parameters. No circuit that
solves the task is a stationary point of L: the larger its logits, the smaller the loss,
with infimum 0 at infinity. "Fixed point" can mean two things:

- the limit of large logits: gradient and Hessian decrease exponentially with the size
  of the logits;
- a stationary point under weight decay, of L + decay |theta|² / 2
  (`find_stationary_point`).

A permutation of non-spurious positions changes neither the population nor the target,
so L is invariant under it. If P is the same at all non-spurious positions, the gradient
is therefore invariant too: gradient descent by itself never breaks the symmetry. The
same holds for spurious positions with the same P. A perturbation can break the
symmetry. Whether it grows is determined by the Hessian in the symmetry-breaking
directions, in which these P differ while their mean is constant. By Schur's lemma each
eigenvalue there occurs k - 1 times for non-spurious and L - k - 1 times for spurious
positions, and the number of different eigenvalues is the number of axes. A training
sample does not have this symmetry, so its gradient has a small symmetry-breaking part.

Everything is float64 and dimensionless. Flat parameters are in the order of
`NetworkParameters`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from scipy.optimize import minimize
from torch.func import grad, vmap

from analysis.clustering_heads.invariances import one_hot_sequences
from analysis.linearization.clustering_head_hessian import ClusteringHeadHessian
from analysis.output.results import labelled
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.progress import progress_bar
from dynamics.randomness import random_stream
from dynamics.settings import SettingsError, SparseSettings
from dynamics.tasks import sparse_sum

MAX_POPULATION = 1 << 13

NULL_TOLERANCE = 1e-9
"""Eigenvalues up to this fraction of the largest one count as 0."""

ROUNDING = 1e-12
"""Relative increase of a loss that may be due to rounding, as of a loss at rest."""

SYMMETRIES = ("order", "suffix")
"""Permutations of non-spurious positions, and of spurious ones."""


def all_sequences(s: SparseSettings) -> np.ndarray:
    """All sequences, (sequence, position). Raises SettingsError if there are more than
    `MAX_POPULATION`."""
    if s.vocab**s.length > MAX_POPULATION:
        allowed = f"a length at which there are at most {MAX_POPULATION} sequences"
        raise SettingsError("length", f"{s.length} at {s.vocab} tokens", allowed)
    return np.array(list(itertools.product(range(s.vocab), repeat=s.length)))


def flat_parameters(
    network: ClusteringHead, circuit: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """The weights of one network as flat parameters (parameter,)."""
    return torch.from_numpy(
        network.flatten({name: value.numpy()[None] for name, value in circuit.items()})[
            0
        ]
    )


class RegularizedLoss:
    """Mean cross-entropy over sequences (sequence, position) plus decay |theta|² / 2,
    of flat parameters (parameter,).

    The same loss as `ClusteringHead.losses`; attention is computed by one product with
    a table of positions and tokens."""

    def __init__(
        self, network: ClusteringHead, tokens: np.ndarray, decay: float = 0.0
    ) -> None:
        self.network = network
        self.decay = decay
        self.one_hot = one_hot_sequences(tokens, network.settings.rows)
        self.target = torch.from_numpy(sparse_sum(tokens, network.settings))[:, None]
        self.cross_entropy = ClusteringHeadHessian(
            network, tokens, np.full(len(tokens), 1 / len(tokens))
        )

    def __call__(self, row: torch.Tensor) -> torch.Tensor:
        weights = self.network.unflatten(row)
        table = self.network.table(weights)
        scores = (table @ weights["query"]) / self.network.settings.dim**0.5
        attended = torch.exp(scores - scores.amin(-1).amax().detach())[..., None]
        sums = self.one_hot @ torch.cat([attended * table, attended], dim=-1).flatten(
            0, 1
        )
        xi = (sums[:, :-1] / sums[:, -1:]) @ weights["value"].T
        log_p = torch.log_softmax(
            self.network.transform(weights, xi) @ weights["embedding"].T, dim=-1
        )
        return (
            -torch.gather(log_p, -1, self.target).mean()
            + self.decay / 2 * (row * row).sum()
        )

    @torch.no_grad()
    def hessian(self, row: torch.Tensor) -> torch.Tensor:
        """The Hessian (parameter, parameter) at flat parameters."""
        return self.cross_entropy.hessian(row) + self.decay * torch.eye(
            len(row), dtype=row.dtype
        )


def symmetry_breaking_directions(
    network: ClusteringHead, symmetry: str
) -> torch.Tensor:
    """Orthonormal directions (parameter, direction) in which P differs between
    positions while its mean is constant.

    symmetry: "order" for non-spurious positions, "suffix" for spurious ones.
    """
    s = network.settings
    counting = list(s.counting)
    positions = np.array(counting, dtype=np.int64)
    if symmetry != "order":
        positions = np.setdiff1d(np.arange(s.length), positions)
    count = len(positions)
    begin = network.begins["position_embedding"]
    free = max(0, count - 1)
    differences = np.linalg.qr(np.eye(count) - 1 / max(1, count))[0][:, :free]
    result = np.zeros((sum(network.lengths), free, s.dim))
    for axis in range(s.dim):
        result[begin + s.dim * positions + axis, :, axis] = differences
    return torch.from_numpy(result.reshape(len(result), -1))


# -------------------------------------------------------------------- stationary points


class StationaryPoint(NamedTuple):
    """Result of `find_stationary_point`."""

    row: torch.Tensor
    gradient: float
    """Norm of the remaining gradient"""


def find_stationary_point(
    loss: RegularizedLoss,
    row: torch.Tensor,
    steps: int = 1500,
    newton: int = 30,
    tolerance: float = 1e-10,
) -> StationaryPoint:
    """The stationary point that descent from flat parameters leads to.

    At most `steps` steps of L-BFGS are followed by damped Newton steps until the norm
    of the gradient is below `tolerance` or no step helps."""

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.from_numpy(x).requires_grad_()
        value = loss(at)
        return float(value.detach()), torch.autograd.grad(value, at)[0].numpy()

    limits = {
        "maxiter": steps,
        "maxfun": 2 * steps,
        "gtol": 1e-9,
        "ftol": 0.0,
        "maxcor": 30,
    }
    result = minimize(
        value_and_slope, row.numpy(), jac=True, method="L-BFGS-B", options=limits
    )
    row = torch.from_numpy(result.x)
    for _ in range(newton):
        if float(grad(loss)(row).norm()) <= tolerance:
            break
        lower = _newton_step(loss, row)
        if lower is None:
            break
        row = lower
    return StationaryPoint(row, float(grad(loss)(row).norm()))


def _newton_step(loss: RegularizedLoss, row: torch.Tensor) -> torch.Tensor | None:
    """Parameters with a lower loss, by Newton's method with the least damping that
    helps; None if no damping helps.

    Absolute values of the eigenvalues are used, so that steps lead away from saddles,
    and damping is added to them, so that steps are small in directions in which nothing
    changes, such as a rotation of all embeddings. A step helps if it halves the
    gradient or lowers the loss by a tenth of what the quadratic form predicts."""
    slope = grad(loss)(row)
    before = float(loss(row))
    values, vectors = torch.linalg.eigh(loss.hessian(row))
    along = vectors.T @ slope
    size = values.abs()
    for damping in NULL_TOLERANCE * 10.0 ** np.arange(10):
        step = along / (size + damping * size.max())
        there = row - vectors @ step
        expected = float((along * step).sum()) / 2
        lowered = before - float(loss(there))
        if lowered > max(0.1 * expected, 1e-15) or float(
            grad(loss)(there).norm()
        ) <= 0.5 * float(slope.norm()):
            return there
    return None


def local_landscape(
    network: ClusteringHead,
    row: torch.Tensor,
    tokens: np.ndarray,
    sample: np.ndarray,
    decay: float,
) -> xr.Dataset:
    """Gradient and Hessian of the loss at flat parameters, and their parts that break a
    symmetry.

    Parameters
    ----------
    network : ClusteringHead
    row : tensor, (parameter,)
    tokens, sample : array, (sequence, position)
        The population, and training sequences.
    decay : float
        Weight decay.

    Returns
    -------
    xr.Dataset
        `loss` without weight decay; `gradient`, its norm with weight decay; `broken`
        and `sample_broken` (part), norms of the symmetry-breaking parts of the gradient
        for the population and for the sample; `eigenvalue` (mode), `order_eigenvalue`
        (order_mode) and `suffix_eigenvalue` (suffix_mode) of the Hessian, ascending, in
        all directions and in the symmetry-breaking ones.
    """
    loss = RegularizedLoss(network, tokens, decay)
    bases = [symmetry_breaking_directions(network, symmetry) for symmetry in SYMMETRIES]
    slope = grad(loss)(row)
    sample_slope = grad(RegularizedLoss(network, sample, decay))(row)
    hessian = loss.hessian(row)
    broken = [float((basis.T @ slope).norm()) for basis in bases]
    sample_broken = [float((basis.T @ sample_slope).norm()) for basis in bases]
    cross_entropy = float(RegularizedLoss(network, tokens)(row))
    size = float(slope.norm())
    values = torch.linalg.eigvalsh(hessian).numpy()
    data = {
        **labelled(
            (),
            loss=(cross_entropy, "cross-entropy over the population"),
            gradient=(size, "norm of the gradient, with weight decay"),
        ),
        **labelled(
            "part",
            broken=(broken, "norm of its part that breaks a symmetry"),
            sample_broken=(sample_broken, "the same for a training sample"),
        ),
        **labelled("mode", eigenvalue=(values, "eigenvalue of the Hessian")),
    }
    for symmetry, basis in zip(SYMMETRIES, bases, strict=True):
        values = torch.linalg.eigvalsh(basis.T @ hessian @ basis).numpy()
        words = f"eigenvalue of the Hessian in directions that break {symmetry}"
        variable = {f"{symmetry}_eigenvalue": (values, words)}
        data |= labelled(f"{symmetry}_mode", **variable)
    return xr.Dataset(data, {"part": list(SYMMETRIES)})


# ------------------------------------------------------------------------ perturbations


def random_perturbations(
    network: ClusteringHead, row: torch.Tensor, size: float, draws: int
) -> dict[str, torch.Tensor]:
    """Random displacements (draw, parameter) of flat parameters: "none", in
    `SYMMETRIES`, and "all" directions.

    Each has the length size |theta|. Symmetries without a direction, such as that of a
    single position, are left out."""
    generator = random_stream(0, "stability/push")
    bases = {name: symmetry_breaking_directions(network, name) for name in SYMMETRIES}
    bases["all"] = torch.eye(len(row), dtype=row.dtype)
    kinds = {"none": torch.zeros(1, len(row), dtype=row.dtype)}
    length = size * float(row.norm())
    for name, basis in bases.items():
        if basis.shape[1]:
            normal = generator.standard_normal((draws, basis.shape[1]))
            drawn = torch.from_numpy(normal) @ basis.T
            kinds[name] = length * drawn / drawn.norm(dim=1, keepdim=True)
    return kinds


class DescentPath(NamedTuple):
    """Gradient descent from several starts."""

    steps: np.ndarray
    """(frame,)"""
    rows: torch.Tensor
    """(frame, start, parameter)"""
    time: np.ndarray
    """(frame, start) sum of the learning rates of all steps so far: time of the
    gradient flow"""


def gradient_descent(
    loss: Callable[[torch.Tensor], torch.Tensor],
    starts: torch.Tensor,
    lr: float,
    steps: int,
    frames: int = 41,
) -> DescentPath:
    """Gradient descent from several flat parameters (start, parameter), with evenly
    spaced frames.

    A step that would increase the loss of a start by more than `ROUNDING` of it is
    rejected, and the learning rate of that start is halved; every accepted step increases it by a tenth, up to `lr`. The
    path therefore follows the landscape without overshooting."""
    both = vmap(torch.func.grad_and_value(loss))
    frame_steps = np.unique(np.linspace(0, steps, frames).round().astype(np.int64))
    rows = starts
    rate = torch.full(starts.shape[:1], lr, dtype=starts.dtype)
    time = torch.zeros(len(starts)).double()
    slope, value = both(rows)
    result = [rows]
    times = [time]
    for step in progress_bar(range(1, steps + 1), desc="descent", unit="step"):
        trial = rows - rate[:, None] * slope
        trial_slope, trial_value = both(trial)
        accepted = trial_value <= value + ROUNDING * value.abs()
        time = time + torch.where(accepted, rate, 0.0)
        rows = torch.where(accepted[:, None], trial, rows)
        slope = torch.where(accepted[:, None], trial_slope, slope)
        value = torch.where(accepted, trial_value, value)
        rate = torch.where(accepted, (1.1 * rate).clamp(max=lr), rate / 2)
        if step in frame_steps:
            result.append(rows)
            times.append(time)
    return DescentPath(frame_steps, torch.stack(result), torch.stack(times).numpy())

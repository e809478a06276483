"""Circuits of VC's network built by hand, of every kind that VC section 3.2 names, in
float64.

There are two constructions of the weights before the MLP; the weights of the MLP are
then solved for:

`ideal_circuit` (p = 2 or 3): at all non-spurious positions the embeddings E(x) + P lie
on an arc about the query, at spurious ones opposite to it. So attention is on
non-spurious positions, and xi is a mixture of points of the arc that depends only on
the multiset of tokens. The tokens lie on the arc so that all C(k+p-1, k) mixtures
differ in direction.

`summing_circuit` (p = 2): E(x) = (0, 2 x - 1) and P(t) = (a_t, 0), so that z_t = (cos,
± sin) of an angle with tan = 1/a_t; a query of zero, so that attention is the same
everywhere. Up to a constant, the second component of xi is then a sum of c_t x_t with
any coefficients 0 <= c_t in the ratio of these sines, and the first one is constant.
With odd c_t at non-spurious positions and even ones at spurious ones, the parity of
this sum is that of the target.

The MLP depends only on the direction of xi. The directions are ordered by angle, and
hidden unit i has its boundary between direction i and the next. The assemblers (VC's
term for output weights of the MLP) and the output bias are those of least norm that map
every direction to gain times the outward direction of its class. Everything is
dimensionless."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from analysis.clustering_heads.clusters import reference_sequences
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SettingsError, SparseSettings
from dynamics.tasks import sparse_sum

CIRCUIT_GAIN = 20.0
"""Default norm of the MLP's output."""

EMBEDDING_RADIUS = 3.0
"""Distance of E(x) + P(t) from the origin, where smooth and sharp normalisations
agree."""

_FAR = 1e6
"""Length of a position embedding at which all tokens have the same z."""

PREACTIVATION_STEP = 4.0
"""Increase of a unit's preactivation from one direction to the next."""

Circuit = dict[str, torch.Tensor]


# --------------------------------------------------------------- weights before the MLP


def ideal_circuit(
    s: SparseSettings, gain: float = CIRCUIT_GAIN, pull: float = 8.0
) -> Circuit:
    """Weights of a circuit that attends only to non-spurious positions, and equally to
    all of them (VC figure 1).

    Parameters
    ----------
    s : SparseSettings
        Task and network, with p = 2 or 3 and at least two axes.
    gain : float
        Norm of the MLP's output.
    pull : float
        Norm of the query times that of z over sqrt(d): attention to spurious positions
        is at most about exp(-1.8 pull).

    Returns
    -------
    dict of tensors
        By the names of the trajectory's variables.

    Raises
    ------
    ValueError, SettingsError
        For other settings, or too few hidden units.

    Examples
    --------
    >>> s = SparseSettings(length=4, sparsity=2, hidden=4)
    >>> network = ClusteringHead(s)
    >>> network.logits(ideal_circuit(s), torch.tensor([[0, 1, 0, 0], [1, 1, 0, 1]])).argmax(-1)
    tensor([1, 0])
    """
    return _with_mlp(
        *_front_on_arc(s, _arc_angles(s, pull=pull), -2 * EMBEDDING_RADIUS, pull), gain
    )


def inattentive_circuit(s: SparseSettings, gain: float = CIRCUIT_GAIN) -> Circuit:
    """A circuit like the ideal one, but with equal attention everywhere; the z of
    spurious tokens coincide."""
    return _with_mlp(
        *_front_on_arc(s, _arc_angles(s, still=len(_spurious(s))), _FAR), gain
    )


def one_sided_circuit(
    s: SparseSettings, gain: float = CIRCUIT_GAIN, ratio: float = 0.1
) -> Circuit:
    """A circuit in which token 0 at non-spurious positions gets `ratio` times the
    attention of token 1 (p = 2).

    The z of spurious tokens coincide, and their attention is between that of these two.
    """
    network, front = _front_on_arc(s, _arc_angles(s), _FAR)
    z = network.table(front)[s.counting[0]]
    front["query"][1] = -np.log(ratio) * s.dim**0.5 / float(z[1, 1] - z[0, 1])
    return _with_mlp(network, front, gain)


def corrected_circuit(s: SparseSettings, gain: float = CIRCUIT_GAIN) -> Circuit:
    """A circuit with attention everywhere; spurious tokens differ in z by the kernel of
    V, not in V z (p = 2, d >= 3).

    There is no such circuit in two dimensions: the MLP depends only on the direction of
    xi; an invertible V preserves differences between the directions of mixtures, and a
    V of rank 1 removes all of them."""
    if s.vocab != 2 or s.dim < 3:
        raise ValueError(
            f"settings: found p = {s.vocab} and d = {s.dim}, expected p = 2 and d at"
            " least 3"
        )
    network, front = _front(s)
    front["embedding"][:2, 1] = torch.tensor([-EMBEDDING_RADIUS, EMBEDDING_RADIUS])
    front["position_embedding"][list(s.counting), :2] = EMBEDDING_RADIUS
    front["position_embedding"][_spurious(s), 2] = EMBEDDING_RADIUS
    front["value"][:] = 0
    # removes the component along the tokens' difference
    front["value"][0, 0] = 4.0
    front["value"][1, 2] = 4.0
    return _with_mlp(network, front, gain)


def summing_circuit(
    s: SparseSettings, coefficients: Sequence[float], gain: float = CIRCUIT_GAIN
) -> Circuit:
    """A circuit with equal attention everywhere whose sequence embeddings are ordered
    by the sum of c_t x_t.

    coefficients: c_t >= 0 for each position. Raises ValueError.
    """
    c = np.asarray(coefficients, dtype=np.float64)
    is_allowed = c.shape == (s.length,) and (c >= 0).all() and c.any()
    if s.vocab != 2 or s.dim < 2 or not is_allowed:
        raise ValueError(
            f"coefficients: found {coefficients}, expected {s.length} from 0, not all"
            " 0, for p = 2, d > 1"
        )
    network, front = _front(s)
    front["embedding"][:2, 1] = torch.tensor([-EMBEDDING_RADIUS, EMBEDDING_RADIUS])
    sine = np.maximum(0.8 * c / c.max(), 1e-6)
    front["position_embedding"][:, 0] = torch.from_numpy(
        EMBEDDING_RADIUS * np.sqrt(1 / sine**2 - 1)
    )
    return _with_mlp(network, front, gain)


def _arc_angles(
    s: SparseSettings, pull: float = 0.0, still: int = 0, half: float = 0.5
) -> np.ndarray:
    """Angles of the tokens about the query, (token,), at which directions of mixtures
    are furthest apart.

    Two tokens are at the ends of the arc. A third one is placed to maximise the
    smallest angle between mixtures, which are sums of k tokens, weighted by attention,
    and of `still` points in the middle. Raises ValueError."""
    if s.vocab > 3 or s.dim < 2:
        raise ValueError(
            f"settings: found p = {s.vocab} and d = {s.dim}, expected p = 2 or 3 and d"
            " at least 2"
        )
    if s.vocab == 2:
        return np.array([-half, half])
    zeros, ones = np.triu_indices(s.sparsity + 1)
    counts = np.stack([zeros, ones - zeros, s.sparsity - ones], axis=1)

    def gap(middle: float) -> float:
        angles = np.array([-half, middle, half])
        points = counts @ np.exp(pull * (np.cos(angles) - 1) + 1j * angles) + still
        return float(np.diff(np.sort(np.angle(points))).min())

    return np.array([-half, max(np.linspace(0, half / 2, 400), key=gap), half])


def _front_on_arc(
    s: SparseSettings, angles: np.ndarray, spurious: float, pull: float = 0.0
) -> tuple[ClusteringHead, Circuit]:
    """Weights with the tokens at counting positions on an arc about the query, which is
    along the first axis.

    P contains the mean of the arc, so that E surrounds the origin and each class has
    its own outward direction. spurious: the first component of P at spurious positions.
    """
    network, front = _front(s)
    points = torch.from_numpy(
        EMBEDDING_RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    )
    centre = points.mean(dim=0)
    front["embedding"][: s.vocab, :2] = points - centre
    front["position_embedding"][list(s.counting), :2] = centre
    front["position_embedding"][_spurious(s), 0] = spurious
    radius = float(
        network.normalise(
            torch.full((s.dim,), EMBEDDING_RADIUS, dtype=torch.float64)
        ).norm()
    )
    front["query"][0] = pull * s.dim**0.5 / radius
    return network, front


def _front(s: SparseSettings) -> tuple[ClusteringHead, Circuit]:
    network = ClusteringHead(
        dataclasses.replace(s, start="random", start_step=0, start_runs="seed")
    )
    front = {
        name: torch.zeros(shape, dtype=torch.float64)
        for name, shape in network.shapes.items()
    }
    front["value"][:] = 4 * torch.eye(s.dim)
    return network, front


def _spurious(s: SparseSettings) -> list[int]:
    return [t for t in range(s.length) if t not in s.counting]


# ------------------------------------------------------------------------------ the MLP


@torch.no_grad()
def _with_mlp(network: ClusteringHead, front: Circuit, gain: float) -> Circuit:
    """The weights with an MLP that maps every direction of xi to its class.

    Raises ValueError if directions of different classes coincide, SettingsError if
    there are too few hidden units."""
    s = network.settings
    tokens = reference_sequences(s)
    xi = network.sequence_embedding(front, torch.from_numpy(tokens))
    middle, classes, points = _embedding_directions(xi.numpy(), sparse_sum(tokens, s))
    units = len(middle) - 1 + (not s.output_bias)
    if units > s.hidden:
        raise SettingsError("hidden", s.hidden, f"{units} or more")
    circuit = {name: weight.clone() for name, weight in front.items()}
    radius = float(network.normalise(xi).norm(dim=-1).mean())
    bounds = (middle[1:] + middle[:-1]) / 2
    steep = PREACTIVATION_STEP / np.diff(middle)
    if not s.output_bias:  # one more unit, active for all directions, replaces the bias
        bounds = np.append(middle[0] - 1, bounds)
        steep = np.append(PREACTIVATION_STEP, steep)
    normals = np.stack([-np.sin(bounds), np.cos(bounds)], axis=-1)
    receptor = normals * (steep / radius)[:, None]
    circuit["receptor"][: len(bounds), :2] = torch.from_numpy(receptor)
    before = network.normalise(points) @ circuit["receptor"].mT
    active = network.activation.function(before)
    if s.output_bias:
        active = torch.nn.functional.pad(active, (0, 1), value=1.0)
    target = gain * _outward_directions(front["embedding"][: s.vocab])[classes] - points
    solved = torch.linalg.lstsq(active, target, driver="gelsd").solution
    circuit["assembler"][:] = solved[: s.hidden]
    if s.output_bias:
        circuit["transform_bias"][:] = solved[s.hidden]
    return circuit


def _embedding_directions(
    xi: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """The different angles of xi (sequence, axis) in the first two axes, ascending;
    their classes; and an xi of each.

    Angles closer than a 5000th of their range are one direction, which must have one
    class. Raises ValueError."""
    angle = np.arctan2(xi[:, 1], xi[:, 0])
    order = np.argsort(angle, kind="stable")
    angle = angle[order]
    targets = targets[order]
    xi = xi[order]
    near = np.ptp(angle) / 5000
    first = np.flatnonzero(np.append(True, np.diff(angle) > near))
    last = np.append(first[1:], len(angle))
    for a, b in zip(first, last, strict=True):
        if (targets[a:b] != targets[a]).any():
            raise ValueError(
                "front: found sequences of different targets in one direction, expected"
                " different ones"
            )
    middle = np.array([angle[a:b].mean() for a, b in zip(first, last, strict=True)])
    return middle, targets[first], torch.from_numpy(xi[first])


def _outward_directions(embedding: torch.Tensor) -> torch.Tensor:
    """Unit vectors (token, axis) along which each of some embeddings (token, axis) in
    convex position lies furthest.

    They point away from the centre of the circle through the embeddings, or of the
    segment between two."""
    if len(embedding) == 2:
        centre = embedding.mean(dim=0)
    else:  # |e|² = 2 e · centre + constant
        coordinates = torch.nn.functional.pad(2 * embedding[:, :2], (0, 1), value=1.0)
        centre = torch.zeros_like(embedding[0])
        centre[:2] = torch.linalg.solve(coordinates, (embedding**2).sum(dim=1))[:2]
    away = embedding - centre
    return away / away.norm(dim=1, keepdim=True)

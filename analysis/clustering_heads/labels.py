"""The kind of circuit that a run of VC's network has learned (VC section 3.2), from its
measured invariances.

The labels are assigned in this order, by `LabelThresholds`:

1. none: the accuracy over all sequences is less than half-way from chance to 1, or the
   run has diverged, or its attention scores are too far apart. A network that does not
   solve the task has no circuit, regardless of its invariances.
2. Missing invariances: a spurious position leaks if its value fraction is above the
   tolerance. Non-spurious positions form a group if their order fraction is at most the
   tolerance; those outside the largest group cannot be exchanged with it.
3. If no invariance is missing, attention decides:
   - part of the values: at non-spurious positions some token gets less than a quarter
     of the attention of another one;
   - ideal: at least .9 of the attention is on non-spurious positions;
   - corrected: less than that, and values and embeddings compensate for it.
4. partial: at most half of the L positions lack their invariance; each position has
   one.
5. fuzzy: more than half of the positions lack it, although the task is solved.

Choice of the thresholds: if xi were a sum of c_t x_t for p = 2 and k = 5, the tolerance
.01 would be reached by a leak of c = 0.22 of the distance between neighbouring
clusters, which are then still far apart, and by a counting coefficient that is off by
0.3. Half-way to 1 is an accuracy of .75 for p = 2. `label_sensitivity` repeats the
labelling with each threshold halved and doubled. Positions and tokens count from 0, as
in the settings, and not from 1, as in the paper."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.sparse.csgraph import connected_components

from analysis.clustering_heads.invariances import MAX_SCORE_GAP
from analysis.output.results import dimensionless

CIRCUIT_LABELS = (
    "ideal",
    "corrected",
    "part of the values",
    "partial",
    "fuzzy",
    "none",
)

CIRCUIT_LABEL_MEANINGS = {
    "ideal": "attention only to non-spurious positions, equal for all tokens",
    "corrected": "attention to spurious positions too, without effect",
    "part of the values": "little attention to some tokens",
    "partial": "some invariances are missing",
    "fuzzy": "most invariances are missing, but the task is solved",
    "none": "not learned",
}


class LabelThresholds(NamedTuple):
    """Thresholds of the labels."""

    learned: float = 0.5
    """Least accuracy, as a fraction of the way from chance to 1"""
    tolerance: float = 0.01
    """Largest value fraction and order fraction of an invariant position"""
    part: float = 0.25
    """Least attention to a token at non-spurious positions, over that of the most
    attended token"""
    elsewhere: float = 0.1
    """Largest attention of an ideal circuit to spurious positions"""
    fuzzy: float = 0.5
    """Largest fraction of positions without invariance in a partial circuit"""


class CircuitLabel(NamedTuple):
    """A label, its reason in words, and the positions that lack an invariance."""

    label: str
    reason: str
    leaking: tuple[int, ...] = ()
    """Spurious positions to whose token xi is not invariant"""
    apart: tuple[int, ...] = ()
    """Non-spurious positions that do not swap with the others"""


def circuit_label(
    measures: xr.Dataset,
    thresholds: LabelThresholds = LabelThresholds(),  # noqa: B008  (immutable)
) -> CircuitLabel:
    """The label of one run, from the result of `measure_invariances` at one index along
    run."""
    accuracy = float(measures["accuracy"])
    p = measures.sizes["token"]
    if np.isnan(accuracy):
        far = f"attention scores more than {MAX_SCORE_GAP} apart"
        is_far = bool(measures.get("far_scores", False))
        return CircuitLabel("none", far if is_far else "diverged")
    if (accuracy - 1 / p) / (1 - 1 / p) < thresholds.learned - 1e-12:
        return CircuitLabel("none", f"accuracy {accuracy:.2f}")
    counting = measures["counting"].values.tolist()
    spurious = [t for t in range(measures.sizes["position"]) if t not in counting]
    shares = measures["value_share"].values
    if np.isnan(shares).any():
        return CircuitLabel("none", "the sequence embeddings do not vary")
    leaking = tuple(t for t in spurious if shares[t] > thresholds.tolerance)
    outside = positions_outside_largest_group(
        measures["order_share"].values, thresholds.tolerance
    )
    apart = tuple(counting[place] for place in outside)
    if leaking or apart:
        words = [
            *_describe_leaks(measures, leaking, thresholds.tolerance),
            *_describe_apart(apart),
        ]
        few = len(leaking) + len(apart) <= thresholds.fuzzy * measures.sizes["position"]
        label = "partial" if few else "fuzzy"
        return CircuitLabel(label, "; ".join(words), leaking, apart)
    return _label_by_attention(measures, counting, thresholds)


def positions_outside_largest_group(
    order_share: np.ndarray, tolerance: float
) -> list[int]:
    """Indices outside the largest group of non-spurious positions that swap, from order
    fractions (counting, counting).

    Positions are in one group if they swap, or if both swap with a third one. Of groups
    of equal size the one with the first position counts as the largest.

    >>> positions_outside_largest_group(np.array([[0, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0]]), 0.1)
    [1]
    """
    group = connected_components(order_share <= tolerance, directed=False)[1]
    largest = np.bincount(group).argmax()
    return np.flatnonzero(group != largest).tolist()


def _describe_leaks(
    measures: xr.Dataset, leaking: tuple[int, ...], tolerance: float
) -> Iterator[str]:
    """Descriptions of the leaks, with the distinguished tokens if these are not all."""
    whole = []
    for position in leaking:
        shares = measures["token_share"].values[position]
        pairs = list(zip(*np.triu_indices(len(shares), k=1), strict=True))
        separated = [(a, b) for a, b in pairs if shares[a, b] > tolerance]
        if len(separated) == len(pairs):
            whole.append(position)
        else:
            yield (
                f"distinguishes {', '.join(f'{a} from {b}' for a, b in separated)} at"
                f" position {position}"
            )
    if whole:
        yield (
            f"not invariant to the value at position{'s' * (len(whole) > 1)}"
            f" {_listed(whole)}"
        )


def _describe_apart(apart: tuple[int, ...]) -> Iterator[str]:
    """A description of the positions that do not swap."""
    if apart:
        several = len(apart) > 1
        yield (
            f"position{'s' * several} {_listed(apart)} {'do' if several else 'does'}"
            " not swap with the others"
        )


def _listed(positions: Sequence[int]) -> str:
    return (
        ", ".join(map(str, positions[:-1]))
        + " and " * (len(positions) > 1)
        + str(positions[-1])
    )


def _label_by_attention(
    measures: xr.Dataset, counting: list[int], thresholds: LabelThresholds
) -> CircuitLabel:
    """The label of a run that has all invariances."""
    mass = float(measures["attention"].values[counting].sum())
    given = measures["token_attention"].values[counting].mean(axis=0)
    relative = given / given.max()
    if relative.min() < thresholds.part:
        weak = ", ".join(
            f"token {token} gets {relative[token]:.2f}"
            for token in np.flatnonzero(relative < thresholds.part)
        )
        return CircuitLabel(
            "part of the values", f"{weak} of the attention of token {given.argmax()}"
        )
    reason = f"{mass:.2f} of the attention on non-spurious positions"
    if mass >= 1 - thresholds.elsewhere:
        return CircuitLabel("ideal", reason)
    spurious = [t for t in range(measures.sizes["position"]) if t not in counting]
    z = np.sqrt((measures["embedding_spread"].values[spurious] ** 2).mean())
    vz = np.sqrt((measures["value_spread"].values[spurious] ** 2).mean())
    spread = (
        f"spread of spurious tokens relative to non-spurious ones: {z:.2f} in z,"
        f" {vz:.2f} in V z"
    )
    return CircuitLabel("corrected", f"only {reason}; {spread}")


# -------------------------------------------------------------------------- an ensemble


def circuit_labels(
    result: xr.Dataset,
    thresholds: LabelThresholds = LabelThresholds(),  # noqa: B008  (immutable)
) -> list[CircuitLabel]:
    """The label of every run, from the result of `measure_invariances`."""
    return [
        circuit_label(result.isel(run=run), thresholds)
        for run in range(result.sizes["run"])
    ]


def label_counts(
    result: xr.Dataset,
    thresholds: LabelThresholds = LabelThresholds(),  # noqa: B008  (immutable)
) -> np.ndarray:
    """The number of runs with each of `CIRCUIT_LABELS`: (label,)."""
    labels = [item.label for item in circuit_labels(result, thresholds)]
    return np.array([labels.count(label) for label in CIRCUIT_LABELS])


def label_sensitivity(result: xr.Dataset) -> xr.DataArray:
    """`label_counts` with each threshold halved, unchanged and doubled: (threshold,
    factor, label)."""
    usual = LabelThresholds()
    coords: dict[str, Any] = {
        "threshold": list(LabelThresholds._fields),
        "factor": np.array([0.5, 1.0, 2.0]),
        "label": list(CIRCUIT_LABELS),
    }
    values = np.empty([len(names) for names in coords.values()], np.int64)
    for row, name in zip(values, coords["threshold"], strict=True):
        for column, factor in zip(row, coords["factor"], strict=True):
            changed = usual._replace(**{name: factor * getattr(usual, name)})
            column[:] = label_counts(result, changed)
    attrs = dimensionless("runs with each label, one threshold changed")
    return xr.DataArray(values, coords, tuple(coords), attrs=attrs)

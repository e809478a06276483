"""What kind of circuit a run of VC's network has learned (VC section 3.2), decided from
`analysis.clustering_heads.invariances`.

In this order, by `Thresholds`:

1. none: the accuracy over all sequences is less than half-way from chance to 1, or the run has diverged, or its
   attention scores lie too far apart to be computed with. Invariances of what does not solve the task, such as a
   sequence embedding that hardly varies, are no circuit.
2. What is missing is looked for. A spurious position leaks if its value share is above the tolerance. Counting
   positions belong together if their order share is not above it; those outside the largest group do not swap with the
   others.
3. Where nothing is missing, the attention tells:
   - part of the values: some token, at counting positions, gets less than a quarter of what the most attended gets;
   - ideal: at least .9 of the attention is on counting positions;
   - corrected: less is, and values and embeddings make up for it.
4. partial: of the L positions, each of which has one invariance to it, at most half lack theirs; they are named.
5. fuzzy: more do, and the task is solved all the same.

Why these numbers: were xi a sum of c_t x_t at p = 2 and k = 5, the tolerance .01 would be passed by a leak of
c = 0.22 of the distance between neighbouring clusters, a blur by which they are still far apart, and by a counting
coefficient that is off by 0.3. Half-way to 1 is an accuracy of .75 at p = 2. `sensitivity` counts again with each
threshold halved and doubled. Positions and tokens count from 0, as in the settings, and not from 1, as in the paper.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.sparse.csgraph import connected_components

from analysis.clustering_heads.invariances import MAX_SCORE_GAP

CIRCUIT_LABELS = ("ideal", "corrected", "part of the values", "partial", "fuzzy", "none")

CIRCUIT_LABEL_MEANINGS = {
    "ideal": "attention to the counting positions alone, all alike",
    "corrected": "attention elsewhere too, but what is there makes no difference",
    "part of the values": "some tokens hardly attended to",
    "partial": "some invariances are missing",
    "fuzzy": "most invariances are missing, solved all the same",
    "none": "not learned",
}


class LabelThresholds(NamedTuple):
    """By what labels are decided."""

    learned: float = 0.5
    """Share of the way from chance to 1 that the accuracy must have come"""
    tolerance: float = 0.01
    """Largest value share, and order share, of what is invariant"""
    part: float = 0.25
    """Least attention to a token at counting positions, of what the most attended one gets"""
    elsewhere: float = 0.1
    """Most attention that an ideal circuit has on spurious positions"""
    fuzzy: float = 0.5
    """Most positions, as a share of all, whose invariance a circuit may lack and still be partial"""


class CircuitLabel(NamedTuple):
    """A label and its reason in words; the places that lack an invariance."""

    label: str
    reason: str
    leaking: tuple[int, ...] = ()
    """Spurious positions whose token is not overlooked"""
    apart: tuple[int, ...] = ()
    """Counting positions that do not swap with the others"""


def circuit_label(one: xr.Dataset, by: LabelThresholds = LabelThresholds()) -> CircuitLabel:  # noqa: B008  (it is immutable)
    """The label of one run, given what `invariances` found, selected along run."""
    accuracy, p = float(one["accuracy"]), one.sizes["token"]
    if np.isnan(accuracy):
        far = bool(one.get("far_scores", False))
        return CircuitLabel("none", f"attention scores more than {MAX_SCORE_GAP} apart" if far else "diverged")
    if (accuracy - 1 / p) / (1 - 1 / p) < by.learned - 1e-12:
        return CircuitLabel("none", f"accuracy {accuracy:.2f}")
    counting = one["counting"].values.tolist()
    spurious = [t for t in range(one.sizes["position"]) if t not in counting]
    shares = one["value_share"].values
    leaking = tuple(t for t in spurious if shares[t] > by.tolerance)
    apart = tuple(counting[place] for place in positions_outside_largest_group(one["order_share"].values, by.tolerance))
    if leaking or apart:
        words = [*_leaks(one, leaking, by.tolerance), *_apart(one, apart)]
        few = len(leaking) + len(apart) <= by.fuzzy * one.sizes["position"]
        return CircuitLabel("partial" if few else "fuzzy", "; ".join(words), leaking, apart)
    return _by_attention(one, counting, by)


def positions_outside_largest_group(order_share: np.ndarray, tolerance: float) -> list[int]:
    """Places outside the largest group of counting positions that swap with each other, (counting, counting).

    Groups are chained: two positions belong together if they swap, or if both swap with a third. Of equally large
    groups that of the first position counts as the largest.
    """
    group = connected_components(order_share <= tolerance, directed=False)[1]
    largest = np.bincount(group).argmax()
    return np.flatnonzero(group != largest).tolist()


def _leaks(one: xr.Dataset, leaking: tuple[int, ...], tolerance: float) -> Iterator[str]:
    """Which positions leak; and where not all tokens are told apart there, which are."""
    whole = []
    for position in leaking:
        shares = one["token_share"].values[position]
        pairs = list(zip(*np.triu_indices(len(shares), k=1), strict=True))
        told = [(a, b) for a, b in pairs if shares[a, b] > tolerance]
        if len(told) == len(pairs):
            whole.append(position)
        else:
            yield f"tells {', '.join(f'{a} from {b}' for a, b in told)} at position {position}"
    if whole:
        yield f"not invariant to the value at position{'s' * (len(whole) > 1)} {_listed(whole)}"


def _apart(one: xr.Dataset, apart: tuple[int, ...]) -> Iterator[str]:
    if apart:
        several = len(apart) > 1
        yield f"position{'s' * several} {_listed(apart)} {'do' if several else 'does'} not swap with the others"


def _listed(positions: "tuple[int, ...] | list[int]") -> str:
    return ", ".join(map(str, positions[:-1])) + " and " * (len(positions) > 1) + str(positions[-1])


def _by_attention(one: xr.Dataset, counting: list[int], by: LabelThresholds) -> CircuitLabel:
    mass = float(one["attention"].values[counting].sum())
    given = one["token_attention"].values[counting].mean(axis=0)
    if given.min() < by.part * given.max():
        weak = [
            f"{token} gets {given[token] / given.max():.2f}" for token in np.flatnonzero(given < by.part * given.max())
        ]
        return CircuitLabel("part of the values", f"{', '.join(weak)} of the attention of {given.argmax()}")
    if mass >= 1 - by.elsewhere:
        return CircuitLabel("ideal", f"{mass:.2f} of the attention on counting positions")
    spurious = [t for t in range(one.sizes["position"]) if t not in counting]
    collapse = [np.sqrt((one[name].values[spurious] ** 2).mean()) for name in ("embedding_spread", "value_spread")]
    reason = (
        f"only {mass:.2f} of the attention on counting positions; tokens at others lie apart {collapse[0]:.2f} times"
    )
    return CircuitLabel("corrected", f"{reason} as far, {collapse[1]:.2f} times after the value matrix")


# --------------------------------------------------------------------------------------------- an ensemble


def circuit_labels(found: xr.Dataset, by: LabelThresholds = LabelThresholds()) -> list[CircuitLabel]:  # noqa: B008
    """The label of every run of what `invariances` found."""
    return [circuit_label(found.isel(run=run), by) for run in range(found.sizes["run"])]


def label_counts(found: xr.Dataset, by: LabelThresholds = LabelThresholds()) -> np.ndarray:  # noqa: B008
    """How many runs have each of `LABELS`: (label,)."""
    labels = [each.label for each in circuit_labels(found, by)]
    return np.array([labels.count(label) for label in CIRCUIT_LABELS])


def label_sensitivity(found: xr.Dataset) -> xr.DataArray:
    """`counts` with each threshold as it is, halved and doubled: (threshold, factor, label)."""
    factors = np.array([0.5, 1.0, 2.0])
    usual = LabelThresholds()
    values = [
        [label_counts(found, usual._replace(**{name: factor * getattr(usual, name)})) for factor in factors]
        for name in LabelThresholds._fields
    ]
    attrs = {"long_name": "runs with each label, one threshold changed", "units": "1"}
    coords = {"threshold": list(LabelThresholds._fields), "factor": factors, "label": list(CIRCUIT_LABELS)}
    return xr.DataArray(np.array(values), coords, ("threshold", "factor", "label"), attrs=attrs)

"""The sum that the sequence embeddings of VC's network encode, which may differ from
that of the task.

The target is the sum of the non-spurious tokens modulo p. Any sum of steps f_t(x_t)
over all positions with

    f_t(v) = v (mod p) at non-spurious positions,  f_t(v) = 0 (mod p) at spurious ones

has the same residue: for p = 2 a non-spurious token may have any odd coefficient, such
as -1 or 3, and a spurious one any even one. A network whose sequence embeddings are
ordered by such a sum solves the task, although permutations of non-spurious positions,
or spurious tokens, change the embeddings. So circuits that seem to lack invariances, or
to have unusual clusters (VC section 3.2), may be exact.

Steps are main effects E[xi | x_t = v] - E[xi | x_t = 0], projected on their leading
direction, in units of the median over non-spurious positions of the smallest difference
between two tokens there. All values are dimensionless."""

from typing import NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.clustering_heads import invariances
from analysis.clustering_heads.invariances import InvarianceProbe
from analysis.output.results import dimensionless
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.settings import SparseSettings
from dynamics.trajectory.diverged import not_diverged

INTEGER_TOLERANCE = 0.25
"""Largest distance of a step from a whole number."""


class EncodedSum(NamedTuple):
    """The sum that one network encodes."""

    steps: np.ndarray
    """(position, token) f_t(v), with f_t(0) = 0; NaN where the embeddings do not
    vary"""
    whole: bool
    """Whether all steps are near whole numbers"""
    congruent: bool
    """Whether the rounded steps have the residues of the task"""
    levels: int
    """Number of different sums of the rounded steps; 0 if they are not whole"""
    share: float
    """Fraction of the variance of xi between sequences with different sums; NaN if
    steps are not whole"""


def no_sum(steps: np.ndarray) -> EncodedSum:
    """The result for steps that are no whole numbers."""
    return EncodedSum(steps, False, False, 0, float("nan"))


def _main_effects(xi: np.ndarray, probe: InvarianceProbe) -> np.ndarray:
    """E[xi | x_t = v] - E[xi | x_t = 0] of xi (sequence, axis) along their leading
    direction: (position, token)."""
    mean = xi[probe.changed].mean(axis=0)
    effect = mean - mean[:, :1]
    leading = np.linalg.svd(effect.reshape(-1, xi.shape[1]), full_matrices=False)[2][0]
    return effect @ leading


def encoded_sum(
    xi: np.ndarray, probe: InvarianceProbe, s: SparseSettings
) -> EncodedSum:
    """The sum that sequence embeddings (sequence, axis) of all sequences of the probe
    encode."""
    effect = _main_effects(xi, probe)
    gaps = np.abs(effect[:, :, None] - effect[:, None, :])[
        :, *np.triu_indices(s.vocab, k=1)
    ].min(axis=1)
    unit = np.median(gaps[list(s.counting)])
    has_variance = np.isfinite(invariances.total_variance(xi[probe.base]))
    if not has_variance or unit <= 1e-9 * np.abs(effect).max():
        return no_sum(np.full(effect.shape, np.nan))
    residue = np.zeros(effect.shape, dtype=np.int64)
    residue[list(s.counting)] = np.arange(s.vocab)
    signed = [effect / unit, -effect / unit]  # the sign of the direction is arbitrary
    steps = max(
        signed,
        key=lambda counts: (
            _count_congruent(counts, residue, s.vocab),
            counts[list(s.counting)].sum(),
        ),
    )
    if not (np.abs(steps - steps.round()) < INTEGER_TOLERANCE).all():
        return no_sum(steps)
    rounded = steps.round().astype(np.int64)
    sums = rounded[np.arange(s.length), probe.tokens[probe.base]].sum(axis=1)
    different, labels = np.unique(sums, return_inverse=True)
    share = invariances.between_group_fraction(
        xi[probe.base], labels.ravel(), sample=not probe.exhaustive
    )
    is_congruent = _count_congruent(steps, residue, s.vocab) == steps.size
    return EncodedSum(steps, True, is_congruent, len(different), float(share))


def _count_congruent(steps: np.ndarray, residue: np.ndarray, modulus: int) -> int:
    """The number of steps whose rounded value has the residue of the task."""
    return int(((steps.round().astype(np.int64) - residue) % modulus == 0).sum())


@torch.no_grad()
def measure_encoded_sums(trajectory: xr.Dataset, step: int | None = None) -> xr.Dataset:
    """The `encoded_sum` of every run at a recorded step, by default the last.

    NaN or 0 for runs that have diverged or whose attention scores are too far apart.
    Raises TrajectoryError, SettingsError."""
    network = clustering_head_of(trajectory)
    s = network.settings
    probe = invariances.invariance_probe(s)
    step = int(trajectory["step"][-1]) if step is None else step
    all_weights = weights(trajectory, step=step)
    alive = not_diverged(trajectory, step)
    nothing = no_sum(np.full((s.length, s.vocab), np.nan))
    rows = []
    for run in range(trajectory.sizes["run"]):
        rows.append(nothing)
        if alive[run]:
            of_run = {name: value[run].double() for name, value in all_weights.items()}
            with invariances.run_error_context(trajectory, run):
                xi = invariances.batched_sequence_embeddings(
                    network, of_run, probe.tokens
                )[0].numpy()
                rows[run] = encoded_sum(xi, probe, s)
    data = {}
    for name, meaning in _MEANINGS.items():
        values = np.stack([np.asarray(getattr(row, name)) for row in rows])
        dims = ("run", "position", "token")[: values.ndim]
        data[f"sum_{name}"] = (dims, values, dimensionless(meaning))
    return xr.Dataset(data, {"seed": ("run", trajectory["seed"].values)})


_MEANINGS = {
    "steps": (
        "step of the encoded sum, in units of the median smallest step at non-spurious"
        " positions"
    ),
    "whole": "whether all steps are near whole numbers",
    "congruent": "whether the rounded steps have the residues of the task",
    "levels": "number of different sums of the rounded steps",
    "share": "fraction of the variance of xi between different sums",
}

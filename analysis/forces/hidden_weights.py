"""Hidden weights of CA's network: their size, and how they and the pair sums are
aligned (CA figure 6, section 5.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import xarray as xr

from analysis.forces import alignment
from analysis.output.tables import Column, interval_columns
from analysis.statistics.intervals import Interval, mean_interval
from analysis.structures.circles_and_grids import is_circle
from dynamics.ensemble import Ensemble
from dynamics.settings import ModularSettings, SettingsError, check_integer
from dynamics.tasks import all_pairs, modular_training_mask
from dynamics.trajectory.diverged import count_diverged, not_diverged
from dynamics.trajectory.schema import read_settings

WEIGHT_SIZES = ("weight", "bias")
ALIGNMENT_MEASURES = ("alignment", "boundaries", "rays")
"""`weight_alignment`, `boundary_alignment` and `pair_sum_collinearity` of
`analysis.forces`, with chance levels."""

WeightMeasures = Mapping[str, np.ndarray]
"""Measures of some runs, each (run,): seed, circle, the WEIGHT_SIZES, the
ALIGNMENT_MEASURES and their _chance."""


class WeightGroup(NamedTuple):
    """Means over some runs with 95% intervals over seeds, by name of the measure."""

    runs: int
    circles: int
    mean: dict[str, Interval]
    chance: dict[str, float]


def measure_weights(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Sizes and alignment of the hidden weights in the last frame of the runs that have
    not diverged.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of the network of CA (system ``modular``) with recorded weights.

    Returns
    -------
    dict of arrays, each (run,)
        `seed`; `circle`, whether the embedding is a circle; `weight` and `bias`, the
        mean absolute values of the H x D hidden weights and the H biases, dead units
        included; `alignment`, `boundaries` and `rays` with the pair sums of the
        training pairs, and each one's `_chance`.

    Raises
    ------
    SettingsError
        If the activation is not ReLU, whose units are dead or have a boundary.

    Examples
    --------
    >>> from analysis.forces import measure_weights
    >>> from dynamics import ModularSettings, simulate
    >>> trajectory = simulate(ModularSettings(n=5, hidden=8), runs=2, steps=3, progress=False)
    >>> measure_weights(trajectory)["seed"]
    array([0, 1])
    """
    settings = read_settings(trajectory)
    _check_rectified(settings)  # type: ignore[arg-type]
    last = trajectory.isel(step=-1)
    last = last.isel(run=np.flatnonzero(not_diverged(last)))
    last = last.transpose("run", "token", "hidden", "axis", ...)
    embedding, weight, bias = (
        last[name].values.astype(np.float64)
        for name in ("embedding", "hidden_weight", "hidden_bias")
    )
    seeds = last["seed"].values
    chosen = modular_training_mask(settings, seeds)  # type: ignore[arg-type]
    pairs = np.broadcast_to(all_pairs(settings.modulus), (*chosen.shape, 2))[chosen]
    pairs = pairs.reshape(len(seeds), settings.train_pairs, 2)  # type: ignore[attr-defined]
    measures = {
        "seed": seeds,
        "weight": np.abs(weight).mean(axis=(1, 2)),
        "bias": np.abs(bias).mean(axis=1),
    }
    measures["circle"] = is_circle(embedding) if len(seeds) else np.zeros(0, dtype=bool)
    sums = alignment.embedding_pair_sums(embedding, pairs)
    results = {
        "alignment": alignment.weight_alignment(sums, weight, bias),
        "boundaries": alignment.boundary_alignment(sums, weight, bias),
        "rays": alignment.pair_sum_collinearity(embedding, pairs),
    }
    for name, result in results.items():
        measures[name], measures[f"{name}_chance"] = result.value, result.chance
    return measures


def _check_rectified(settings: ModularSettings) -> None:
    """Raise SettingsError unless hidden units have the activation of the paper."""
    if settings.activation != "relu":
        allowed = "relu, whose units are active on one side of a boundary"
        raise SettingsError("activation", settings.activation, allowed)


def mean_weight_measures(runs: WeightMeasures) -> WeightGroup:
    """Means over runs; runs of one seed, which have the same initial weights, count as
    one."""

    def by_seed(name: str) -> np.ndarray:
        finite = np.isfinite(runs[name])  # a run without living units has no alignment
        values = runs[name][finite]
        seeds = runs["seed"][finite]
        return np.array([values[seeds == seed].mean() for seed in np.unique(seeds)])

    mean = {}
    chance = {}
    for name in WEIGHT_SIZES:
        mean[name] = mean_interval(by_seed(name), limits=(0, np.inf))
    for name in ALIGNMENT_MEASURES:
        mean[name] = mean_interval(by_seed(name), limits=(0, 1))
        chance[name] = mean_interval(by_seed(f"{name}_chance")).value
    circles = int(runs["circle"].sum())
    return WeightGroup(len(runs["seed"]), circles, mean=mean, chance=chance)


def groups_by_structure(measures: Sequence[WeightMeasures]) -> dict[str, WeightGroup]:
    """Means over the circles and over the other runs of all weight decays; a structure
    without runs is left out."""
    together = {
        name: np.concatenate([runs[name] for runs in measures]) for name in measures[0]
    }
    structures = {"circles": together["circle"], "others": ~together["circle"]}
    return {
        name: mean_weight_measures(
            {measure: values[chosen] for measure, values in together.items()}
        )
        for name, chosen in structures.items()
        if chosen.any()
    }


# ---------------------------------------------------------------------------- ensembles


def train_at_weight_decays(
    settings: ModularSettings,
    weight_decays: Sequence[float],
    runs: int,
    seed: int,
    epochs: int,
    log: TextIO,
) -> Iterator[tuple[float, Path, xr.Dataset]]:
    """Train an ensemble at each weight decay, in increasing order, and yield weight
    decay, file and trajectory.

    Ensembles that are already in runs/ are read. Each file is printed to `log`. Raises
    SettingsError if the settings have a weight decay, and the errors of `simulate`."""
    check_integer("epochs", epochs, 1, 2**53)
    steps = epochs * ModularSettings.epoch_steps
    for decay in _settings_of_decays(settings, weight_decays):
        ensemble = Ensemble(decay, runs, seed, steps, every=steps)
        path = ensemble.path
        trajectory = ensemble.simulate(path)
        diverged = count_diverged(trajectory)
        left_out = f", {diverged} runs diverged and left out" if diverged else ""
        print(f"weight decay {decay.weight_decay:g}: {path}{left_out}", file=log)
        yield decay.weight_decay, path, trajectory


def _settings_of_decays(
    settings: ModularSettings, weight_decays: Sequence[float]
) -> list[ModularSettings]:
    _check_rectified(settings)
    if settings.weight_decay != ModularSettings.weight_decay:
        allowed = "no value here: the table has a row for each of --weight-decays"
        raise SettingsError("weight_decay", settings.weight_decay, allowed)
    try:
        replaces = {
            dataclasses.replace(settings, weight_decay=weight_decay)
            for weight_decay in weight_decays
        }
    except SettingsError as error:
        raise SettingsError("weight_decays", error.found, error.allowed) from None
    if not replaces:
        raise SettingsError("weight_decays", "none", "at least one")
    return sorted(replaces, key=lambda one: one.weight_decay)


# ---------------------------------------------------------------------------- the table


def _mean_column(heading: str, name: str) -> Column:
    return Column(heading, name, digits=3, interval="half-width")


def _group_label(row: Mapping[str, Any]) -> str:
    if row["structure"] == "all":
        return f"{row['weight_decay']:g}"
    return row["structure"]


WEIGHT_COLUMNS = (
    Column(
        "weight decay",
        text=_group_label,
    ),
    Column("runs", "runs"),
    _mean_column("|W_h|", "weight"),
    _mean_column("|b_h|", "bias"),
    *(
        column
        for name in ALIGNMENT_MEASURES
        for column in (
            _mean_column(name, name),
            Column("chance", f"{name}_chance", digits=3),
        )
    ),
    Column("circles", "circles"),
)


def weight_rows(
    by_decay: Mapping[float, WeightGroup], by_structure: Mapping[str, WeightGroup]
) -> list[dict[str, Any]]:
    """Rows of the table: one for each weight decay, then one for each structure over
    all weight decays."""
    rows = [_weight_row(decay, "all", group) for decay, group in by_decay.items()]
    return rows + [
        _weight_row(None, structure, group) for structure, group in by_structure.items()
    ]


def _weight_row(
    decay: float | None, structure: str, group: WeightGroup
) -> dict[str, Any]:
    """A row; sizes, which depend on the weight decay, are left out of rows over all
    weight decays."""
    row: dict[str, Any] = {
        "weight_decay": decay,
        "structure": structure,
        "runs": group.runs,
    }
    for name in WEIGHT_SIZES:
        row |= interval_columns(
            name, group.mean[name] if decay is not None else [np.nan] * 3
        )
    for name in ALIGNMENT_MEASURES:
        row |= interval_columns(name, group.mean[name]) | {
            f"{name}_chance": group.chance[name]
        }
    return row | {"circles": group.circles}

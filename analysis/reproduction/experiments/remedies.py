"""VC section 4.3: the same runs with a smooth norm, a wider layer, or decay of the assemblers."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification.estimate import Estimate, as_percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL
from analysis.transitions.detection import DEFAULT_DETECTION
from analysis.transitions.interventions import (
    UNCHANGED,
    compare_interventions,
    ensemble_mean,
    intervention_effect,
    intervention_settings,
    mcnemar_p_value,
    paired_effects,
)
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings

SMOOTH = "smooth norm"


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The recipe, and with each remedy; these record metrics alone."""
    return list(_ensembles_by_name(params).values())


def _ensembles_by_name(params: Params) -> dict[str, RequiredRuns]:
    """The ensembles by name, that of the recipe first."""
    settings, runs, epochs = SparseSettings(**params.get("settings", {})), params["runs"], params.get("epochs")
    changed = intervention_settings(settings, **params.get("remedies", {}))
    return {
        UNCHANGED: RequiredRuns(settings, runs, epochs),
        **{name: RequiredRuns(each, runs, epochs, record="metrics") for name, each in changed.items()},
    }


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Spikes, those after the escape, epochs after it, and final test accuracy: (remedy, run)."""
    found = {name: runner.ensemble(need) for name, need in _ensembles_by_name(params).items()}
    return compare_interventions(found).drop_vars("seed")


REMEDIES = Experiment(
    "vc.remedies",
    "spikes and accuracy of the same runs with a smooth norm, a wider layer, or decay of the assemblers",
    sizes={Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.DEFAULT: 15, Size.FULL: 15},
    measure=measure,
    ensembles=ensembles,
    depends={"rule": dataclasses.asdict(DEFAULT_DETECTION)},
    command="python -m analysis.remedies RUN.nc",
)


# ----------------------------------------------------------------------------------------------- what was found


def spike_rate_change(evidence: xr.Dataset, remedy: str) -> Estimate:
    """What a remedy adds to the spikes in 1000 epochs after the escape, of all runs together."""
    before, after = (ensemble_mean(evidence, name, "rate") for name in (UNCHANGED, remedy))
    ratio = after.value / before.value if before.value > 0 else float("nan")
    runs = int(np.isfinite(evidence["spikes"].sel(remedy=[UNCHANGED, remedy]).values).all(axis=0).sum())
    note = f"{after.value:.1f} against {before.value:.1f}"
    found = intervention_effect(evidence, remedy, "rate")
    if not np.isfinite(found.value):
        found, note = NO_INTERVAL, "no run escapes, with the remedy or without"
    elif before.value == after.value == 0:
        found, note = NO_INTERVAL, "no run spikes after its escape, with the remedy or without"
    return Estimate(found, runs, "runs", ratio, "ratio of the rates", note)


def accuracy_change(evidence: xr.Dataset, remedy: str) -> Estimate:
    """What a remedy adds to the final test accuracy, in points, of the same runs."""
    apart = paired_effects(evidence, remedy, "test")
    spread = float(apart.std(ddof=1)) if apart.size > 1 else 0.0
    size = float(apart.mean() / spread) if spread > 0 else float("nan")
    counts = [int((evidence["test"].sel(remedy=name).values > SUCCESS_ACCURACY).sum()) for name in (remedy, UNCHANGED)]
    escaped = [int((evidence["since"].sel(remedy=name).values > 0).sum()) for name in (remedy, UNCHANGED)]
    note = f"{counts[0]} against {counts[1]} above .98, {escaped[0]} against {escaped[1]} escape"
    p = mcnemar_p_value(evidence, remedy)
    note += f" (McNemar's p for those above .98 {p:.2g})" if p == p else ""
    return Estimate(
        as_percentage(intervention_effect(evidence, remedy, "test")),
        len(apart),
        "runs",
        size,
        "Cohen's d, paired",
        note,
    )

"""VC section 4.3: the same runs with a smooth norm, a wider MLP, or weight decay of the
assemblers."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    samples,
)
from analysis.statistics.intervals import NO_INTERVAL
from analysis.transitions import DEFAULT_DETECTION, UNCHANGED, interventions
from dynamics.settings import SUCCESS_ACCURACY, SparseSettings


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The default recipe, and each remedy, of which only metrics are recorded."""
    return list(_ensembles_by_name(params).values())


def _ensembles_by_name(params: Params) -> dict[str, RequiredRuns]:
    """The ensembles by name, that of the default recipe first."""
    settings = SparseSettings(**params.get("settings", {}))
    runs = params["runs"]
    epochs = params.get("epochs")
    changed = interventions.intervention_settings(
        settings, **params.get("remedies", {})
    )
    needs = {
        name: RequiredRuns(variant, runs, epochs, record="metrics")
        for name, variant in changed.items()
    }
    return {UNCHANGED: RequiredRuns(settings, runs, epochs), **needs}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Spikes, spikes after the escape, epochs after the escape, and final test
    accuracy: (remedy, run)."""
    trajectories = {
        name: runner.ensemble(need) for name, need in _ensembles_by_name(params).items()
    }
    return interventions.compare_interventions(trajectories).drop_vars("seed")


REMEDIES = declare_experiment(
    "vc.remedies", measure, ensembles, depends={"rule": DEFAULT_DETECTION}
)


def spike_rate_change(
    evidence: xr.Dataset, remedy: str, in_both: bool = False
) -> Estimate:
    """Change of the number of spikes in 1000 epochs after the escape, over all runs or
    those that escape in both."""
    pair = evidence.sel(remedy=[UNCHANGED, remedy])
    pair = pair.isel(run=(pair["since"] > 0).all("remedy").values) if in_both else pair
    runs = int(pair["spikes"].notnull().all("remedy").sum())
    before, after = (
        interventions.ensemble_mean(pair, name, "rate").value
        for name in (UNCHANGED, remedy)
    )
    effect = interventions.intervention_effect(pair, remedy, "rate")
    if not np.isfinite(effect.value):
        return Estimate(
            NO_INTERVAL, runs, note="no run escapes, with the remedy or without"
        )
    if before == after == 0:
        return Estimate(
            NO_INTERVAL,
            runs,
            note="no run has spikes after its escape, with the remedy or without",
        )
    note = f"{after:.1f} against {before:.1f} spikes"
    if not in_both:
        counts = (pair["since"] > 0).sum("run").values[::-1]
        change = 100 * interventions.intervention_effect(pair, remedy, "test").value
        note += "; {} against {} runs escape, test accuracy {:+.1f} points".format(
            *counts, change
        )
    return Estimate(
        effect,
        runs,
        "runs",
        after / before if before > 0 else np.nan,
        "ratio of the rates",
        note,
    )


def accuracy_change(evidence: xr.Dataset, remedy: str) -> Estimate:
    """Change of the final test accuracy of the same runs by a remedy, in points."""
    after, before = evidence["test"].sel(remedy=[remedy, UNCHANGED])
    p = interventions.mcnemar_p_value(evidence, remedy)
    note = "{} against {} runs above .98".format(
        *((accuracy > SUCCESS_ACCURACY).sum().item() for accuracy in (after, before))
    )
    interval = as_percentage(
        interventions.intervention_effect(evidence, remedy, "test")
    )
    note += f" (McNemar's p {p:.2g})" if np.isfinite(p) else ""
    return samples.paired_difference(100 * after, 100 * before)._replace(
        interval=interval, note=note
    )

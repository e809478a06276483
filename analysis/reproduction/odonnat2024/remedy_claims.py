"""VC section 4.3: the same runs with a smooth norm, a wider MLP, or weight decay of the
assemblers."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
)
from analysis.statistics.intervals import NO_INTERVAL
from analysis.transitions import DEFAULT_DETECTION, UNCHANGED, interventions
from dynamics.settings import SparseSettings


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


# ------------------------------------------------------------------------------- claims


def spike_rate_change(
    evidence: xr.Dataset, remedy: str, in_both: bool = False
) -> Estimate:
    """Change of the number of spikes in 1000 epochs after the escape, over all runs or
    those that escape in both."""
    pair = evidence.reindex(remedy=[UNCHANGED, remedy])
    pair = pair.isel(run=(pair["since"] > 0).all("remedy").values) if in_both else pair
    runs = int(pair["spikes"].notnull().all("remedy").sum())
    before, after = (
        interventions.ensemble_mean(pair, name, "rate").value
        for name in (UNCHANGED, remedy)
    )
    effect = interventions.intervention_effect(pair, remedy, "rate")
    if not np.isfinite(effect.value):
        return Estimate(NO_INTERVAL, runs, note="no run escapes")
    escapes = (pair["since"] > 0).sum("run").values
    change = 100 * interventions.intervention_effect(pair, remedy, "test").value
    note = (
        f"{after:.1f} against {before:.1f}; {escapes[1]} against {escapes[0]} runs"
        f" escape, test accuracy {change:+.1f} points"
    )
    return Estimate(effect, runs, note=note)


def spike_number(remedy: str, label: str, in_both: bool = False) -> Number:
    """The change by a remedy, which should be negative."""
    return Number(
        lambda evidence: spike_rate_change(evidence, remedy, in_both),
        Sign.NEGATIVE,
        f"change of the number of spikes, {label}",
        "in 1000 epochs",
    )


SMOOTHING = Claim(
    "VC.s4.3.smoothing",
    "section 4.3",
    "removing some loss spikes by smoothing out the normalization layer",
    "A norm that is smooth at the origin removes some loss spikes.",
    (
        spike_number("smooth norm", "runs that escape with both norms", in_both=True),
        spike_number("smooth norm", "all runs"),
    ),
    "Spikes are counted after the escape from the first plateau. With the smooth norm"
    " other runs escape, and fewer of them; only those that escape with both norms are"
    " comparable. The paper suggests this and does not test it.",
    summary="a norm that is smooth at the origin removes spikes",
    figure="vc12",
)
OTHER_REMEDIES = Claim(
    "VC.s4.3.remedies",
    "section 4.3",
    "one can imagine different ways to regularize these types of loss spikes",
    "A larger MLP, or a regularisation of its weights, would reduce loss spikes.",
    (
        spike_number("h = 128", "four times the width"),
        spike_number("decay 0.01", "weight decay .01 of the MLP's output weights"),
        spike_number("decay 0.1", "weight decay .1 of the MLP's output weights"),
    ),
    "The paper imagines these remedies and tests none; it names neither a width nor a"
    " measure of regularisation. All runs are compared, although with the wider MLP"
    " fewer escape.",
    summary="a larger or a regularised MLP has fewer spikes",
)

REMEDIES = Experiment(
    "vc.remedies",
    "spikes and accuracy of the same runs with a smooth norm, a wider MLP, or weight"
    " decay of the assemblers",
    measure,
    default=Sizing(15, {"runs": 100}),
    ensembles=ensembles,
    depends={"rule": DEFAULT_DETECTION},
    command="python -m analysis.paper remedies RUN.nc",
    claims=(SMOOTHING, OTHER_REMEDIES),
)

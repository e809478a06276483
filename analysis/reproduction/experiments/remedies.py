"""VC section 4.3: the same runs with a smooth norm, a wider layer, or decay of the assemblers."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from analysis.remedies import PLAIN, Options, combined, gain, mean, more_successes, paired, remedies
from analysis.reproduction.figures.figure import Ensemble
from analysis.reproduction.verification.experiment import Lab, Params, Size, Study
from analysis.reproduction.verification.finding import NONE, Finding, percent
from analysis.transitions.detection import RULE
from dynamics.settings import SUCCESS, SparseSettings

SMOOTH = "smooth norm"


def ensembles(params: Params) -> Sequence[Ensemble]:
    """The recipe, and with each remedy; these record metrics alone."""
    return list(named(params).values())


def named(params: Params) -> dict[str, Ensemble]:
    """The ensembles by name, that of the recipe first."""
    settings, runs, epochs = SparseSettings(**params.get("settings", {})), params["runs"], params.get("epochs")
    changed = remedies(settings, Options(Path("recipe"), **params.get("remedies", {})))
    return {
        PLAIN: Ensemble(settings, runs, epochs),
        **{name: Ensemble(each, runs, epochs, record="metrics") for name, each in changed.items()},
    }


def measure(lab: Lab, params: Params) -> xr.Dataset:
    """Spikes, those after the escape, epochs after it, and final test accuracy: (remedy, run)."""
    found = {name: lab.ensemble(need) for name, need in named(params).items()}
    return combined(found, RULE).drop_vars("seed")


REMEDIES = Study(
    "vc.remedies",
    "spikes and accuracy of the same runs with a smooth norm, a wider layer, or decay of the assemblers",
    sizes={Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.DEFAULT: 15, Size.FULL: 15},
    measure=measure,
    ensembles=ensembles,
    depends={"rule": dataclasses.asdict(RULE)},
    command="python -m analysis.remedies RUN.nc",
)


# ----------------------------------------------------------------------------------------------- what was found


def fewer_spikes(evidence: xr.Dataset, remedy: str) -> Finding:
    """What a remedy adds to the spikes in 1000 epochs after the escape, of all runs together."""
    before, after = (mean(evidence, name, "rate") for name in (PLAIN, remedy))
    ratio = after.value / before.value if before.value > 0 else float("nan")
    runs = int(np.isfinite(evidence["spikes"].sel(remedy=[PLAIN, remedy]).values).all(axis=0).sum())
    note = f"{after.value:.1f} against {before.value:.1f}"
    found = gain(evidence, remedy, "rate")
    if not np.isfinite(found.value):
        found, note = NONE, "no run escapes, with the remedy or without"
    elif before.value == after.value == 0:
        found, note = NONE, "no run spikes after its escape, with the remedy or without"
    return Finding(found, runs, "runs", ratio, "ratio of the rates", note)


def accuracy(evidence: xr.Dataset, remedy: str) -> Finding:
    """What a remedy adds to the final test accuracy, in points, of the same runs."""
    apart = paired(evidence, remedy, "test")
    spread = float(apart.std(ddof=1)) if apart.size > 1 else 0.0
    size = float(apart.mean() / spread) if spread > 0 else float("nan")
    counts = [int((evidence["test"].sel(remedy=name).values > SUCCESS).sum()) for name in (remedy, PLAIN)]
    escaped = [int((evidence["since"].sel(remedy=name).values > 0).sum()) for name in (remedy, PLAIN)]
    note = f"{counts[0]} against {counts[1]} above .98, {escaped[0]} against {escaped[1]} escape"
    p = more_successes(evidence, remedy)
    note += f" (McNemar's p for those above .98 {p:.2g})" if p == p else ""
    return Finding(percent(gain(evidence, remedy, "test")), len(apart), "runs", size, "Cohen's d, paired", note)

"""VC figures 6 and 7: test accuracy along four settings, of single runs and of many."""

from typing import Any

import numpy as np
import xarray as xr

from analysis import ablation
from analysis.intervals import clustered_share
from analysis.options import SparseOptions
from analysis.studies.jackknife import jackknife
from analysis.verification.finding import NONE, Finding, percent, share
from analysis.verification.study import Lab, Params, Size, Study
from dynamics.sweep import combine, fill
from dynamics.trajectory import open_trajectory

PANELS = tuple(ablation.PANELS)

SAME_START = ("batch", "lr", "mlp_lr_discount")
"""Panels along which networks are of one size, so that all of their first weights can be the same."""

JUMP = 0.1
"""Change of accuracy between neighbouring values that is large."""


def options_of(params: Params, lab: Lab) -> ablation.Options:
    """Those of `analysis.ablation`, with which it shares its runs."""
    device: Any = lab.device
    return ablation.Options(
        points=params["points"],
        max_hidden=params["max_hidden"],
        runs=params["runs"],
        epochs=params.get("epochs", 1000),
        device=device,
        scheduler=lab.scheduler,
        settings=SparseOptions(**params.get("settings", {})),
    )


def measure(lab: Lab, params: Params) -> xr.Dataset:
    """Of each panel final test accuracy, NaN where a run has diverged, and the loss before training: (value, run)."""
    options = options_of(params, lab)
    grids = ablation.planned(options)
    fill(ablation.together(grids.values()), options.scheduler, work=ablation.work)
    found = ablation.ablation({name: combine(grid) for name, grid in grids.items()})
    variables = {}
    for name, grid in grids.items():
        about = {"long_name": "test accuracy at the end", "units": "1"}
        accuracy = found[f"accuracy_{name}"].sel(split="test").transpose(name, "run").values
        variables[f"test_{name}"] = ((name, "run"), accuracy, about)
        first = []
        for point in grid.points:
            with open_trajectory(point.path) as trajectory:
                first.append(trajectory["loss"].isel(step=0).sel(split="train").values)
        about = {"long_name": "training loss of the first weights", "units": "1"}
        variables[f"first_loss_{name}"] = ((name, "run"), np.stack(first), about)
    return xr.Dataset(variables, {name: found[name].values for name in grids})


ABLATION = Study(
    "vc.ablation",
    "test accuracy after 1000 epochs along batch size, width, learning rate and that of the MLP",
    sizes={
        Size.DEFAULT: {"runs": 32, "points": 13, "max_hidden": 1000},
        Size.FULL: {"runs": 100, "points": 20, "max_hidden": 10_000},
    },
    seconds={Size.DEFAULT: 900, Size.FULL: 20_000},
    measure=measure,
    reduced="32 runs a value in place of 100, 13 values in place of 20, widths up to 1000 in place of 10,000",
    command="python -m analysis.ablation --runs 32 --points 13 --max-hidden 1000",
)


# ----------------------------------------------------------------------------------------------- what was found


def changes(evidence: xr.Dataset, panel: str) -> np.ndarray:
    """Change of test accuracy from each value of a panel to the next, (value, run); NaN beside one that diverged."""
    return np.abs(np.diff(evidence[f"test_{panel}"].transpose(panel, "run").values.astype(np.float64), axis=0))


def jumps(evidence: xr.Dataset, panel: str) -> Finding:
    """Percentage of steps from one value to the next at which the accuracy of a single run changes by more than JUMP.

    The runs' own steps are not independent; the interval is by runs.
    """
    moved = changes(evidence, panel)
    totals, hits = np.isfinite(moved).sum(axis=0), (moved > JUMP).sum(axis=0)
    of = f"steps between values, of {moved.shape[1]} runs"
    note = f"in the first run, as in figure 6, {hits[0]} of {totals[0]}"
    return Finding(percent(clustered_share(hits, totals)), int(totals.sum()), of, note=note)


def roughness(evidence: xr.Dataset, panel: str) -> Finding:
    """How far the mean over runs is at a value from half-way between those at the values beside it, in percent of how
    far single runs are; means over values.

    A straight rise or fall, however steep, is not rough.
    """
    values = evidence[f"test_{panel}"].transpose(panel, "run").values.astype(np.float64)
    values = values[np.isfinite(values).sum(axis=1) > values.shape[1] / 2]  # where most diverge there is no mean

    def ratio(runs: np.ndarray) -> float:
        some = values[:, runs]
        single = np.nanmean(np.abs(_bends(some)))
        return float(np.abs(_bends(np.nanmean(some, axis=1))).mean() / single) if single > 0 else float("nan")

    if len(values) < 3 or not np.isfinite(_bends(values)).any():
        return Finding(NONE, 0, note="fewer than three values at which runs have not diverged")
    found = jackknife(ratio, values.shape[1])
    return Finding(percent(found), values.shape[1], effect=found.value, effect_name="ratio")


def _bends(values: np.ndarray) -> np.ndarray:
    """How far values (value, ...) are from half-way between their neighbours, (value - 2, ...)."""
    return values[1:-1] - (values[:-2] + values[2:]) / 2


def same_start(evidence: xr.Dataset) -> Finding:
    """Percentage of runs whose loss before training is the same at all values of `SAME_START` panels."""
    same = [evidence[f"first_loss_{panel}"].transpose(panel, "run").values for panel in SAME_START]
    alike = np.all([(each == each[:1]).all(axis=0) for each in same], axis=0)
    return share(int(alike.sum()), len(alike))

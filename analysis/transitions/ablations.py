"""VC figures 6 and 7: test accuracy after training along four settings, each swept
around one recipe.

Along a panel, a run of one seed keeps its data, its first weights and its batches, so
that only the setting changes. Runs that diverge are left out of the means and are
counted; none of them counts as a success."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from analysis.output.tables import interval_columns, make_table
from analysis.statistics.intervals import binomial_interval, mean_interval
from dynamics.settings import (
    SUCCESS_ACCURACY,
    SettingsError,
    SparseSettings,
    check_integer,
)
from dynamics.sweeps.design import SweepDesign, SweepPoint, sweep_design
from dynamics.sweeps.run import combine_points, compute_missing_points
from dynamics.trajectory.schema import DIVERGED
from dynamics.trajectory.success import exceeds

ABLATION_PANELS = {
    "batch": "batch size",
    "hidden": "hidden width h",
    "lr": "learning rate",
    "mlp_lr_discount": "discount c: the MLP learns at lr / c",
}
"""The swept settings and the labels of their axes."""

MAX_HIDDEN = 10_000
"""The largest hidden width of the paper."""


# ------------------------------------------------------------------------------- sweeps


def swept_values(
    name: str, points: int, data: int, max_hidden: int
) -> list[int] | list[float]:
    """The distinct values of a panel in ascending order: powers of two up to `data` for
    batch, else `points` values on a logarithmic grid, as whole numbers up to
    `max_hidden` for hidden."""
    if name == "batch":
        return [2**k for k in range(12) if 2**k <= data]
    if name == "hidden":
        widths = np.logspace(1, 4, points).astype(int)
        return sorted({int(width) for width in widths if width <= max_hidden})
    ends = {"lr": (0, -4), "mlp_lr_discount": (-2, 2)}[name]
    return sorted(float(value) for value in np.logspace(*ends, points))


def plan_ablation(
    settings: SparseSettings,
    panels: Sequence[str] = tuple(ABLATION_PANELS),
    points: int = 20,
    max_hidden: int = MAX_HIDDEN,
    runs: int = 100,
    seed: int = 0,
    epochs: int = 1000,
    device: str = "auto",
    folder: str = "runs",
) -> dict[str, SweepDesign]:
    """The sweep of each panel by its setting, in the order of ABLATION_PANELS. Raises
    SettingsError.

    settings: the recipe. points, max_hidden: as in `swept_values`. Only the first and
    the last frame are recorded."""
    requested = {name.replace("-", "_") for name in panels}
    if not requested:
        raise SettingsError(
            "panels",
            "none",
            "one or more of " + ", ".join(ABLATION_PANELS).replace("_", "-"),
        )
    check_integer("points", points, 2, 1000)
    check_integer("max_hidden", max_hidden, 10, MAX_HIDDEN)
    check_integer("epochs", epochs, 1, 2**53)
    return {
        name: sweep_design(
            settings,
            {name: swept_values(name, points, settings.data, max_hidden)},
            runs=runs,
            seed=seed,
            epochs=epochs,
            every=epochs,
            device=device,
            folder=folder,
        )
        for name in ABLATION_PANELS
        if name in requested
    }


def merge_ablation_sweeps(designs: Iterable[SweepDesign]) -> SweepDesign:
    """The points of all panels as one sweep, the cheapest first; the recipe is a point
    of several panels."""
    designs = list(designs)
    points = {point.path: point for design in designs for point in design.points}
    return dataclasses.replace(
        designs[0], axes={}, points=sorted(points.values(), key=point_cost)
    )


def ablation_file_name(design: SweepDesign) -> str:
    """File name of a result: sweep-ablation-HASH.nc, the hash over the points and the
    recipe."""
    words = " ".join(sorted(point.path.stem for point in design.points)) + repr(
        design.settings
    )
    return f"sweep-ablation-{hashlib.sha256(words.encode()).hexdigest()[:12]}.nc"


def point_cost(point: SweepPoint) -> float:
    """Estimated computing time of a point, in an arbitrary unit."""
    assert isinstance(point.settings, SparseSettings)
    return point.steps * step_cost(point.settings)


def step_cost(settings: SparseSettings) -> float:
    """Estimated computing time of an optimizer step, in an arbitrary unit; fitted to
    measured times."""
    return (settings.batch + 2.0) * (settings.hidden + 40.0)


def run_ablation(
    designs: Mapping[str, SweepDesign], scheduler: str | None = None
) -> tuple[xr.Dataset, int]:
    """Compute the missing points of the sweeps; return the combined result and the
    number of computed points.

    designs: from `plan_ablation`. scheduler: address of a dask cluster. Raises the
    errors of `compute_missing_points`."""
    computed = compute_missing_points(
        merge_ablation_sweeps(designs.values()), scheduler, work=point_cost
    )
    return ablation_dataset(
        {name: combine_points(design) for name, design in designs.items()}
    ), computed


# ------------------------------------------------------------------------------- result


def ablation_dataset(sweeps: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Combined sweeps, each along its own setting, as one dataset.

    accuracy_NAME and loss_NAME (NAME, run, split) at the end, NaN for a run that
    diverged; status_NAME (NAME, run); file_NAME (NAME)."""
    variables = {}
    for name, sweep in sweeps.items():
        for kind in ("accuracy", "loss"):
            last = sweep[f"final_{kind}"]
            variables[f"{kind}_{name}"] = last.where(
                sweep["status"] != DIVERGED
            ).assign_attrs(last.attrs)
        variables |= {f"status_{name}": sweep["status"], f"file_{name}": sweep["file"]}
    attrs = dict(
        next(iter(sweeps.values())).attrs, title="Ablations of VC's training recipe"
    )
    return xr.Dataset(variables, attrs=attrs | {"swept": json.dumps(list(sweeps))})


def swept_settings(result: xr.Dataset) -> list[str]:
    """The settings for which a result has panels."""
    return [name for name in ABLATION_PANELS if f"accuracy_{name}" in result]


def ablation_table(
    result: xr.Dataset, panels: Sequence[str] | None = None
) -> pd.DataFrame:
    """One row per value of each panel, or of some panels.

    `first`: test accuracy of the first run, NaN if it diverged; `test`, `unseen`: mean
    accuracies with 95% intervals; `test_deviation`: standard deviation over runs;
    `above_0.98`: fraction of runs with a test accuracy above .98. Runs that diverged
    are left out of the means and count as failures."""
    rows = []
    values = []
    for name in swept_settings(result) if panels is None else panels:
        for value, point in result[f"accuracy_{name}"].groupby(name):
            values.append(np.asarray(value).item())
            accuracy = {
                str(split): point.sel(split=split).values.ravel()
                for split in point["split"].values
            }
            test = accuracy["test"][~np.isnan(accuracy["test"])].astype(np.float64)
            unseen = accuracy.get("unseen", np.empty(0))
            above = int(exceeds(test, SUCCESS_ACCURACY).sum())
            row: dict[str, Any] = {
                "panel": name.replace("_", "-"),
                "value": None,
                "runs": point.sizes["run"],
            }
            row |= {
                "diverged": row["runs"] - len(test),
                "first": float(accuracy["test"][0]),
            }
            row |= interval_columns("test", mean_interval(test, limits=(0, 1)))
            row["test_deviation"] = float(test.std(ddof=1)) if len(test) > 1 else np.nan
            row |= interval_columns(
                "unseen", mean_interval(unseen[~np.isnan(unseen)], limits=(0, 1))
            )
            row |= {"count_above_0.98": above} | interval_columns(
                "above_0.98", binomial_interval(above, row["runs"])
            )
            rows.append(
                row | {"file": str(result[f"file_{name}"].sel({name: value}).values)}
            )
    # dtype object, so that integers are not converted to floats
    return make_table(rows).assign(value=pd.Series(values, dtype=object))

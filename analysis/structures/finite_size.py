"""Finite-size scaling: how often, when and how well structures form, against a setting
and the number N of tokens.

An ensemble is simulated for each N and each value of the setting: f_a for particles,
the weight decay for networks. Forces are sums of order N² terms, so particles have the
step size h_N = h (17 / N)², with which ordered particles move by similar distances in a
step for every N (at N = 17, CA's example, h_N = h). Forces in a random arrangement
partly cancel and grow more slowly than N², so structures of larger N need more of these
steps to form.

For each N the fraction of circles as a function of the setting is fitted by a logistic
curve (`analysis.statistics.transition_fit`), whose midpoint m and width w are then
fitted by powers of N. The transition depends on N if the exponent of m differs from 0;
it sharpens if that of w is negative."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.output.tables import Column, format_interval, interval_columns
from analysis.statistics.intervals import (
    Interval,
    binomial_interval,
    mean_interval,
    median_interval,
)
from analysis.statistics.transition_fit import (
    NO_TRANSITION,
    TransitionFit,
    fit_power,
    fit_transition,
)
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from analysis.structures.formation_times import persistent_onset
from dynamics.progress import progress_bar
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    check_integer,
    scaled_step_size,
)
from dynamics.sweeps.design import (
    SweepDesign,
    SweepPoint,
    sweep_design,
)
from dynamics.sweeps.run import compute_missing_points
from dynamics.trajectory.diverged import not_diverged

SCALING_SETTINGS = {"particles": "fa", "modular": "weight_decay"}
"""The setting that is varied in each system."""

ScaledSettings = TypeVar("ScaledSettings", bound=ParticleSettings | ModularSettings)

# ------------------------------------------------------------------------------- design


def settings_of_size(settings: ScaledSettings, n: int) -> ScaledSettings:
    """The same settings for N tokens; the step size of particles is multiplied by (17 /
    N)². Raises SettingsError."""
    check_integer("n", n, 3, 100_000)
    if isinstance(settings, ModularSettings):
        return dataclasses.replace(settings, n=n)
    return dataclasses.replace(
        settings, n=n, step_size=scaled_step_size(settings.step_size, n)
    )


def plan_scaling(
    settings: ParticleSettings | ModularSettings,
    sizes: Sequence[int],
    values: Sequence[float],
    runs: Sequence[int] = (50,),
    seed: int = 0,
    lengths: Sequence[int] = (400,),
    every: int = 10,
    folder: str = "runs",
) -> list[SweepDesign]:
    """The sweep of each N over the values of the setting, in ascending order of both.
    Raises SettingsError.

    runs: their number. lengths, every: steps of particles, epochs of networks. runs and
    lengths are for all N or each."""
    if not sizes or len(set(sizes)) < len(sizes):
        raise SettingsError(
            "n", " ".join(map(str, sizes)) or "none", "one or more different numbers"
        )
    if not values or min(values) <= 0:
        raise SettingsError(
            "values", " ".join(map(str, values)) or "none", "positive numbers"
        )
    for name, numbers in (("runs", runs), ("length", lengths)):
        if len(numbers) not in (1, len(sizes)):
            raise SettingsError(
                name,
                " ".join(map(str, numbers)) or "none",
                "one number, or one for each N",
            )
        for number in numbers:
            check_integer(name, number, 1, 2**53)
    if settings.system not in SCALING_SETTINGS:
        allowed = "those of " + " or ".join(SCALING_SETTINGS)
        raise SettingsError("settings", f"those of {settings.system}", allowed)
    epochs = bool(settings.epoch_steps)
    designs = {}
    for at, n in enumerate(sizes):
        length = lengths[at % len(lengths)]
        designs[n] = sweep_design(
            settings_of_size(settings, n),
            {SCALING_SETTINGS[settings.system]: sorted(values)},
            runs=runs[at % len(runs)],
            seed=seed,
            steps=None if epochs else length,
            epochs=length if epochs else None,
            every=min(every, length),
            record="all",
            folder=folder,
        )
    return [designs[n] for n in sorted(sizes)]


def run_seconds(point: SweepPoint) -> float:
    """Estimated processor time of a run of a point in seconds, fitted to measured
    times."""
    n = point.settings.modulus
    if isinstance(point.settings, ParticleSettings) and point.settings.uses_mesh:
        return point.steps * 0.016 * (n / 199) ** 2.2
    return point.steps * 9e-11 * n**4


def compute_scaling(
    designs: Sequence[SweepDesign], scheduler: str | None = None
) -> int:
    """Compute the missing points, the smallest N first; return their number.

    Sweeps with equal numbers of runs have one progress bar with the remaining time.
    scheduler: address of a dask cluster. Raises the errors of `compute_missing_points`.
    """
    computed = 0
    for runs in dict.fromkeys(design.runs for design in designs):
        same = [design for design in designs if design.runs == runs]
        points = [point for design in same for point in design.points]
        computed += compute_missing_points(
            dataclasses.replace(same[0], points=points), scheduler, work=run_seconds
        )
    return computed


def scaling_file_name(designs: Sequence[SweepDesign]) -> str:
    """File name of a result: sweep-scaling-SYSTEM-HASH.nc, with a hash of all
    points."""
    words = " ".join(point.path.stem for design in designs for point in design.points)
    return f"sweep-scaling-{designs[0].settings.system}-{hashlib.sha256(words.encode()).hexdigest()[:12]}.nc"


# ----------------------------------------------------------------------------- measures


def measure_scaling(designs: Sequence[SweepDesign]) -> xr.Dataset:
    """Structures at the ends of all runs of the finished points, and the fits.

    Returns
    -------
    xarray.Dataset
        By n, setting and run: `circle`, 1 or 0 in the last frame; `imperfections`, per
        pair, in the last frame; `formation`, the step from which the run stays a
        circle. All are NaN for runs that diverged and points that are not finished,
        `formation` also for other runs. By n and bound (value, low, high): `midpoint`
        and `width` of the transition, NaN if the midpoint is outside of the values. By
        bound: `midpoint_power` and `width_power`, their exponents of N.
    """
    axis, values = next(iter(designs[0].axes.items()))
    sizes = [design.points[0].settings.modulus for design in designs]
    runs = max(design.runs for design in designs)
    outcome = np.full((3, len(sizes), len(values), runs), np.nan)
    points = [
        (at, design.runs, point)
        for at, design in enumerate(designs)
        for point in design.points
    ]
    for at, count, point in progress_bar(points, desc="structures", unit="point"):
        trajectory = point.open_finished()
        if trajectory is not None:
            with trajectory:
                place = values.index(point.values[axis])
                outcome[:, at, place, :count] = _measure_runs(trajectory)
    dims = ("n", axis, "run")
    texts = (
        "whether a run ends as a circle",
        "grid imperfections per pair",
        "step from which a run stays a circle",
    )
    names = ("circle", "imperfections", "formation")
    result = xr.Dataset(
        {
            name: (dims, item, dimensionless(text))
            for name, item, text in zip(names, outcome, texts, strict=True)
        },
        {"n": sizes, axis: values, "bound": ["value", "low", "high"]},
        {
            "system": designs[0].settings.system,
            "length": [design.points[0].steps for design in designs],
        },
    )
    return _add_fits(result)


def _measure_runs(trajectory: xr.Dataset) -> np.ndarray:
    """The three variables of `measure_scaling` for the runs of a trajectory: (variable,
    run)."""
    embedding = trajectory["embedding"].transpose("run", "step", "token", "axis").values
    n = embedding.shape[2]
    circle = is_circle(embedding)
    onset = persistent_onset(circle, trajectory["step"].values)
    imperfections = count_imperfections(embedding[:, -1]) / (n * (n + 1) // 2)
    measures = np.stack(
        [circle[:, -1], imperfections, np.where(np.isfinite(onset), onset, np.nan)]
    )
    return np.where(not_diverged(trajectory), measures, np.nan)


def swept_setting(result: xr.Dataset) -> str:
    """The setting that is varied in a result."""
    return SCALING_SETTINGS[result.attrs["system"]]


def circle_counts(result: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of circles and of runs that have not diverged, (n, value) each."""
    circle = result["circle"].values
    return np.nansum(circle, axis=-1).astype(int), np.isfinite(circle).sum(axis=-1)


def _fit_among_values(
    values: np.ndarray, counts: np.ndarray, totals: np.ndarray
) -> TransitionFit:
    """The transition of one N if its midpoint is among the values (value,) at which
    there are runs."""
    fit = fit_transition(values, counts, totals)
    tested = values[totals > 0]
    return (
        fit
        if tested.size and tested[0] <= fit.midpoint.value <= tested[-1]
        else NO_TRANSITION
    )


def _add_fits(result: xr.Dataset) -> xr.Dataset:
    counts, totals = circle_counts(result)
    values = result[swept_setting(result)].values
    sizes = result["n"].values
    fits = [
        _fit_among_values(values, *count) for count in zip(counts, totals, strict=True)
    ]
    fitted: dict[str, Any] = {}
    for name in ("midpoint", "width"):
        estimates = [getattr(fit, name) for fit in fits]
        text = f"{name} of the transition"
        fitted[name] = (("n", "bound"), np.array(estimates), dimensionless(text))
        fitted[f"{name}_power"] = (
            "bound",
            np.array(fit_power(sizes, estimates)),
            dimensionless(f"{text}: exponent of N"),
        )
    return result.assign(fitted)


# ------------------------------------------------------------------------------- tables


def scaling_columns(result: xr.Dataset) -> list[Column]:
    """The columns of the table of points."""
    axis = swept_setting(result)
    return [
        Column("N", "n"),
        Column({"fa": "f_a"}.get(axis, axis.replace("_", " ")), axis),
        Column("runs", "runs"),
        Column("circles %", "circles", digits=1, interval="bounds", scale=100),
        Column("circle after", "formation", digits=0, interval="bounds"),
        Column(
            "imperfections per pair", "imperfections", digits=3, interval="half-width"
        ),
        Column(
            "of circles", "imperfections_of_circles", digits=3, interval="half-width"
        ),
    ]


def scaling_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each finished point: fraction of circles, median step from which
    circles stay, and mean imperfections per pair of the runs that are no circles and of
    those that are."""
    axis = swept_setting(result)
    rows = []
    counts, totals = circle_counts(result)
    for at, place in zip(*np.nonzero(totals), strict=True):
        point = result.isel({"n": at, axis: place})
        circle = point["circle"].values
        imperfections = point["imperfections"].values
        row: dict[str, Any] = {
            "n": int(point["n"]),
            axis: float(point[axis]),
            "runs": int(totals[at, place]),
        }
        row |= interval_columns(
            "circles", binomial_interval(int(counts[at, place]), int(totals[at, place]))
        )
        formation = point["formation"].values
        row |= interval_columns(
            "formation", median_interval(formation[np.isfinite(formation)])
        )
        for name, kind in (("imperfections", 0), ("imperfections_of_circles", 1)):
            row |= interval_columns(
                name, mean_interval(imperfections[circle == kind], limits=(0, 1))
            )
        rows.append(row)
    return rows


TRANSITION_COLUMNS = (
    Column("N", "n"),
    Column("midpoint", "midpoint", digits=2, interval="bounds"),
    Column("width, 10 to 90%", "width", digits=2, interval="bounds"),
)


def transition_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each N: midpoint and width of the transition."""
    return [
        {
            "n": int(n),
            **interval_columns("midpoint", middle),
            **interval_columns("width", width),
        }
        for n, middle, width in zip(
            *(result[name].values for name in ("n", "midpoint", "width")), strict=True
        )
    ]


def scaling_conclusion(result: xr.Dataset) -> str:
    """Two lines: whether the midpoint of the transition depends on N, and whether its
    width does."""
    lines = []
    for name in ("midpoint", "width"):
        power = Interval(*result[f"{name}_power"].values)
        if not np.isfinite(power.low):
            lines.append(
                f"{name}: no power of N, because fewer than three N have a midpoint"
                " among the values, with both bounds"
            )
            continue
        change = "no dependence on N is resolved"
        if power.low > 0 or power.high < 0:
            change = f"{'increases' if power.value > 0 else 'decreases'} with N"
        lines.append(f"{name}: N^b with b = {format_interval(power, 2)}, {change}")
    return "\n".join(lines)

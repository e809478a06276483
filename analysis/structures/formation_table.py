"""The table of `analysis.formation`: when and in how many runs structures form, for one
or two trajectories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from analysis.output.tables import Column, format_p_value, interval_columns
from analysis.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    binomial_interval,
    mean_interval,
    median_interval,
)
from analysis.statistics.survival import kaplan_meier, logrank_p_value
from analysis.structures.formation_times import (
    FORMATION_EVENTS,
    chance_levels,
    has_times,
)


class FormationResult(NamedTuple):
    """The measures and formation times of a trajectory, with its name and system."""

    name: str
    system: str
    measures: xr.Dataset
    onsets: xr.Dataset


Clock = Literal["normalised", "step"]


def mean_structure_measure(measures: xr.Dataset, name: str, frame: int) -> Interval:
    """Mean of a measure over runs in a frame, with its interval; for circles the
    fraction with its exact interval."""
    values = measures[name].transpose("step", "run").values[frame]
    values = values[np.isfinite(values)]
    if name == "circle":
        return binomial_interval(int(values.sum()), len(values))
    is_count = name == "imperfections"
    unlimited = is_count or name == "norm_ratio"
    return mean_interval(
        values, discrete=is_count, limits=(0, np.inf if unlimited else 1)
    )


FORMATION_COLUMNS = (
    Column("run", "run"),
    Column("what", "what"),
    Column("at the start", "start", interval="bounds"),
    Column("at the end", "end", interval="bounds"),
    Column("renamed, mean", "random_mean", digits=3),
    Column("1 in 100", "random_1_in_100", digits=3),
    Column("forms, %", "fraction", digits=1, interval="bounds", scale=100),
    Column("median time", "median", interval="bounds"),
    Column("of those that form", "median_of_formed", interval="bounds"),
    Column("log-rank p", "p_value", text=format_p_value),
)


TIME_COLUMNS = ("start", "median", "median_of_formed", "p_value")


def formation_columns(results: Sequence[FormationResult]) -> list[Column]:
    """The columns of the table; without those of times if each trajectory has a single
    frame."""
    timed = any(has_times(result.measures) for result in results)
    return [
        column
        for column in FORMATION_COLUMNS
        if timed or column.name not in TIME_COLUMNS
    ]


def formation_rows(
    results: Sequence[FormationResult], clock: Clock
) -> list[dict[str, Any]]:
    """A row for each event of each trajectory; p-values compare with the first
    trajectory."""
    rows = []
    for result in results:
        for event in map(str, result.onsets["event"].values):
            p_value = math.nan
            if result is not results[0] and _comparable(
                results[0], result, event, clock
            ):
                p_value = logrank_p_value(
                    *(_waiting_times(item, event, clock) for item in results)
                )
            rows.append(_row(result, event, clock) | {"p_value": p_value})
    return rows


def _row(result: FormationResult, event: str, clock: Clock) -> dict[str, Any]:
    times, formed = _waiting_times(result, event, clock)
    start = NO_INTERVAL
    end = NO_INTERVAL
    random = math.nan
    rare = math.nan
    median = NO_INTERVAL
    median_of_formed = NO_INTERVAL
    if has_times(result.measures):
        median = kaplan_meier(times, formed).median
        median_of_formed = median_interval(times[formed])  # none of them is censored
    if measure := FORMATION_EVENTS[event].measure:
        start = mean_structure_measure(result.measures, measure, 0)
        end = mean_structure_measure(result.measures, measure, -1)
        random = float(result.measures["expected"].sel(measure=measure).mean())
        rare = float(np.median(chance_levels(result.measures, measure)))
    return {
        "run": result.name,
        "what": event,
        "runs": len(formed),
        "formed": int(formed.sum()),
        "random_mean": random,
        "random_1_in_100": rare,
        **interval_columns("start", start),
        **interval_columns("end", end),
        **interval_columns(
            "fraction", binomial_interval(int(formed.sum()), len(formed))
        ),
        **interval_columns("median", median),
        **interval_columns("median_of_formed", median_of_formed),
    }


def _comparable(
    first: FormationResult, second: FormationResult, event: str, clock: Clock
) -> bool:
    """Whether times of an event are comparable in two trajectories; steps are so only
    within one system."""
    if not (has_times(first.measures) and has_times(second.measures)):
        return False
    if clock == "step" and first.system != second.system:
        return False
    if event == "structure":  # without grids it means circles only
        have_grids = ["grid" in item.onsets["event"].values for item in (first, second)]
        return have_grids[0] == have_grids[1]
    return event in first.onsets["event"].values


def _waiting_times(
    result: FormationResult, event: str, clock: Clock
) -> tuple[np.ndarray, np.ndarray]:
    """Times until an event (run,), in normalised time or in steps, and whether it has
    happened."""
    onsets = result.onsets.sel(event=event)
    steps = result.measures["step"].values
    unit = 1.0 if clock == "normalised" else float(steps[-1] - steps[0])
    return onsets["onset"].values * unit, onsets["formed"].values == 1


_DEFINITIONS = """structure: a circle or a grid; for more than 23 tokens only circles
circle: by CA algorithm 1, which uses only the norms
polygon: close to a regular polygon, with the tokens in the order of a frequency that is coprime to N
grid: close to a lattice with points labelled consistently with addition modulo N; points may be empty, but in a perfect
grid none is
imperfections: small number of grid imperfections by CA algorithm 2
frequency: from when the dominant frequency of the last frame stays dominant and above the level of renamed tokens
renamed: values of the last embedding of each run with randomly renamed tokens
forms: in the last frame the measure is more extreme than in 99 renamings ("1 in 100": median over runs); circles: by
algorithm 1"""


def formation_legend(results: Sequence[FormationResult], clock: Clock) -> str:
    """The explanation below the table."""
    unit = (
        "as a fraction of the length of the trajectory"
        if clock == "normalised"
        else "in steps"
    )
    if not any(has_times(result.measures) for result in results):
        return _DEFINITIONS
    lines = [
        _DEFINITIONS,
        f"time: {unit}; medians of all runs, and of those that form; intervals are 95%",
    ]
    lines.append(
        "median -: fewer than half of the runs form it, so it is later than their end"
        " (inf in the CSV file)"
    )
    if len(results) > 1 and clock == "normalised":
        lines.append(
            "p: compares fractions of the trajectory lengths, which are smaller if a"
            " trajectory is longer"
        )
    elif len({result.system for result in results}) > 1:
        lines.append(
            "p: not computed, because steps of different systems are not comparable"
        )
    return "\n".join(lines)

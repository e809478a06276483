"""Rules by which the run of a figure is chosen: the first, best or median of a kind,
and the nearest where none is."""

import numpy as np
import xarray as xr

from analysis.output.counts import count_of
from analysis.reproduction.figures.figure import RunChoice, format_seeds
from analysis.structures.circles_and_grids import (
    CIRCLE_RATIO,
    count_imperfections,
    is_circle,
    norm_ratio,
)
from dynamics.errors import TrajectoryError
from dynamics.trajectory.diverged import not_diverged


def runs_not_diverged(trajectory: xr.Dataset) -> np.ndarray:
    """Indices of the runs that have not diverged: (run,), at least one. Raises
    TrajectoryError."""
    runs = np.flatnonzero(not_diverged(trajectory))
    if not len(runs):
        raise TrajectoryError(
            "dimension run: found no run that has not diverged, expected one at least"
        )
    return runs


def index_nearest_median(places: np.ndarray, values: np.ndarray) -> int:
    """The place whose value is nearest to the median, the first of equally near
    ones."""
    return int(places[np.argmin(np.abs(values - np.median(values)))])


def final_embeddings(trajectory: xr.Dataset) -> np.ndarray:
    """The last embeddings of all runs, (run, token, axis) float64."""
    return (
        trajectory["embedding"]
        .isel(step=-1)
        .transpose("run", "token", "axis")
        .values.astype(np.float64)
    )


WIDE = 0.5
"""Least ratio of the shorter to the longer principal axis, so that a grid can be
seen."""


class EndStates:
    """How the runs of a trajectory that have not diverged ended, as CA's two algorithms
    see it.

    Raises TrajectoryError where there is none.
    """

    def __init__(self, trajectory: xr.Dataset) -> None:
        self.places = runs_not_diverged(trajectory)
        last = final_embeddings(trajectory)[self.places]
        self.ratio = norm_ratio(last)
        self.circle = is_circle(last)
        self.others = np.flatnonzero(self.circle.all() | ~self.circle)
        """Places of the runs that are no circles; of all runs where all are circles"""
        self.imperfections = count_imperfections(last)
        spread = np.linalg.svd(
            last - last.mean(axis=1, keepdims=True), compute_uv=False
        )
        self.width = spread[:, -1] / np.maximum(spread[:, 0], 1e-300)
        self.accuracy = np.full(len(self.places), np.nan)
        if "accuracy" in trajectory and "validation" in trajectory["split"].values:
            self.accuracy = (
                trajectory["accuracy"]
                .sel(split="validation")
                .isel(run=self.places, step=-1)
                .values
            )

    def circle_run(self) -> RunChoice:
        """The first circle, or the run that is nearest to one."""
        count, total = int(self.circle.sum()), len(self.places)
        if count:
            which = f"the first of {count} circles" if count > 1 else "the only circle"
            return RunChoice(
                int(self.places[self.circle.argmax()]),
                f"{which} among {count_of(total, 'run')}",
            )
        at = self.ratio.argmin()
        nearest = (
            f"the nearest, largest norm over smallest {self.ratio[at]:.2f}, of a circle"
            f" below {CIRCLE_RATIO:g}"
        )
        return RunChoice(
            int(self.places[at]),
            f"NO circle among {count_of(total, 'run')}: {nearest}",
        )

    def grid_run(self) -> RunChoice:
        """Of the runs that are no circles that with the best validation accuracy, or
        the fewest imperfections."""
        if np.isfinite(self.accuracy[self.others]).all():
            at = self.others[
                np.lexsort(
                    (self.imperfections[self.others], -self.accuracy[self.others])
                )[0]
            ]
            best = f"the best validation accuracy, {self.accuracy[at]:.2f}"
            return self._choose_other(at, f"{best}, of {_other_runs(len(self.others))}")
        wide = self.others[self.width[self.others] >= WIDE]
        some = wide if len(wide) else self.others
        at = some[self.imperfections[some].argmin()]
        kind = f" and not narrower than {WIDE:g} of their length" if len(wide) else ""
        fewest = f"the fewest imperfections, {self.imperfections[at]}"
        return self._choose_other(at, f"{fewest}, of {_other_runs(len(some))}{kind}")

    def imperfect_run(self) -> RunChoice:
        """Of the runs that are no circles that with the median number of
        imperfections."""
        at = index_nearest_median(self.others, self.imperfections[self.others])
        median = f"the median number of imperfections, {self.imperfections[at]}"
        return self._choose_other(at, f"{median}, of {_other_runs(len(self.others))}")

    def _choose_other(self, at: int, why: str) -> RunChoice:
        lacking = (
            f"ALL {count_of(len(self.places), 'run')} ended as circles: "
            if self.circle.all()
            else ""
        )
        return RunChoice(int(self.places[at]), lacking + why)


def _other_runs(number: int) -> str:
    """How many runs are no circles, in words."""
    return f"{count_of(number, 'run')} other than circles"


def runs_with_seeds(
    trajectory: xr.Dataset, seeds: range, few: int | None = None
) -> tuple[list[int], str]:
    """Places of the runs of some seeds, or of the first few of these, in their order;
    or of as many first runs where one of the seeds is missing or has diverged. And
    which runs these are, in words."""
    at = {
        int(trajectory["seed"][run]): int(run) for run in runs_not_diverged(trajectory)
    }
    if at.keys() >= set(seeds):
        selected = seeds[:few]
        words = (
            ", as in the paper"
            if selected == seeds
            else f" of the paper's {seeds[0]} to {seeds[-1]}"
        )
        return [at[seed] for seed in selected], format_seeds(selected) + words
    some = list(at.values())[: len(seeds[:few])]
    return (
        some,
        (
            f"the first {count_of(len(some), 'run')}, as the paper's seeds {seeds[0]} to"
            f" {seeds[-1]} are not all there"
        ),
    )

"""Rules by which the run of a figure is chosen: the first, best or median of a kind, and the nearest where none is."""

import numpy as np
import xarray as xr

from analysis.reproduction.figures.figure import RunChoice, runs_not_diverged
from analysis.structures.circles_and_grids import CIRCLE_RATIO, circularity, count_imperfections
from dynamics.errors import TrajectoryError


def _first_where(places: np.ndarray, fits: np.ndarray) -> int | None:
    """The first of some places at which something holds, (place,) bool; None where it nowhere does."""
    found = places[fits]
    return int(found[0]) if len(found) else None


def index_nearest_median(places: np.ndarray, values: np.ndarray) -> int:
    """The place whose value is nearest to the median, the first of equally near ones."""
    return int(places[np.argmin(np.abs(values - np.median(values)))])


WIDE = 0.5
"""Least ratio of the shorter to the longer principal axis, so that a grid can be seen."""


class EndStates:
    """How the runs of a trajectory that have not diverged ended, as CA's two algorithms see it.

    Raises TrajectoryError where there is none.
    """

    def __init__(self, trajectory: xr.Dataset) -> None:
        self.places = runs_not_diverged(trajectory)
        if not len(self.places):
            raise TrajectoryError("dimension run: found no run that has not diverged, expected one at least")
        last = trajectory["embedding"].isel(run=self.places, step=-1).transpose("run", "token", "axis").values
        last = last.astype(np.float64)
        self.ratio = circularity(last)
        self.circle = self.ratio < CIRCLE_RATIO
        self.imperfections = count_imperfections(last)
        spread = np.linalg.svd(last - last.mean(axis=1, keepdims=True), compute_uv=False)
        self.width = spread[:, -1] / np.maximum(spread[:, 0], 1e-300)
        self.accuracy = np.full(len(self.places), np.nan)
        if "accuracy" in trajectory and "validation" in trajectory["split"].values:
            self.accuracy = trajectory["accuracy"].sel(split="validation").isel(run=self.places, step=-1).values

    def circle_run(self) -> RunChoice:
        """The first circle, or the run that is nearest to one."""
        run = _first_where(self.places, self.circle)
        count, total = int(self.circle.sum()), len(self.places)
        if run is not None:
            return RunChoice(run, f"the first of {count} circles among {total} runs")
        at = int(self.ratio.argmin())
        return RunChoice(int(self.places[at]), f"NO circle among {total} runs: the nearest, largest norm over smallest "
                      f"{self.ratio[at]:.2f}, of a circle below {CIRCLE_RATIO:g}")  # fmt: skip

    def grid_run(self) -> RunChoice:
        """Of the runs that are no circles that with the best validation accuracy, or the fewest imperfections."""
        others = self._others()
        if np.isfinite(self.accuracy[others]).all():
            at = others[np.lexsort((self.imperfections[others], -self.accuracy[others]))[0]]
            why = f"the best validation accuracy, {self.accuracy[at]:.2f}, of {len(others)} runs that are no circles"
        else:
            wide = others[self.width[others] >= WIDE]
            some = wide if len(wide) else others
            at = some[self.imperfections[some].argmin()]
            kind = f"no circles, nor narrower than {WIDE:g} of their length" if len(wide) else "no circles"
            why = f"the fewest imperfections, {self.imperfections[at]}, of {len(some)} runs that are {kind}"
        return RunChoice(int(self.places[at]), self._said(why))

    def imperfect_run(self) -> RunChoice:
        """Of the runs that are no circles that with the median number of imperfections."""
        others = self._others()
        run = index_nearest_median(self.places[others], self.imperfections[others])
        count = int(self.imperfections[np.flatnonzero(self.places == run)[0]])
        why = f"the median number of imperfections, {count}, of {len(others)} runs that are no circles"
        return RunChoice(run, self._said(why))

    def _others(self) -> np.ndarray:
        others = np.flatnonzero(~self.circle)
        return others if len(others) else np.arange(len(self.places))

    def _said(self, why: str) -> str:
        return why if not self.circle.all() else f"ALL {len(self.places)} runs are circles: {why}"


SEEDS = range(10, 30)
"""Of the runs that CA's appendices C and D show."""


def runs_with_seeds(trajectory: xr.Dataset, seeds: range = SEEDS) -> tuple[list[int], str]:
    """Places of the runs of some seeds that have not diverged, in their order, or of as many first runs."""
    at = {int(trajectory["seed"][run]): int(run) for run in runs_not_diverged(trajectory)}
    found = [at[seed] for seed in seeds if seed in at]
    if len(found) == len(seeds):
        return found, f"seeds {seeds[0]} to {seeds[-1]}, as in the paper"
    some = list(at.values())[: len(seeds)]
    if not some:
        raise TrajectoryError("dimension run: found no run that has not diverged, expected one at least")
    return some, f"the first {len(some)} runs, as the paper's seeds {seeds[0]} to {seeds[-1]} are not all there"

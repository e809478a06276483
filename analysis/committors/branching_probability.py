"""The committor along a run: the probability that a copy of its state, slightly
displaced, ends with an outcome.

The name is that of chemistry, where it is the probability to reach the product before
the reactant (Du, Pande, Grosberg, Tanaka and Shakhnovich, J. Chem. Phys. 108 (1998),
334); Bolhuis, Chandler, Dellago and Geissler, Annu. Rev. Phys. Chem. 53 (2002), 291."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.committors.copies_on_cluster import Portion, Starts, copies_on_cluster
from analysis.committors.decision import add_decisions
from analysis.committors.growing_modes import (
    GROWING,
    check_growing_direction,
    growing_directions,
    with_growing_modes,
)
from analysis.committors.outcomes import Outcome, ends_so, find_outcome
from analysis.linearization.eigenmodes import StateModes
from analysis.statistics.intervals import binomial_interval
from dynamics.copies import branch_copies
from dynamics.progress import progress_bar
from dynamics.randomness import random_stream
from dynamics.settings import SettingsError, check_choice, check_integer
from dynamics.settings_text import short_text
from dynamics.sweeps.dask_backend import check_scheduler

PORTION = 10_000
"""Number of copies that are computed together; on a cluster a tenth of it."""

SAMPLE = 64
"""Number of copies by which the time of all is estimated."""


COMMENTS = {
    "committor": "fraction of the copies of a state that end in the outcome",
    "committor_low": "lower end of the exact binomial interval (95%) of the committor",
    "committor_high": "upper end of the exact binomial interval (95%) of the committor",
    "successes": "number of copies that end in the outcome",
    "trials": "number of copies that have not diverged; 0 where none was measured",
    "outcome": "1 if the run itself ends in the outcome, otherwise 0",
    "displacement": "size of the random displacement of the copies; 0 without one",
    "growing_modes": "number of modes of the linearised motion that grow at a state",
    "decision_step": "where the agreement of the copies passes one half for the last time",
    "decision_step_low": "lower end of the decision step, by intervals of the agreement",
    "decision_step_high": "upper end of the decision step, by intervals of the agreement",
    "decision_duration": "steps from the last agreement of at most 0.1 to 0.9 and more",
    "firmness": "largest displacement up to which the agreement is at least 0.9",
}
"""What the variables of a committor are."""


def committor(
    trajectory: xr.Dataset,
    outcome: str | Outcome = "circle",
    steps: int | Sequence[int] = 10,
    copies: int = 100,
    displace: float | Sequence[float] = 0.01,
    *,
    level: float | None = None,
    bisections: int = 0,
    direction: Mapping[str, np.ndarray] | Literal["growing"] | None = None,
    reshuffle: bool = False,
    until: int | None = None,
    scheduler: str | None = None,
    log: Callable[[str], object] = lambda text: None,
    **changes: Any,
) -> xr.Dataset:
    """The probability of an outcome at steps of recorded runs, by copies of their exact
    states.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory with restart states, or one that was not written to a file.
    outcome : str or callable
        "circle", "grid", "clusters", "accuracy" or "escape" (`OUTCOMES`), FILE.py:NAME,
        or a function of a trajectory that returns (run,) bool for its last frame.
    steps : int or sequence of int
        Number of steps from the first one, evenly spaced before the end; or the steps.
    copies : int
        Number of copies of each state and displacement.
    displace : float or sequence of float
        Sizes of the displacements, relative to the spread of each variable.
    level : float, optional
        Accuracy above which, loss below which, or number of clusters with which a run
        has the outcome. Default: .98 for the accuracy.
    bisections : int
        Number of further steps of each run, each in the middle of the interval in which
        its committor passes one half for the last time.
    direction : mapping of str to array or "growing", optional
        Displace along this direction only, by a normal number times the size times the
        array: for a name of a variable of the state an array of its shape, or (run,
        ...). "growing": along the mode of each state that grows fastest, the
        eigenvector of the Jacobian of the particles' normalised motion or of the
        Hessian of a network's training loss (`analysis.linearization.state_modes`),
        with the mean length of displacements in all directions.
    reshuffle : bool
        Give copies mini-batches or noise of their own. Displacement 0 is then allowed.
    until : int, optional
        Step at which the outcome is read. Default: the last one.
    scheduler : str, optional
        Address of a dask scheduler on whose workers copies are computed, such as
        tcp://127.0.0.1:8786. The workers read the trajectory's file.
    log : callable
        Takes a line on the cost before the computation begins.
    **changes
        Settings of the copies that differ.

    Returns
    -------
    xarray.Dataset
        By run, step and displacement: `committor`, with the exact binomial interval
        `committor_low` and `committor_high`, and the numbers `successes` and `trials`;
        NaN and 0 where a run was not measured or has diverged. Copies that diverge are
        no trials. Along the growing direction also `growing_modes` (run, step); states
        without a growing mode are not measured, and `states_without_growth` is their
        number. By run: `outcome`, 1 or 0, and the decision (`add_decisions`). SIGINT
        ends the computation after the first steps; `frames_left` is the number of
        states that are left.

    Raises
    ------
    SettingsError, TrajectoryError, SweepError

    Examples
    --------
    >>> from analysis import committor
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=7, fa=2.0), runs=3, progress=False)
    >>> result = committor(trajectory, "circle", steps=[0, 50], copies=20)
    >>> dict(result["committor"].sizes)
    {'run': 3, 'step': 2, 'displacement': 1}
    """
    function = find_outcome(outcome, level, trajectory)
    sizes = np.unique(np.atleast_1d(np.asarray(displace, float)))
    if not sizes.size or (not reshuffle and (sizes <= 0).any()):
        raise SettingsError("displace", displace, "positive numbers, or reshuffle")
    check_integer("copies", copies, 1, 10_000_000)
    check_integer("bisections", bisections, 0, 60)
    if scheduler is not None:
        check_scheduler(scheduler)
    options: dict[str, Any] = {**changes, "copies": copies, "displace": sizes.tolist()}
    if direction is None:
        options["reshuffle"] = reshuffle
    elif reshuffle:
        raise SettingsError("reshuffle", reshuffle, "no value beside a direction")
    else:
        if isinstance(direction, str):
            check_choice("direction", direction, (GROWING,))
            check_growing_direction(trajectory)
        normal = random_stream(0, "copies/direction").standard_normal(copies)
        amplitudes = np.outer(sizes, normal).ravel().tolist()
        options |= {"direction": direction, "copies": 1, "displace": amplitudes}
    first_step = int(trajectory["step"][0])
    if until is not None:
        check_integer("until", until, first_step + 1, 2**62)
    counts = _Counts(trajectory, function, copies, sizes, until, options, scheduler)
    grid = _grid_steps(steps, first_step, counts.until)
    runs = np.flatnonzero(np.isfinite(counts.outcomes)).tolist()
    if not runs:
        diverging = f"only runs that diverge before step {counts.until}"
        raise SettingsError("trajectory", diverging, "a run that reaches it")
    log(counts.describe_cost(len(runs), grid, bisections))
    states = len(runs) * (len(grid) + bisections)
    is_complete = False
    with progress_bar(total=states, unit="state") as bar:
        try:
            counts.measure([{run: [step] for run in runs} for step in grid[::-1]], bar)
            for _ in range(bisections):
                counts.measure([counts.middles(runs)], bar)
            is_complete = True
        except KeyboardInterrupt:
            if not counts.results:
                raise
    result = counts.dataset().assign_attrs(
        outcome=outcome if isinstance(outcome, str) else outcome.__name__,
        frames_left=0 if is_complete else states - len(counts.results),
    )
    if changes:
        words = [f"{name}={short_text(name, value)}" for name, value in changes.items()]
        result.attrs["changes"] = ", ".join(words)
    result = add_decisions(result)
    for name in sorted(COMMENTS.keys() & set(map(str, result.variables))):
        result[name].attrs["comment"] = COMMENTS[name]
    return result


def _grid_steps(steps: int | Sequence[int], first: int, until: int) -> list[int]:
    """The steps that are measured of all runs, in increasing order."""
    if isinstance(steps, int):
        check_integer("steps", steps, 1, 10_000)
        spaced = np.linspace(first, until, steps + 1)[:-1]
        return np.unique(spaced.astype(int)).tolist()
    if not len(steps):
        raise SettingsError("steps", steps, "one or more steps")
    return [
        check_integer("steps", step, first, until - 1) for step in sorted(set(steps))
    ]


class _Counts:
    """The copies that end with an outcome, of the states measured so far."""

    def __init__(
        self,
        trajectory: xr.Dataset,
        outcome: Outcome,
        copies: int,
        sizes: np.ndarray,
        until: int | None,
        options: Mapping[str, Any],
        scheduler: str | None,
    ) -> None:
        self.trajectory = trajectory
        self.function = outcome
        self.copies = copies
        self.sizes = sizes
        self.scheduler = scheduler
        self.results: dict[tuple[int, int], np.ndarray] = {}
        """Successes and trials (2, size) by run and step."""
        self.modes: dict[tuple[int, int], StateModes] = {}
        """Modes by run and step, if copies are displaced along them."""
        first = int(trajectory["step"][0])
        ends = branch_copies(trajectory, first, 1, 0.0, until=until)
        self.until = int(ends["step"][-1])
        self.options = {**options, "until": self.until}
        """Options of `branch_copies`."""
        reached = (ends["last_step"] >= self.until).values
        self.outcomes = np.where(reached, ends_so(outcome, ends), np.nan)

    def describe_cost(self, runs: int, grid: Sequence[int], bisections: int) -> str:
        """The number of copies, and the time that they take by that of a few."""
        states = runs * (len(grid) + bisections)
        copies = states * self.copies * len(self.sizes)
        sample = min(self.copies, SAMPLE)
        begin = time.perf_counter()
        branch_copies(
            self.trajectory,
            {0: grid[:1]},
            sample,
            self.sizes.tolist()[:1],
            until=self.until,
        )
        whole = (time.perf_counter() - begin) / sample
        share = float(np.mean(self.until - np.array(grid))) / (self.until - grid[0])
        seconds = whole * share * copies
        unit = f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
        return (
            f"{states} states, {copies:,} copies until step {self.until}: about {unit}"
        )

    def measure(self, groups: Sequence[Starts], bar: tqdm) -> None:
        """Run the copies of the states in each group and count their outcomes, in portions
        that are computed together."""
        for ends in self.ends(self.portions(groups, bar), bar):
            self._count(ends)
            bar.update(ends.sizes["run"] // (self.copies * len(self.sizes)))

    def portions(self, groups: Sequence[Starts], bar: tqdm) -> Iterator[Portion]:
        """Divide the states of each group into portions that are computed together."""
        most = PORTION if self.scheduler is None else PORTION // 10
        width = max(1, most // (self.copies * len(self.sizes)))
        for group in groups:
            runs = list(group)
            for at in range(0, len(runs), width):
                portion = Portion(
                    {run: group[run] for run in runs[at : at + width]}, self.options
                )
                if self.options.get("direction") == GROWING:
                    portion = self._along_growing_modes(portion)
                    bar.update(len(runs[at : at + width]) - len(portion.starts))
                if portion.starts:
                    yield portion

    def _along_growing_modes(self, portion: Portion) -> Portion:
        """The portion without the states in which no mode grows, and with the
        directions of the others."""
        directions, modes = growing_directions(self.trajectory, portion.starts)
        starts = {}
        for run, steps in portion.starts.items():
            self.modes[run, steps[0]] = modes[run]
            if modes[run].grows:
                starts[run] = steps
            else:
                self.results[run, steps[0]] = np.zeros((2, len(self.sizes)), int)
        return Portion(starts, {**portion.options, "direction": directions})

    def ends(self, portions: Iterable[Portion], bar: tqdm) -> Iterator[xr.Dataset]:
        """The end states of the copies of each portion; on a cluster in the order in
        which they are finished."""
        if self.scheduler is None:
            for portion in portions:
                yield branch_copies(self.trajectory, portion.starts, **portion.options)
        elif portions := list(portions):
            yield from copies_on_cluster(self.trajectory, portions, self.scheduler, bar)

    def _count(self, ends: xr.Dataset) -> None:
        """Store how many copies of each state end and how many of them have the outcome."""
        trials = (ends["last_step"] >= self.until).values
        successes = ends_so(self.function, ends) & trials
        shape = (2, -1, len(self.sizes), self.copies)
        counts = np.stack([successes, trials]).reshape(shape).sum(-1)
        firsts = ends.isel(run=slice(None, None, self.copies * len(self.sizes)))
        origins = np.stack([firsts["of_run"].values, firsts["from_step"].values], 1)
        for (run, step), values in zip(
            origins.tolist(), counts.swapaxes(0, 1), strict=True
        ):
            self.results[run, step] = values

    def middles(self, runs: Sequence[int]) -> Starts:
        """For each run the middle of the interval in which its committor passes one
        half for the last time, if a step lies between."""
        middles = {}
        for run in runs:
            steps = sorted(
                step
                for (of_run, step), (_, trials) in self.results.items()
                if of_run == run and trials[0]
            )
            p = [
                successes[0] / max(1, trials[0])
                for successes, trials in (self.results[run, step] for step in steps)
            ]
            side = np.array([*p, self.outcomes[run]]) > 0.5
            changes = np.flatnonzero(side[1:] != side[:-1])
            if changes.size:
                low, high = [*steps, self.until][changes[-1] :][:2]
                middle = (low + high) // 2
                if middle > low and (run, middle) not in self.results:
                    middles[run] = [middle]
        return middles

    def dataset(self) -> xr.Dataset:
        """The measured states by run, step and displacement."""
        steps = sorted({step for _, step in self.results})
        shape = (len(self.outcomes), len(steps), len(self.sizes))
        counts = np.zeros((2, *shape), int)
        for (run, step), values in self.results.items():
            counts[:, run, steps.index(step)] = values
        pairs = list(map(tuple, counts.reshape(2, -1).T.tolist()))
        interval_of = {pair: binomial_interval(*pair) for pair in set(pairs)}
        intervals = np.reshape([interval_of[pair] for pair in pairs], (*shape, 3))
        dims = ("run", "step", "displacement")
        names = ("committor", "committor_low", "committor_high")
        variables = {name: (dims, intervals[..., at]) for at, name in enumerate(names)}
        coords = {
            "step": steps,
            "displacement": self.sizes,
            "seed": ("run", self.trajectory["seed"].values),
        }
        result = xr.Dataset(
            {
                **variables,
                "successes": (dims, counts[0]),
                "trials": (dims, counts[1]),
                "outcome": ("run", self.outcomes),
            },
            coords,
            {
                "system": self.trajectory.attrs["system"],
                "copies": self.copies,
                "until": self.until,
            },
        )
        return self._with_modes(result) if self.modes else result

    def _with_modes(self, result: xr.Dataset) -> xr.Dataset:
        """The result with the number of growing modes of each state. Raises
        SettingsError if no mode grows in any of them."""
        without_growth = sum(not modes.grows for modes in self.modes.values())
        if without_growth == len(self.modes):
            allowed = "states with a growing mode: no mode grows in those selected"
            raise SettingsError("direction", GROWING, allowed)
        growing = np.full(result["committor"].shape[:2], np.nan)
        places = {step: at for at, step in enumerate(result["step"].values.tolist())}
        for (run, step), modes in self.modes.items():
            growing[run, places[step]] = modes.growing
        return with_growing_modes(result, growing).assign_attrs(
            direction=GROWING, states_without_growth=without_growth
        )

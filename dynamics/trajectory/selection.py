"""Which runs and which recorded frames of a trajectory an analysis uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dynamics import trajectory as trajectories
from dynamics.settings import SettingsError, check_integer

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr


@dataclass(frozen=True)
class Selection:
    """Runs and recorded frames that an analysis uses. Default: all of them.

    Steps (at) or a stride (every), not both, are used instead of a number of frames.

    Parameters
    ----------
    runs : int, optional
        Number of runs, starting with the first.
    run_indices : tuple of int
        Indices of the runs.
    frames : int, optional
        Number of frames, with the first and the last.
    spacing : {"even", "early"}
        How this number of frames is spaced.
    every : int, optional
        Interval between frames, in recorded frames; the last frame is included.
    at : tuple of int
        Recorded steps.

    Examples
    --------
    >>> from dynamics import ParticleSettings, Selection, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=3, steps=8, progress=False)
    >>> Selection(frames=3).frame_indices(trajectory)
    array([0, 4, 8])
    >>> selected = Selection(runs=2, at=(0, 8)).apply(trajectory)
    >>> selected["seed"].values, selected["step"].values
    (array([0, 1]), array([0, 8]))
    """

    runs: int | None = None
    """Number of runs, starting with the first. Default: all."""
    run_indices: tuple[int, ...] = ()
    """Indices of the runs. Default: see --runs."""
    frames: int | None = None
    """Number of recorded frames, including the first and the last. Default: all."""
    spacing: Literal["even", "early"] = "even"
    """Whether this number of frames is evenly spaced, or denser at the start
    (early)."""
    every: int | None = None
    """Interval between the frames, in recorded frames; the last frame is always
    included. Default: see --frames."""
    at: tuple[int, ...] = ()
    """Recorded steps to use. Default: see --frames."""

    def __post_init__(self) -> None:
        for pair in (("runs", "run_indices"), ("every", "at")):
            if all(getattr(self, name) for name in pair):
                raise SettingsError(", ".join(pair), "both", "one of them")

    @property
    def selects_frames(self) -> bool:
        """Whether frames are selected, by a number, a stride or steps."""
        return bool(self.at) or self.every is not None or self.frames is not None

    def select_runs(self, trajectory: xr.Dataset) -> xr.Dataset:
        """The trajectory with the selected runs. Raises SettingsError."""
        count = trajectory.sizes["run"]
        if self.runs is not None:
            runs = check_integer("runs", self.runs, 1, count)
            return trajectory.isel(run=slice(runs))
        if self.run_indices:
            for run in self.run_indices:
                check_run_index("run_indices", run, trajectory)
            if len(set(self.run_indices)) < len(self.run_indices):
                indices = " ".join(map(str, self.run_indices))
                raise SettingsError("run_indices", indices, "each index once")
            return trajectory.isel(run=list(self.run_indices))
        return trajectory

    def select_whole_runs(self, trajectory: xr.Dataset) -> xr.Dataset:
        """The trajectory with the selected runs. Raises SettingsError if frames are
        selected, too."""
        for name in ("at", "every", "frames"):
            if getattr(self, name):
                words = "no value here: all frames are used"
                raise SettingsError(name, getattr(self, name), words)
        return self.select_runs(trajectory)

    def frame_indices(self, trajectory: xr.Dataset, least: int = 1) -> np.ndarray:
        """Indices (frame,) of the selected frames along `step`, in increasing order.

        least: smallest allowed number of frames. Raises SettingsError."""
        if not self.at:
            return self.indices(trajectory.sizes["step"], least)
        indices = trajectories.frames_at(trajectory["step"].values, self.at)
        if len(indices) < least:
            steps = " ".join(map(str, self.at))
            raise SettingsError("at", steps, f"{least} recorded steps or more")
        return indices

    def indices(self, count: int, least: int = 1) -> np.ndarray:
        """Indices of `count` frames that a stride or a number of frames selects.

        least: smallest allowed number of frames. Raises SettingsError."""
        if self.every is not None:
            every = check_integer("every", self.every, 1, 2**53)
            return trajectories.strided_frames(count, every)
        frames = count if self.frames is None else self.frames
        most = check_integer("frames", frames, least, 10**9)
        if self.spacing == "early":
            return trajectories.early_frames(count, most)
        return trajectories.evenly_spaced_frames(count, most)

    def apply(self, trajectory: xr.Dataset) -> xr.Dataset:
        """The selected runs and frames of the trajectory. Raises SettingsError.

        Runs and frames that diverged are masked as in the whole trajectory
        (`valid_frames`)."""
        selected = self.select_runs(trajectory)
        if not self.selects_frames:
            return selected
        return selected.isel(step=self.frame_indices(trajectory))


def check_run_index(field: str, run: int, trajectory: xr.Dataset) -> int:
    """Check that a trajectory has a run of this index; return it. Raises
    SettingsError."""
    count = trajectory.sizes["run"]
    if not 0 <= run < count:
        raise SettingsError(field, run, f"a run index from 0 to {count - 1}")
    return run


def selected_frames(
    trajectory: xr.Dataset, frames: int | Selection, least: int = 1
) -> np.ndarray:
    """Indices of evenly spaced frames, if `frames` is their number, or of the selected
    ones. Raises SettingsError."""
    if not isinstance(frames, Selection):
        check_integer("frames", frames, least, 10**9)
        frames = Selection(frames=frames)
    return frames.frame_indices(trajectory, least)

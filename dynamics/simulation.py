"""Simulation of an ensemble of runs from its settings."""

from collections.abc import Mapping
from pathlib import Path

import xarray as xr

from dynamics.ensemble import Ensemble
from dynamics.named_conditions import FrameTest
from dynamics.observers import Observer
from dynamics.settings import RecordMode, Settings, SettingsError


def simulate(
    settings: Settings,
    runs: int = 100,
    seed: int = 0,
    steps: int | None = None,
    every: int | None = None,
    record: RecordMode = "all",
    device: str = "auto",
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    progress: bool = True,
    backend: str = "auto",
    observe: Mapping[str, Observer] | None = None,
    until: str | FrameTest | None = None,
) -> xr.Dataset:
    """Simulate an ensemble of runs and return its trajectory.

    Parameters
    ----------
    settings : Settings
        Physics or optimisation of the runs: ParticleSettings, ModularSettings,
        SparseSettings, TransformerSettings, or those of a registered system.
    runs : int
        Number of runs. Run r has seed ``seed + r`` and does not depend on the other
        runs.
    seed : int
        Seed of the first run.
    steps : int, optional
        Number of steps. Default: ``settings.default_steps``.
    every : int, optional
        Steps between recorded frames; the first and the last step are always recorded.
        Default: ``settings.default_every``.
    record : {"all", "metrics"}
        "metrics" records only norms, losses and accuracies, without the embedding and
        the weights.
    device : {"auto", "cpu", "cuda"}
        Where to compute.
    out : str or Path, optional
        File to write, NAME.nc; by default nothing is written. If the file already
        contains the same run, the run is read from it, continued if it was interrupted,
        or extended if `steps` is larger.
    overwrite : bool
        Compute the run again, even if `out` exists.
    progress : bool
        Show a progress bar, on a terminal or in a notebook.
    backend : {"auto", "simd", "blas", "blocks", "torch"}
        How a network is computed. The constant-attention network on a CPU: runs on SIMD
        lanes, or matrix products of each run. Both small networks on a CUDA device: a
        block of threads for each run, with numba-cuda, or batched products of all runs.
        "auto" is the backend of the run in `out`, if there is one, otherwise on a CPU
        the faster one by a fixed cost model of the sizes and the number of runs, on a
        CUDA device blocks if they can be used. The last bits of a run depend on the
        backend.
    observe : mapping of str to callable, optional
        Own quantities to record. Each function takes a frame, a mapping from the name
        of a variable to its array (run, ...), and returns an array (run, ...) of finite
        numbers, which becomes the variable NAME (run, step, NAME_0, ...). The functions
        must depend on the frame alone and do not change the run. Their names and their
        source are part of what identifies the run.
    until : str or callable, optional
        Condition at which a run ends before its last step. It is tested at every
        recorded frame, for each run alone: a comparison of a recorded number, such as
        ``"accuracy.test > .99"``, ``"loss.train < 1e-3"``, ``"gradient_norm.embedding <
        1e-6"`` or an own scalar quantity of `observe`; the name of a registered
        condition, such as ``"circle"`` of `analysis.structures`; or a function of a
        frame, as for `observe`, that returns booleans (run,). A run that has ended has
        the status "stopped" and repeats its frame at `last_step`; the trajectory ends
        when no run is left. It is part of what identifies the run.

    Returns
    -------
    xarray.Dataset
        The trajectory, with dimensions (run, step, ...);
        docs/guides/trajectory-format.md describes it.

    Raises
    ------
    SettingsError
        If an argument is not valid, the run does not fit into memory, or `out` contains
        a different run.
    RecordingError, TrajectoryError
        If `out` cannot be written, or is damaged.
    Interrupted
        On SIGINT or SIGTERM; the same call then continues from the state on disk.

    Examples
    --------
    >>> import numpy as np
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5, fa=2.0), runs=3, steps=20)
    >>> dict(trajectory["embedding"].sizes)
    {'run': 3, 'step': 21, 'token': 5, 'axis': 2}

    The distance of the particles from the origin is recorded as a variable:

    >>> def radius(frame):
    ...     return np.linalg.norm(frame["embedding"], axis=-1)
    >>> trajectory = simulate(
    ...     ParticleSettings(n=5), runs=3, steps=20, observe={"radius": radius}
    ... )
    >>> trajectory["radius"].dims
    ('run', 'step', 'radius_0')

    Each run ends at the first frame with a force below 8:

    >>> trajectory = simulate(
    ...     ParticleSettings(n=5), runs=3, until="gradient_norm.embedding < 8"
    ... )
    >>> trajectory["last_step"].values, trajectory["status"].values
    (array([ 50, 100, 100]), array([3, 1, 1], dtype=int8))
    """
    if isinstance(settings, type) or not hasattr(settings, "system"):
        found = getattr(settings, "__name__", None) or f"a {type(settings).__name__}"
        allowed = "an instance of a settings class, such as dynamics.ParticleSettings()"
        raise SettingsError("settings", found, allowed)
    ensemble = Ensemble(
        settings, runs, seed, steps, every, record, device, backend, until, observe
    )
    return ensemble.simulate(out, overwrite, progress)

"""Construction of the scene of a run, for any system; figures, films and pages show
scenes.

The panels of a system come from a function in `PANEL_BUILDERS`, which takes a
`RecordedRun` and returns `RunPanels`: a function for each panel, and the names of the
panels that are shown if none are chosen. A system without an entry has the panels of
`build_particle_panels`. To add panels for another system:

    def build_pendulum_panels(recorded: RecordedRun) -> RunPanels:
        panels = build_particle_panels(recorded).panels
        return RunPanels({"phase": lambda: Panel("phase", ...), **panels})

    PANEL_BUILDERS["pendulum"] = build_pendulum_panels  # `system` of its settings

docs/guides/own-system.md has an example that draws arrows. All values are
dimensionless."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from analysis import panels as panel_package
from analysis.panels.common_panels import (
    RecordedRun,
    RunPanels,
)
from analysis.panels.particle_panels import build_particle_panels
from analysis.panels.scene import EventMark, Scene
from analysis.structures.circles_and_grids import structure_label
from analysis.transitions.loss_events import (
    default_scalar_name,
    event_table,
    plateau_escape_times,
    trajectory_scalar,
)
from dynamics.errors import TrajectoryError
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    RecordedSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
    check_integer,
)
from dynamics.settings_text import describe_settings
from dynamics.trajectory.schema import DIVERGED, RUNNING, STOPPED

PANEL_BUILDERS: dict[str, str | Callable[[RecordedRun], RunPanels]] = {
    SparseSettings.system: "build_sparse_panels",
    ModularSettings.system: "build_modular_panels",
    TransformerSettings.system: "build_transformer_panels",
    RecordedSettings.system: "build_own_network_panels",
    ParticleSettings.system: build_particle_panels,
}
"""Function that returns the panels of a run, by the attribute `system` of its
trajectory; the names are functions of `analysis.panels` whose modules need torch, and
are imported when they are called."""


def build_panels(recorded: RecordedRun) -> RunPanels:
    """Panels of a run, not yet computed."""
    builder = PANEL_BUILDERS.get(recorded.settings.system, build_particle_panels)
    if isinstance(builder, str):
        builder = getattr(panel_package, builder)
    return builder(recorded)


def panel_names(trajectory: xr.Dataset) -> tuple[str, ...]:
    """Return the names of the panels that runs of a trajectory have.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of any system, from `dynamics.simulate` or
        `dynamics.open_trajectory`.

    Returns
    -------
    tuple of str
        Names in the order in which the panels are drawn.

    Raises
    ------
    TrajectoryError
        If its first run diverged before the first frame.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=2, record="metrics", progress=False)
    >>> panel_names(trajectory)
    ('gradient_norm', 'update_norm')
    """
    return tuple(build_panels(RecordedRun(trajectory, 0)).panels)


def build_scene(
    trajectory: xr.Dataset,
    run: int,
    axes: tuple[int, int] | None = None,
    side: int = 96,
    panels: Sequence[str] | None = None,
    follow: float = 0.0,
) -> Scene:
    """Return the panels of one run, with its title and its events.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of any system.
    run : int
        Index along the dimension `run`.
    axes : tuple of int, optional
        The two axes of the embedding that panels show, counted from 0. By default both
        axes of a two-dimensional embedding, otherwise the principal axes of the last
        frame.
    side : int
        Pixels along each side of a class map.
    panels : sequence of str, optional
        Names of the panels, in their order; by default all of `panel_names`.
    follow : float
        How far the limits of panels follow the points, from 0, where they hold for the
        whole run, to 1, where the points fill the panel in each frame. With 0.5, as in
        films, a cloud of points that grows by a factor of 4 becomes twice as large in
        its panel. True is 1.

    Returns
    -------
    Scene
        The description that `PanelGrid` draws.

    Raises
    ------
    SettingsError
        If there is no such run, axis or panel.
    TrajectoryError
        If the run diverged before the first frame.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=2, progress=False)
    >>> scene = build_scene(trajectory, 0, panels=["embedding"])
    >>> scene.title
    'particles, N = 5, f_a = 1, seed 0'
    >>> scene.arrays([0, 2])["embedding"].shape
    (2, 5, 2)
    """
    recorded = RecordedRun(
        trajectory, run, axes, check_integer("side", side, 2, 4096), follow
    )
    run_panels = build_panels(recorded)
    factories = run_panels.panels
    for name in panels or ():
        if name not in factories:
            raise SettingsError("panels", name, "one of " + ", ".join(factories))
    names = factories if panels is None else panels
    words = describe_settings(recorded.settings, _MAX_OTHER_SETTINGS)
    end = f", {_run_status(recorded)}" if recorded.diverged else ""
    return Scene(
        title=f"{words}, seed {recorded.seed}{end}",
        steps=recorded.steps,
        clock=recorded.clock,
        unit=recorded.unit,
        panels=tuple(factories[name]() for name in names),
        main_panels=run_panels.main_among(list(factories)),
        detect_events=functools.partial(run_events, recorded),
        facts=_run_facts(recorded),
    )


# ----------------------------------------------------------------- description of a run


_MAX_OTHER_SETTINGS = 4


def _run_facts(recorded: RecordedRun) -> dict[str, str]:
    """Further properties of a run, by name."""
    result = {
        "run": str(recorded.run),
        "seed": str(recorded.seed),
        "status": _run_status(recorded),
    }
    for name in ("accuracy", "loss"):
        if name in recorded.data:
            values, splits = recorded.metric(name, "split")
            last = values[:, -1]
            texts = [f"{x:.3g}" if name == "loss" else f"{100 * x:.3g}%" for x in last]
            result[name] = ", ".join(map(" ".join, zip(texts, splits, strict=True)))
    if recorded.has_residue_tokens and np.isfinite(recorded.embedding[-1]).all():
        result["structure"] = structure_label(recorded.embedding[-1])
    return result


def _run_status(recorded: RecordedRun) -> str:
    """Whether a run is running, done, diverged or stopped, and when it diverged or
    stopped."""
    state = int(recorded.data["status"].values[0])
    moment = f"{recorded.unit} {recorded.last_step / recorded.epoch_steps:.4g}"
    if state == DIVERGED:
        return f"diverged after {moment}"
    if state == STOPPED:
        return f"stopped at {moment}"
    return "running" if state == RUNNING else "done"


def run_events(recorded: RecordedRun) -> tuple[EventMark, ...]:
    """Events of a run's loss, or force, and its escape, as `python -m analysis.events`
    detects them, by time.

    Initial drops and rises, which no plateau precedes, are left out, as
    `analysis.events` does not count them."""
    try:
        values = trajectory_scalar(recorded.data, default_scalar_name(recorded.data))
    except TrajectoryError:  # too few frames
        return ()
    table = event_table(values)
    counted = table.isel(event=np.flatnonzero(~table["initial"].values))
    columns = (counted[name].values for name in ("kind", "begin", "middle", "end"))
    marks = [
        EventMark(str(kind), *(round(float(at)) for at in times))
        for kind, *times in zip(*columns, strict=True)
    ]
    escape = plateau_escape_times(values)
    if bool(escape["escaped"].values[0]):
        at = round(float(escape["escape"].values[0]))
        marks.append(EventMark("escape", at, at, at))
    return tuple(sorted(marks, key=lambda mark: (mark.begin, mark.kind)))

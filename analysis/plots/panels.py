"""What is to be seen of a run of any system: `scene` makes the panels, which figures, films and pages show.

A system's panels are made by a function of `BUILDERS` that takes a `Recorded` run and gives a `Content`: for each
panel's name a function that makes it, and one function that gives the arrays of any frames. A system that is not in the
table has the panels of `analysis.plots.scenes.common_panels.build_default_panels`. To add those of a system of your
own:

    def pendulum(recorded: Recorded) -> Content:
        shown = common(recorded)
        return Content({"phase": lambda: Panel("phase", ...), **shown.panels}, shown.look)

    BUILDERS["pendulum"] = pendulum  # by the `system` of its settings

docs/new-system.md has one that draws arrows.

All values are dimensionless.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from analysis.plots.scenes.common_panels import RecordedRun, RunPanels, build_default_panels
from analysis.plots.scenes.particle_panels import build_particle_panels
from analysis.plots.scenes.scene import EventMark, Scene
from analysis.structures.circles_and_grids import structure_label
from dynamics.errors import TrajectoryError
from dynamics.initial_conditions import HASH_SEPARATOR
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError, SparseSettings, check_integer
from dynamics.trajectory.schema import DIVERGED, RUNNING


def _head(recorded: RecordedRun) -> RunPanels:
    from analysis.plots.scenes.sparse_panels import build_sparse_panels  # needs torch, which particles do not

    return build_sparse_panels(recorded)


def _networks(recorded: RecordedRun) -> RunPanels:
    from analysis.plots.scenes.modular_panels import build_modular_panels

    return build_modular_panels(recorded)


PANEL_BUILDERS: dict[str, Callable[[RecordedRun], RunPanels]] = {
    SparseSettings.system: _head,
    ModularSettings.system: _networks,
    ParticleSettings.system: build_particle_panels,
}
"""What makes the panels of a run, by the `system` that its trajectory names."""


def build_panels(recorded: RecordedRun) -> RunPanels:
    """The panels that a run has, none of them made yet."""
    return PANEL_BUILDERS.get(recorded.settings.system, build_default_panels)(recorded)


def panel_names(trajectory: xr.Dataset) -> tuple[str, ...]:
    """The panels that runs of a trajectory have, in their order. Raises TrajectoryError."""
    return tuple(build_panels(RecordedRun(trajectory, 0)).panels)


def build_scene(
    trajectory: xr.Dataset,
    run: int,
    axes: tuple[int, int] | None = None,
    side: int = 96,
    panels: Sequence[str] | None = None,
    marks: Sequence[EventMark] | None = None,
) -> Scene:
    """What is to be seen of the run at a place along `run`.

    axes: two of them, by number from 0, that panels show; None is the two there are, or the principal ones. side: of
    maps, in pixels. panels: names of those wanted, in this order; None is all. marks: events of the run, such as those
    of the whole one where the trajectory is a part of it; None is those that are found here. Raises SettingsError,
    TrajectoryError.
    """
    recorded = RecordedRun(trajectory, run, axes, check_integer("side", side, 2, 4096))
    made = build_panels(recorded)
    for name in panels or ():
        if name not in made.panels:
            raise SettingsError("panels", name, "one of " + ", ".join(made.panels))
    found = run_events(recorded) if marks is None else tuple(marks)
    return Scene(
        _run_title(recorded),
        recorded.steps,
        recorded.clock,
        recorded.unit,
        tuple(made.panels[name]() for name in (made.panels if panels is None else panels)),
        made.look,
        found,
        _run_facts(recorded) | _event_counts(found),
    )


# ------------------------------------------------------------------------------------- what is known of a run


def _run_title(recorded: RecordedRun) -> str:
    """Which run, in words: the task, settings that are not the default ones, the seed, and whether it diverged."""
    s, ended = recorded.settings, f", {_run_status(recorded)}" if recorded.diverged else ""
    task, always = _ALWAYS_NAMED.get(s.system, (s.system, {}))
    said = [_setting_text(letter, getattr(s, name)) for name, letter in always.items()]
    return ", ".join([task, *said, *_other_settings(s, always), f"seed {recorded.seed}"]) + ended


_ALWAYS_NAMED: dict[str, tuple[str, dict[str, str]]] = {
    SparseSettings.system: ("sparse modular addition", {"vocab": "p", "dim": "d"}),
    ModularSettings.system: ("modular addition", {"n": "N", "weight_decay": "weight decay"}),
    ParticleSettings.system: ("particles", {"n": "N", "fa": "f_a"}),
}
"""By system: what it is, and the settings that are always named, with what they are called."""

_SYMBOLS = {"n": "N", "dim": "D", "fa": "f_a", "length": "L", "sparsity": "k", "ga": "g_a", "gr": "g_r"}
_MAX_OTHER_SETTINGS = 4
"""Settings that are named beside those."""


def _other_settings(s: Any, known: Collection[str]) -> list[str]:
    """The first few of the other settings that are not the default ones, in words."""
    found = []
    for field in dataclasses.fields(s):
        value = getattr(s, field.name)
        if field.name in known or value == field.default:
            continue
        if field.name == "start":
            found.append(f"from {Path(value.split(HASH_SEPARATOR)[0]).stem}")
        else:
            found.append(_setting_text(_SYMBOLS.get(field.name, field.name.replace("_", " ")), value))
    return found if len(found) <= _MAX_OTHER_SETTINGS else [*found[:_MAX_OTHER_SETTINGS], "…"]


def _setting_text(name: str, value: object) -> str:
    """A setting in words: p = 2, weight decay 0.6."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{name} = {text}" if len(name) <= 3 else f"{name} {text}"


def _run_facts(recorded: RecordedRun) -> dict[str, str]:
    """What else is known of a run, in short words."""
    data, found = (
        recorded.data,
        {"run": str(recorded.place), "seed": str(recorded.seed), "status": _run_status(recorded)},
    )
    for name in ("accuracy", "loss"):
        if name in data:
            values, splits = recorded.curve(name, "split")
            found |= {f"{split} {name}": f"{value:.3g}" for split, value in zip(splits, values[:, -1], strict=True)}
    if recorded.numbers and np.isfinite(recorded.embedding[-1]).all():
        found["structure"] = structure_label(recorded.embedding[-1])
    return found


def _event_counts(marks: Sequence[EventMark]) -> dict[str, str]:
    """How many events there are of each kind."""
    kinds = [mark.kind for mark in marks if mark.kind != "escape"]
    return {f"{kind}s": str(kinds.count(kind)) for kind in dict.fromkeys(kinds)}


def _run_status(recorded: RecordedRun) -> str:
    """Whether a run has ended, and how."""
    state = int(recorded.data["status"].values[0])
    if state == DIVERGED:
        return f"diverged after {recorded.unit} {recorded.last_step / recorded.epoch_steps:.4g}"
    return "running" if state == RUNNING else "done"


def run_events(recorded: RecordedRun) -> tuple[EventMark, ...]:
    """The events of a run's loss, or force, and its escape, as `python -m analysis.events` finds them, by time.

    Initial drops and rises, before which no plateau was seen, are left out, as they are where events are counted.
    """
    from analysis.transitions.loss_events import (
        default_scalar_name,
        event_table,
        plateau_escape_times,
        trajectory_scalar,
    )

    try:
        values = trajectory_scalar(recorded.data, default_scalar_name(recorded.data))
    except TrajectoryError:  # too few frames
        return ()
    found = event_table(values)
    kept = found.isel(event=np.flatnonzero(~found["initial"].values))
    columns = (kept[name].values for name in ("kind", "begin", "middle", "end"))
    marks = [EventMark(str(kind), *(round(float(at)) for at in times)) for kind, *times in zip(*columns, strict=True)]
    escape = plateau_escape_times(values)
    if bool(escape["escaped"].values[0]):
        at = round(float(escape["escape"].values[0]))
        marks.append(EventMark("escape", at, at, at))
    return tuple(sorted(marks, key=lambda mark: (mark.begin, mark.kind)))

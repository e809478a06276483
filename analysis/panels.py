"""What is to be seen of a run of any system: `scene` makes the panels, which figures, films and pages show.

A system's panels are made by a function of `BUILDERS` that takes a `Recorded` run and gives a `Content`: for each
panel's name a function that makes it, and one function that gives the arrays of any frames. A system that is not in the
table has the panels of `analysis.view.common_panels.common`. To add those of a system of your own:

    def pendulum(recorded: Recorded) -> Content:
        shown = common(recorded)
        return Content({"phase": lambda: Panel("phase", ...), **shown.panels}, shown.look)

    BUILDERS["pendulum"] = pendulum  # by the `system` of its settings

All values are dimensionless.
"""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from analysis.gallery import label
from analysis.view.common_panels import Content, Recorded, common
from analysis.view.pair_panels import particles
from analysis.view.scene import Mark, Scene
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError, SparseSettings, check_whole
from dynamics.storage import TrajectoryError
from dynamics.trajectory import DIVERGED, RUNNING


def _head(recorded: Recorded) -> Content:
    from analysis.view.head_panels import head  # needs torch, which particles do not

    return head(recorded)


def _networks(recorded: Recorded) -> Content:
    from analysis.view.trained_pair_panels import networks

    return networks(recorded)


BUILDERS: dict[str, Callable[[Recorded], Content]] = {
    SparseSettings.system: _head,
    ModularSettings.system: _networks,
    ParticleSettings.system: particles,
}
"""What makes the panels of a run, by the `system` that its trajectory names."""


def content(recorded: Recorded) -> Content:
    """The panels that a run has, none of them made yet."""
    return BUILDERS.get(recorded.settings.system, common)(recorded)


def panel_names(trajectory: xr.Dataset) -> tuple[str, ...]:
    """The panels that runs of a trajectory have, in their order. Raises TrajectoryError."""
    return tuple(content(Recorded(trajectory, 0)).panels)


def scene(
    trajectory: xr.Dataset,
    run: int,
    axes: tuple[int, int] | None = None,
    side: int = 96,
    panels: Sequence[str] | None = None,
) -> Scene:
    """What is to be seen of the run at a place along `run`.

    axes: two of them, by number from 0, that panels show; None is the two there are, or the principal ones. side: of
    maps, in pixels. panels: names of those wanted, in this order; None is all. Raises SettingsError, TrajectoryError.
    """
    recorded = Recorded(trajectory, run, axes, check_whole("side", side, 2, 4096))
    made = content(recorded)
    for name in panels or ():
        if name not in made.panels:
            raise SettingsError("panels", name, "one of " + ", ".join(made.panels))
    found = marks(recorded)
    return Scene(
        title(recorded),
        recorded.steps,
        recorded.clock,
        recorded.unit,
        tuple(made.panels[name]() for name in (made.panels if panels is None else panels)),
        made.look,
        found,
        facts(recorded) | counted(found),
    )


# ------------------------------------------------------------------------------------- what is known of a run


def title(recorded: Recorded) -> str:
    """Which run, in words."""
    s, seed = recorded.settings, f"seed {recorded.seed}"
    if isinstance(s, SparseSettings):
        return f"sparse modular addition, p = {s.vocab}, d = {s.dim}, {seed}"
    if isinstance(s, ModularSettings | ParticleSettings):
        space = f"N = {s.n}" + (f", D = {s.dim}" if s.dim != 2 else "")
        if isinstance(s, ModularSettings):
            return f"modular addition, {space}, weight decay {s.weight_decay:g}, {seed}"
        return f"particles, {space}, f_a = {s.fa:g}, {seed}"
    return f"{s.system}, {seed}"


def facts(recorded: Recorded) -> dict[str, str]:
    """What else is known of a run, in short words."""
    data, found = recorded.data, {"run": str(recorded.place), "seed": str(recorded.seed), "status": status(recorded)}
    for name in ("accuracy", "loss"):
        if name in data:
            values, splits = recorded.curve(name, "split")
            found |= {f"{split} {name}": f"{value:.3g}" for split, value in zip(splits, values[:, -1], strict=True)}
    if "embedding" in data and not isinstance(recorded.settings, SparseSettings):
        x = recorded.embedding[-1]
        if x.shape[0] > 1 and np.isfinite(x).all():
            found["structure"] = label(x)
    return found


def counted(marks: Sequence[Mark]) -> dict[str, str]:
    """How many events there are of each kind."""
    kinds = [mark.kind for mark in marks if mark.kind != "escape"]
    return {f"{kind}s": str(kinds.count(kind)) for kind in dict.fromkeys(kinds)}


def status(recorded: Recorded) -> str:
    """Whether a run has ended, and how."""
    state = int(recorded.data["status"].values[0])
    if state == DIVERGED:
        return f"diverged after {recorded.unit} {recorded.last_step / recorded.epoch_steps:.4g}"
    return "running" if state == RUNNING else "done"


def marks(recorded: Recorded) -> tuple[Mark, ...]:
    """The events of a run's loss, or force, and its escape, as `python -m analysis.events` finds them, by time."""
    from analysis.drops import default_scalar, escapes, events, scalar

    try:
        values = scalar(recorded.data, default_scalar(recorded.data))
    except TrajectoryError:  # too few frames
        return ()
    found = events(values)
    columns = (found[name].values for name in ("kind", "begin", "middle", "end"))
    marks = [Mark(str(kind), *(round(float(at)) for at in times)) for kind, *times in zip(*columns, strict=True)]
    escape = escapes(values)
    if bool(escape["escaped"].values[0]):
        at = round(float(escape["escape"].values[0]))
        marks.append(Mark("escape", at, at, at))
    return tuple(sorted(marks, key=lambda mark: (mark.begin, mark.kind)))

"""Python lines that repeat a view of the page: the trajectory, its frame, and a picture
of the same panels."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dynamics import Ensemble
from dynamics.settings import ModularSettings, ParticleSettings, TransformerSettings

_HEAD = (
    "from pathlib import Path\n\nfrom analysis import panels, plots\nfrom dynamics import"
    " {names}\n"
)
_PICTURE = """
scenes = [{scenes}]
frames = [{frames}]
grid = plots.PanelGrid(scenes, {panels!r}{columns})
grid.show(frames, [scene.arrays([frame]) for scene, frame in zip(scenes, frames, strict=True)])
grid.save(Path("view.png"))
"""
CHANGED = (
    "# Settings that were changed and particles that were moved during the run are not"
    " repeated.\n"
)


class RecordedView(NamedTuple):
    """A run of a file at a step."""

    path: Path
    run: int
    step: int


def recorded_view_code(
    views: Sequence[RecordedView],
    panels: Sequence[str],
    axes: tuple[int, int] | None,
    columns: int = 0,
) -> str:
    """Code of one run of a file, or of two runs side by side.

    panels: names of panels that all have; columns: number of panels of a run in a row,
    0 for the default."""
    names = ("first", "second") if len(views) > 1 else ("trajectory",)
    sources = [
        f"{name} = open_trajectory({str(view.path.resolve())!r})\n"
        for name, view in zip(names, views, strict=True)
    ]
    scenes = ", ".join(
        f"panels.build_scene({name}, {view.run}, {axes})"
        for name, view in zip(names, views, strict=True)
    )
    frames = ", ".join(
        f"plots.nearest_frame(scenes[{k}], {view.step})" for k, view in enumerate(views)
    )
    shape = f", columns={columns}" if columns else ""
    picture = _PICTURE.format(
        scenes=scenes, frames=frames, panels=list(panels), columns=shape
    )
    return _HEAD.format(names="open_trajectory") + "\n" + "".join(sources) + picture


def live_view_code(
    settings: ParticleSettings | ModularSettings | TransformerSettings,
    seed: int,
    steps: int,
    unchanged: bool,
) -> str:
    """Python code that simulates a live run up to its current step.

    unchanged: whether the run has had the same settings and positions since it started.
    """
    source = f"trajectory = {Ensemble(settings, 1, seed, steps).code()}\n"
    scene = "panels.build_scene(trajectory, 0)"
    at = f"plots.nearest_frame(scenes[0], {steps})"
    transformer = isinstance(settings, TransformerSettings)
    panels = (
        ["frequency_1", "frequency_2", "correct_logits"]
        if transformer
        else ["embedding", "pair_sums"]
    )
    picture = _PICTURE.format(scenes=scene, frames=at, panels=panels, columns="")
    head = _HEAD.format(names=f"{type(settings).__name__}, simulate")
    forces = "from dynamics.forces import Force\n\n" if "Force(" in source else "\n"
    return ("" if unchanged else CHANGED) + head + forces + source + picture

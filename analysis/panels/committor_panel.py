"""The committor of a run (`analysis.committors`) as a panel of its scene."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from analysis.panels.colours import named_colours
from analysis.panels.scene import Curves, EventMark, Panel, Scene

NAME = "committor"


def add_committor(scene: Scene, result: xr.Dataset, seed: int) -> Scene:
    """A scene with the committor of its run as a panel, and the step of the decision as
    an event.

    result: as returned by `committors.committor`. seed: that of the run. The scene is
    returned as it is if the run was not measured."""
    runs = np.flatnonzero(result["seed"].values == seed)
    measured = result.isel(run=runs[:1]).dropna("step", subset=[NAME])
    if not measured["committor"].size:
        return scene
    run = measured.isel(run=0)
    steps = np.append(run["step"].values, int(result.attrs["until"]))
    sizes = run["displacement"].values
    ends = run["outcome"].values
    shares = run[NAME].transpose("displacement", "step").values
    values = np.column_stack([shares, np.full(len(sizes), ends)])
    names = tuple(f"displaced by {size:g}" for size in sizes)
    curves = Curves(scene.clock_at(steps), values, named_colours(names), names)
    panel = Panel(
        NAME,
        f"committor: {result.attrs['outcome']}",
        (curves,),
        x=(float(scene.clock[0]), float(scene.clock[-1]) or 1.0),
        y=(-0.03, 1.03),
        x_label=scene.unit,
        equal=False,
        note=f"share of {result.attrs['copies']} copies",
        explanation="The share of slightly displaced copies of the run that end with the"
        " outcome. The mark is the step of the decision: from there on, more than half"
        " of them end as the run does.",
    )
    decisions = np.atleast_1d(run["decision_step"].values)
    decisions = np.rint(decisions[np.isfinite(decisions)]).astype(int).tolist()
    marks = [EventMark("decision", step, step, step) for step in decisions]
    return replace(
        scene,
        panels=(*scene.panels, panel),
        main_panels=(*scene.main_panels, NAME),
        detect_events=lambda: (*scene.marks, *marks),
    )

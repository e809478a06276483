"""Every figure of the analyses in every style: texts neither overlap nor are cut."""

import contextlib
import dataclasses
import io
import warnings
from importlib import import_module

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from analysis.plots import use_style
from dynamics import (
    ModularSettings,
    ParticleSettings,
    Selection,
    SparseSettings,
    TransformerSettings,
    open_trajectory,
    simulate,
)
from tests.analysis.plots.rendering import faults

RUNS = {
    "particles": (ParticleSettings(fa=2.0), {"runs": 8}),
    "modular": (ModularSettings(weight_decay=1.0), {"runs": 8, "steps": 600}),
    "sparse": (
        SparseSettings(data=256, batch=32, lr=0.01),
        {"runs": 8, "steps": 1600, "every": 8},
    ),
    "transformer": (
        TransformerSettings(n=7, dim=16, heads=2, hidden=32),
        {"runs": 2, "steps": 60, "every": 4},
    ),
}
CASES = [
    ("circuits", "sparse", {}),
    ("curvature", "particles", {"selection": Selection(runs=4, frames=6)}),
    ("curvature", "modular", {"selection": Selection(runs=4, frames=6)}),
    ("curvature", "sparse", {"selection": Selection(runs=4, frames=6)}),
    ("events", "sparse", {}),
    ("events", "modular", {}),
    ("fate", "particles", {"selection": Selection(runs=4, frames=4), "copies": 8}),
    ("formation", "particles", {}),
    ("formation", "modular", {}),
    ("gradients", "sparse", {}),
    ("gradients", "modular", {}),
    ("landscape", "modular", {"points": 9}),
    ("landscape", "modular", {"points": 9, "plane": "random"}),
    ("landscape", "modular", {"points": 9, "plane": "lines"}),
    ("llc", "modular", {"selection": Selection(runs=2, frames=3), "draws": 20}),
    ("noise", "modular", {"selection": Selection(runs=2, frames=4)}),
    ("edge", "modular", {"selection": Selection(runs=2, frames=4)}),
    ("overview", "sparse", {"selection": Selection(runs=4)}),
    ("pair_law", "modular", {"selection": Selection(runs=3)}),
    ("progress", "transformer", {}),
    ("sparsity", "sparse", {}),
    ("spikes", "sparse", {}),
    ("weight_spectra", "sparse", {"selection": Selection(runs=4, frames=6)}),
]
STYLES = [("screen", False), ("paper", False), ("paper", True)]
"""The style dark has the layout of screen, with other colours."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A file of runs of each system."""
    folder = tmp_path_factory.mktemp("rendering")
    for name, (settings, options) in RUNS.items():
        simulate(settings, out=folder / f"{name}.nc", progress=False, **options).close()
    return folder


def name_of(value):
    return value if isinstance(value, str) else "-".join(map(str, value.values()))[:20]


@pytest.mark.parametrize(("name", "files", "options"), CASES, ids=name_of)
def test_figures_have_no_faults_in_any_style(name, files, options, runs):
    analysis = import_module(f"analysis.{name}").ANALYSIS
    paths = [runs / f"{file}.nc" for file in files.split()]
    values = {"trajectory": paths[0], "others": tuple(paths[1:]), **options}
    fields = {field.name for field in dataclasses.fields(analysis.options)}
    chosen = analysis.options(**{k: v for k, v in values.items() if k in fields})
    with contextlib.redirect_stdout(io.StringIO()):
        measured = analysis._measure(
            chosen, paths, [open_trajectory(path) for path in paths]
        )
    found = {}
    for style, column in STYLES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            with use_style(style, column):
                figures = [
                    (analysis.report or analysis._default_report)(item).figure
                    for item in measured
                ]
                assert all(isinstance(figure, Figure) for figure in figures)
                lines = [line for figure in figures for line in faults(figure, column)]
        lines += [str(item.message) for item in caught if "layout" in str(item.message)]
        if lines:
            found[style, column] = lines
    plt.close("all")
    assert not found, "\n".join(
        f"{key}: {line}" for key, lines in found.items() for line in lines
    )

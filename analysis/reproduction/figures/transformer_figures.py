"""Figures of ZL's and NA's transformers: measures over the attention rate, and the
phases of training."""

import numpy as np
import xarray as xr

from analysis.plots.attention_rate_figure import plot_attention_rates
from analysis.plots.progress_figure import plot_progress
from analysis.progress_measures import measure_progress
from analysis.reproduction.figures.figure import (
    DrawnFigure,
    FigureData,
    PaperFigure,
    own_style,
)
from analysis.reproduction.nanda2023 import grokking_claims
from analysis.reproduction.zhong2023 import attention_rate_claims
from analysis.reproduction.zhong2023.attention_rate_claims import (
    MEASURES,
    ZL_RUNS,
    network_measures,
)
from dynamics.trajectory.diverged import not_diverged
from dynamics.trajectory.schema import read_settings


def zl_rates(data: FigureData) -> DrawnFigure:
    """Symmetricity, irrelevance and circularity of networks over the attention rate,
    beside ZL's table."""
    rows = []
    for trajectory in data.datasets:
        result = network_measures(trajectory.isel(run=not_diverged(trajectory)))
        rows.append(xr.Dataset({name: ("run", result[name]) for name in MEASURES}))
    rates = [read_settings(dataset).attention_rate for dataset in data.datasets]  # type: ignore[attr-defined]
    measures = xr.concat(rows, "attention_rate", join="outer").assign_coords(
        attention_rate=rates
    )
    with own_style(data):
        drawn = plot_attention_rates(measures.sortby("attention_rate"), ZL_RUNS)
    rule = (
        "All runs that have not diverged. Grey: means of ZL's table of one-layer runs,"
        " each over a fifth of the "
        "range of α."
    )
    seeds = data.only["seed"].values.tolist()
    return DrawnFigure(drawn, f"{len(rates)} attention rates", rule, seeds)


def na_phases(data: FigureData) -> DrawnFigure:
    """Losses, progress measures and phases of NA's recipe along training."""
    trajectory = data.only.isel(run=np.flatnonzero(not_diverged(data.only)))
    result = measure_progress(trajectory)
    with own_style(data):
        drawn = plot_progress(trajectory, result)
    drawn.suptitle("")
    rule = (
        "All runs that have not diverged: medians with quartiles. Bands: phases at"
        " their median times."
    )
    settings = read_settings(trajectory)
    here = f"p = {settings.n}, {settings.train_share:.0%} of the pairs"  # type: ignore[attr-defined]
    return DrawnFigure(drawn, here, rule, trajectory["seed"].values.tolist())


FIGURES = (
    PaperFigure(
        "zl-rates",
        "gradient symmetricity, distance irrelevance and circularity over the attention"
        " rate, beside the table of ZL's runs",
        tuple(
            attention_rate_claims.ensembles(attention_rate_claims.RATE.default.params)
        ),
        "20 minutes",
        zl_rates,
    ),
    PaperFigure(
        "na-phases",
        "losses, progress measures and phases of a network that generalises late",
        tuple(grokking_claims.ensembles(grokking_claims.PHASES.default.params)),
        "5 minutes",
        na_phases,
    ),
)

"""The papers' figures for the report, drawn from existing runs: no run is made for a
picture."""

import contextlib
import dataclasses
import io
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from analysis.clustering_heads import transfer_design
from analysis.reproduction.experiment import (
    RequiredRuns,
    Size,
    SizeOverrides,
)
from analysis.reproduction.figures import ensemble_figures, figure, framing
from analysis.reproduction.figures.figure import PaperFigure, RequiredResult
from analysis.reproduction.figures.figure_runs import (
    RUNNER,
    load_figure_runs,
    plan_ensemble,
)
from analysis.reproduction.figures.register import get_paper_figure
from analysis.reproduction.report.markdown import escape_markdown
from analysis.reproduction.results import ClaimResult
from analysis.transitions.ablations import merge_ablation_sweeps
from dynamics.ensemble import run_path
from dynamics.errors import TrajectoryError
from dynamics.progress import progress_bar
from dynamics.settings import SettingsError
from dynamics.trajectory.netcdf import NETCDF_LOCK

SLOW = ("vc1", "vc2", "vc3", "vc4", "vc10", "vc11", "vc20")
"""Figures that take ten seconds or more each; a quick report does not have them."""


class Picture(NamedTuple):
    """A figure of a paper in the report."""

    name: str
    claim: str
    """The claim in whose entry it is shown"""
    alt: str
    """A text in place of the figure, in Markdown"""
    caption: str
    """Title and caption, in Markdown"""


def first_claims(results: Sequence[ClaimResult], size: Size) -> dict[str, str]:
    """The figures that claims name, each with the first claim that names it."""
    claims: dict[str, str] = {}
    for result in results:
        name = result.claim.figure
        if name and not (size is Size.QUICK and name in SLOW):
            claims.setdefault(name, result.claim.name)
    return claims


def read_earlier_pictures(
    claims: Mapping[str, str], pages: Sequence[Path], folder: Path
) -> dict[str, Picture]:
    """The figures of an earlier report, with their captions on its pages; only those
    that claims name."""
    line = re.compile(
        rf"^!\[(.*)\]\({re.escape(folder.name)}/([\w-]+)\.png\)\n(.+)$", re.M
    )
    pictures = {}
    for page in pages:
        if not page.exists():
            continue
        for alt, name, caption in line.findall(page.read_text("utf-8")):
            if name in claims and (folder / f"{name}.png").exists():
                pictures[name] = Picture(name, claims[name], alt, caption)
    return pictures


def draw_available_figures(
    claims: Mapping[str, str],
    results: Sequence[ClaimResult],
    size: Size,
    folder: Path,
) -> dict[str, Picture]:
    """Draw each figure of `first_claims` whose runs exist; by name."""
    candidates = _candidate_sizes(results, size)
    names = progress_bar(claims, desc="figures", unit="", file=sys.stderr)
    with _without_font_warnings():
        pictures = [
            _draw(get_paper_figure(name), claims[name], candidates, folder)
            for name in names
        ]
    return {picture.name: picture for picture in pictures if picture}


@contextlib.contextmanager
def _without_font_warnings() -> Iterator[None]:
    """Without a message for every font of matplotlib that is not installed; others
    replace them."""
    logger = logging.getLogger("matplotlib.font_manager")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _candidate_sizes(results: Sequence[ClaimResult], size: Size) -> list[SizeOverrides]:
    """Sizes at which the runs of a figure may exist: its own, and those of the
    experiments."""
    result = set()
    experiments = {item.experiment.name: item.experiment for item in results}
    for experiment in experiments.values():
        sizing = experiment.at(size)
        if sizing is None:
            continue
        params = sizing.params
        for need in experiment.ensembles(params):
            result.add(SizeOverrides(need.runs, need.epochs))
        epochs = params.get("epochs")
        # a list has one length for each ensemble
        if "runs" in params and not isinstance(epochs, list):
            result.add(SizeOverrides(params["runs"], epochs))
    ordered = sorted(result, key=lambda sizes: (sizes.runs, sizes.epochs or 0))
    return [SizeOverrides(), *ordered]


def _draw(
    chosen: PaperFigure, claim: str, candidates: Sequence[SizeOverrides], folder: Path
) -> Picture | None:
    """Draw a figure at the first size at which it can be drawn."""
    for sizes in candidates:
        if not _runs_exist(chosen, sizes):
            continue
        try:
            # `analysis.paper` prints which runs were found
            with contextlib.redirect_stdout(io.StringIO()):
                data = load_figure_runs(chosen, (), sizes, None)
                drawn = figure.draw_paper_figure(chosen, data._replace(small=True))
        except (TrajectoryError, SettingsError):
            continue  # the runs are too few, or too short, for this figure
        framing.save_small_png(drawn.figure, folder / f"{chosen.name}.png")
        alt = escape_markdown(chosen.alternative_text(drawn))
        caption = f"{chosen.title(drawn)}. {drawn.caption}"
        return Picture(chosen.name, claim, alt, escape_markdown(caption))
    return None


# --------------------------------------------------------------------- which runs exist


def _runs_exist(chosen: PaperFigure, sizes: SizeOverrides) -> bool:
    """Whether all runs of a figure at a size exist, so that drawing it makes none."""
    ensemble: RequiredRuns | None = None
    for need in chosen.needs:
        if isinstance(need, RequiredResult):
            if not RESULTS[need.command](sizes):
                return False
            continue
        ensemble = plan_ensemble(need, sizes, ensemble)
        if not _has_step(RUNNER.path(ensemble), ensemble.steps):
            return False
    return True


def _has_step(path: Path, step: int) -> bool:
    """Whether a trajectory exists and has a frame at a step."""
    if not path.is_file():
        return False
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as trajectory:
            return step in trajectory["step"].values
    except (OSError, ValueError, KeyError):
        return False


def _ablations_exist(sizes: SizeOverrides) -> bool:
    points = merge_ablation_sweeps(
        ensemble_figures.ablation_designs(sizes).values()
    ).points
    return all(_has_step(point.path, point.steps) for point in points)


def _transfers_exist(sizes: SizeOverrides) -> bool:
    design = ensemble_figures.transfer_design(sizes)
    phase = design.epochs * design.source.epoch_steps
    first = run_path(design.source, design.runs, 0, every=phase)
    if not _has_step(first, 2 * phase):
        return False
    trained = []
    for vocab in transfer_design.check_transfer_design(design):
        larger = transfer_design.larger_vocabulary_settings(design.source, vocab)
        finetuned = dataclasses.replace(larger, start=str(first), start_step=phase)
        trained += [(larger, 2), (finetuned, 1)]
    return all(
        _has_step(run_path(item, design.runs, 0, every=phase), count * phase)
        for item, count in trained
    )


RESULTS = {
    "analysis.paper ablation": _ablations_exist,
    "analysis.paper transfer": _transfers_exist,
}
"""Whether all runs exist from which another command computes its result."""

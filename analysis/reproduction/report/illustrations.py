"""The papers' figures for the report, drawn of runs that are there already: none is made for a picture."""

import contextlib
import dataclasses
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import xarray as xr
from tqdm import tqdm

from analysis.clustering_heads.transfer_design import TransferDesign, check_transfer_design, larger_vocabulary_settings
from analysis.reproduction.figures.ensembles import ablation_designs, transfer_design
from analysis.reproduction.figures.figure import PaperFigure, RequiredResult, paper_figure_caption, paper_figure_title
from analysis.reproduction.figures.figure_runs import load_figure_runs
from analysis.reproduction.figures.framing import save_small_png
from analysis.reproduction.figures.register import get_paper_figure
from analysis.reproduction.report.entry import ReportPicture
from analysis.reproduction.verification.experiment import Experiment, Size
from analysis.reproduction.verification.required_runs import SizeOverrides
from analysis.reproduction.verification.results import ClaimResult
from analysis.transitions.ablations import merge_ablation_sweeps
from dynamics.errors import TrajectoryError
from dynamics.run_checks import run_path
from dynamics.settings import SettingsError, SparseSettings
from dynamics.trajectory.netcdf import NETCDF_LOCK

DEAR = ("vc1", "vc2", "vc3", "vc4", "vc10", "vc11", "vc20")
"""Figures that take ten seconds or more each, which a quick report does without."""


def draw_available_figures(
    every: Sequence[ClaimResult], size: Size, studies: Mapping[str, Experiment], folder: Path
) -> dict[str, ReportPicture]:
    """Draw each figure that a claim names and whose runs are there; what it shows and which claim names it first."""
    homes: dict[str, str] = {}
    for one in every:
        if one.claim.figure and not (size is Size.QUICK and one.claim.figure in DEAR):
            homes.setdefault(one.claim.figure, one.claim.name)
    tried = _candidate_sizes(studies, size)
    drawn = {}
    for name, home in tqdm(homes.items(), desc="figures", unit="", leave=False, disable=None, file=sys.stderr):
        chosen = get_paper_figure(name)
        told = _draw(chosen, tried, folder / f"{name}.png")
        if told:
            drawn[name] = ReportPicture(f"{chosen.source}: {chosen.shows}", told, home)
    return drawn


def _candidate_sizes(studies: Mapping[str, Experiment], size: Size) -> list[SizeOverrides]:
    """Sizes at which a figure's runs may be there: its own, and those of the studies."""
    found = set()
    for study in studies.values():
        if size in study.sizes:
            params = study.sizes[size]
            found |= {(need.runs, need.epochs) for need in study.ensembles(params)}
            if isinstance(params.get("runs"), int):
                found.add((params["runs"], params.get("epochs")))
    return [
        SizeOverrides(),
        *(SizeOverrides(*each) for each in sorted(found, key=lambda each: (each[0], each[1] or 0))),
    ]


def _draw(chosen: PaperFigure, tried: Sequence[SizeOverrides], path: Path) -> str:
    """Draw a figure at the first size of which it can be; its caption, or none where it cannot be drawn."""
    for sizes in tried:
        if not _runs_exist(chosen, sizes):
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # which runs were found is told by `analysis.paper`
                material = load_figure_runs(chosen, (), sizes, None)
                drawn = chosen.draw(material._replace(small=True))
        except (TrajectoryError, SettingsError):  # too few, or too short, to show what it is to show
            continue
        save_small_png(drawn.figure, path)
        return f"{paper_figure_title(chosen, drawn)}. {paper_figure_caption(drawn)}"
    return ""


# ---------------------------------------------------------------------------------- which runs are there


def _runs_exist(chosen: PaperFigure, sizes: SizeOverrides) -> bool:
    """Whether all runs of a figure at a size are there, so that drawing it makes none."""
    before: tuple[Path, int] | None = None
    for need in chosen.needs:
        if isinstance(need, RequiredResult):
            if not RESULTS[need.command](sizes):
                return False
            continue
        settings, steps = need.settings, need.steps(sizes)
        if need.follows and before and isinstance(settings, SparseSettings):
            settings = dataclasses.replace(settings, start=str(before[0]), start_step=before[1])
        runs = need.runs if sizes.runs is None else sizes.runs
        path = run_path(settings, runs, 0, every=need.frame_gap(sizes))
        if not _reaches_step(path, steps):
            return False
        before = path, steps
    return True


def _reaches_step(path: Path, steps: int) -> bool:
    """Whether a trajectory is there with a frame at a step."""
    if not path.is_file():
        return False
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as found:
            return steps in found["step"].values
    except (OSError, ValueError, KeyError):
        return False


def _ablations(sizes: SizeOverrides) -> bool:
    points = merge_ablation_sweeps(ablation_designs(sizes).values()).points
    return all(_reaches_step(point.path, point.steps) for point in points)


def _transfers(sizes: SizeOverrides) -> bool:
    design = transfer_design(sizes)
    first = _transferred(design.source, design, 2)
    if first is None:
        return False
    begun = design.epochs * design.source.epoch_steps
    for vocab in check_transfer_design(design):
        wider = larger_vocabulary_settings(design.source, vocab)
        finetuning = dataclasses.replace(wider, start=str(first), start_step=begun)
        if _transferred(wider, design, 2) is None or _transferred(finetuning, design, 1) is None:
            return False
    return True


def _transferred(settings: SparseSettings, design: TransferDesign, times: int) -> Path | None:
    """The file of an ensemble of the transfer that is there, trained so many times its epochs."""
    every = design.epochs * settings.epoch_steps
    path = run_path(settings, design.runs, 0, every=every)
    return path if _reaches_step(path, times * every) else None


RESULTS = {"analysis.ablation": _ablations, "analysis.transfer": _transfers}
"""Whether what another command works out needs no run to be made."""

"""The papers' figures for the report, drawn of runs that are there already: none is made for a picture."""

import contextlib
import dataclasses
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import xarray as xr
from tqdm import tqdm

from analysis import ablation, transfer
from analysis.paper import caption, title
from analysis.reproduction.figures.ensembles import ABLATION_POINTS, ABLATION_RUNS, ABLATION_WIDTH
from analysis.reproduction.figures.figure import Plate, Result, Sizes
from analysis.reproduction.figures.figure_runs import gathered
from analysis.reproduction.figures.framing import save_small
from analysis.reproduction.figures.register import plate
from analysis.reproduction.verification.claim_results import Judged
from analysis.reproduction.verification.entry import Drawn
from analysis.reproduction.verification.experiment import Size, Study
from dynamics.settings import SettingsError, SparseSettings
from dynamics.simulation import run_path
from dynamics.trajectory.netcdf import LOCK, TrajectoryError

DEAR = ("vc1", "vc2", "vc3", "vc4", "vc10", "vc11", "vc20")
"""Plates that take ten seconds or more each, which a quick report does without."""


def draw(every: Sequence[Judged], size: Size, studies: Mapping[str, Study], folder: Path) -> dict[str, Drawn]:
    """Draw each plate that a claim names and whose runs are there; what it shows and which claim names it first."""
    homes: dict[str, str] = {}
    for one in every:
        if one.claim.figure and not (size is Size.QUICK and one.claim.figure in DEAR):
            homes.setdefault(one.claim.figure, one.claim.name)
    tried = candidates(studies, size)
    drawn = {}
    for name, home in tqdm(homes.items(), desc="figures", unit="", leave=False, disable=None, file=sys.stderr):
        chosen = plate(name)
        told = _draw(chosen, tried, folder / f"{name}.png")
        if told:
            drawn[name] = Drawn(f"{chosen.source}: {chosen.shows}", told, home)
    return drawn


def candidates(studies: Mapping[str, Study], size: Size) -> list[Sizes]:
    """Sizes at which a plate's runs may be there: its own, and those of the studies."""
    found = set()
    for study in studies.values():
        if size in study.sizes:
            params = study.sizes[size]
            found |= {(need.runs, need.epochs) for need in study.ensembles(params)}
            if isinstance(params.get("runs"), int):
                found.add((params["runs"], params.get("epochs")))
    return [Sizes(), *(Sizes(*each) for each in sorted(found, key=lambda each: (each[0], each[1] or 0)))]


def _draw(chosen: Plate, tried: Sequence[Sizes], path: Path) -> str:
    """Draw a plate at the first size of which it can be; its caption, or none where it cannot be drawn."""
    for sizes in tried:
        if not there(chosen, sizes):
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # which runs were found is told by `analysis.paper`
                material = gathered(chosen, (), sizes, None)
                drawn = chosen.draw(material._replace(small=True))
        except (TrajectoryError, SettingsError):  # too few, or too short, to show what it is to show
            continue
        save_small(drawn.figure, path)
        return f"{title(chosen, drawn)}. {caption(drawn)}"
    return ""


# ---------------------------------------------------------------------------------- which runs are there


def there(chosen: Plate, sizes: Sizes) -> bool:
    """Whether all runs of a plate at a size are there, so that drawing it makes none."""
    before: tuple[Path, int] | None = None
    for need in chosen.needs:
        if isinstance(need, Result):
            if not RESULTS[need.command](sizes):
                return False
            continue
        settings, steps = need.settings, need.steps(sizes)
        if need.follows and before and isinstance(settings, SparseSettings):
            settings = dataclasses.replace(settings, start=str(before[0]), start_step=before[1])
        runs = need.runs if sizes.runs is None else sizes.runs
        path = run_path(settings, runs, 0, every=need.frame_gap(sizes))
        if not reaches(path, steps):
            return False
        before = path, steps
    return True


def reaches(path: Path, steps: int) -> bool:
    """Whether a trajectory is there with a frame at a step."""
    if not path.is_file():
        return False
    try:
        with LOCK, xr.open_dataset(path, engine="netcdf4") as found:
            return steps in found["step"].values
    except (OSError, ValueError, KeyError):
        return False


def _ablations(sizes: Sizes) -> bool:
    options = ablation.Options(
        runs=ABLATION_RUNS if sizes.runs is None else sizes.runs,
        points=ABLATION_POINTS,
        max_hidden=ABLATION_WIDTH,
        epochs=1000 if sizes.epochs is None else sizes.epochs,
    )
    return all(reaches(point.path, point.steps) for grid in ablation.planned(options).values() for point in grid.points)


def _transfers(sizes: Sizes) -> bool:
    usual = transfer.Options()
    options = transfer.Options(runs=sizes.runs or usual.runs, epochs=sizes.epochs or usual.epochs)
    source, vocabs = transfer.checked(options)
    first = _transferred(source, options, 2)
    if first is None:
        return False
    begun = options.epochs * source.epoch_steps
    for vocab in vocabs:
        wider = transfer.target(source, vocab)
        finetuning = dataclasses.replace(wider, start=str(first), start_step=begun)
        if _transferred(wider, options, 2) is None or _transferred(finetuning, options, 1) is None:
            return False
    return True


def _transferred(settings: SparseSettings, options: transfer.Options, times: int) -> Path | None:
    """The file of an ensemble of the transfer that is there, trained so many times its epochs."""
    every = options.epochs * settings.epoch_steps
    path = run_path(settings, options.runs, 0, every=every)
    return path if reaches(path, times * every) else None


RESULTS = {"analysis.ablation": _ablations, "analysis.transfer": _transfers}
"""Whether what another command works out needs no run to be made."""

"""The experiments to do before claims can be judged, and estimates of how long they take."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import pandas as pd

from analysis.output.tables import format_table
from analysis.reproduction.verification.evidence import evidence_path
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.formatting import format_duration
from analysis.reproduction.verification.required_runs import RequiredRuns, SizeOverrides
from analysis.transitions.ablations import step_cost
from dynamics.settings import ModularSettings, ParticleSettings, SparseSettings
from dynamics.sweeps.design import SweepDesign, sweep_design
from dynamics.sweeps.run import compute_missing_points

RATES = {ParticleSettings.system: 200_000.0, ModularSettings.system: 100_000.0, SparseSettings.system: 2_800.0}
"""Runs times steps or epochs that two cores do in a second, in the default settings, recording included."""


UNSCORED = 0.6
"""Share of its time that a training takes of which the first and the last frame alone are scored."""


class ScheduledExperiment(NamedTuple):
    """A experiment that is to be done, or has been."""

    experiment: Experiment
    params: Params
    path: Path
    """Of its evidence"""
    seconds: float
    """How long it takes, about; 0 where the evidence is there"""


def schedule_experiments(experiments: Sequence[Experiment], size: Size, runner: Runner) -> list[ScheduledExperiment]:
    """The experiments that are done at a size, in their order. What several need is counted with the first."""
    steps, counted = [], set[Path]()
    for experiment in experiments:
        if size not in experiment.sizes:
            continue
        params = experiment.sizes[size]
        path, seconds = evidence_path(experiment, params, runner), 0.0
        if not path.exists():
            needs = {runner.path(need): need for need in experiment.ensembles(params)}
            missing = [need for there, need in needs.items() if there not in counted and not there.exists()]
            seconds = experiment.seconds[size] + sum(map(ensemble_seconds, missing))
            counted |= set(needs)
        steps.append(ScheduledExperiment(experiment, params, path, seconds))
    return steps


def ensemble_seconds(need: RequiredRuns) -> float:
    """Seconds that an ensemble takes to make, about, on two cores."""
    settings, steps = need.settings, need.steps(SizeOverrides())
    cost = need.runs * steps / (settings.epoch_steps or 1) * max(1.0, getattr(settings, "dim", 2) / 4)
    if isinstance(settings, SparseSettings):
        usual = SparseSettings()
        cost *= settings.epoch_steps * step_cost(settings) / (usual.epoch_steps * step_cost(usual))
        if need.frame_gap(SizeOverrides()) == steps:
            cost *= UNSCORED
    if isinstance(settings, ParticleSettings):
        cost *= (settings.n / 17) ** 4
    return 1.0 + cost / RATES.get(settings.system, 1_000.0)


def print_plan(steps: Sequence[ScheduledExperiment], size: Size, whole: bool, stream: TextIO) -> None:
    """Print how many experiments are to be done and how long that takes; as a whole, or if any is, also which."""
    missing = [step for step in steps if step.seconds]
    if not steps:
        print(f"{size} size: nothing to measure for these claims", file=stream)
        return
    if missing or whole:
        rows = [(step.experiment.name, format_duration(step.seconds) if step.seconds else "there", step.experiment.what)
                for step in steps]  # fmt: skip
        print(format_table(pd.DataFrame(rows, columns=["experiment", "takes", "what is measured"])), file=stream)
    seconds = sum(step.seconds for step in missing)
    takes = f"about {format_duration(seconds)} on two cores" if missing else "all is there"
    print(f"\n{size} size: {len(missing)} of {len(steps)} experiments to do, {takes}", file=stream, flush=True)


def precompute_ensembles(steps: Sequence[ScheduledExperiment], runner: Runner) -> None:
    """Compute the ensembles that experiments need on the workers of a cluster, all at once, before any is measured.

    Raises as `dynamics.sweeps.run.compute_missing_points` does.
    """
    if runner.scheduler is None:
        return
    needs = {
        runner.path(need): need for step in steps if step.seconds for need in step.experiment.ensembles(step.params)
    }
    for alike in sorted({(need.runs, need.record) for need in needs.values()}):
        group = [need for need in needs.values() if (need.runs, need.record) == alike]
        compute_missing_points(_together(group, runner.device), runner.scheduler)


def _together(needs: Sequence[RequiredRuns], device: str) -> SweepDesign:
    """Ensembles of as many runs each, recorded alike, as the points of one grid."""
    grids = []
    for need in needs:
        one = need.settings.epoch_steps
        length, every = need.steps(SizeOverrides()) // (one or 1), need.frame_gap(SizeOverrides()) // (one or 1)
        steps, epochs = (None, length) if one else (length, None)
        grids.append(sweep_design(need.settings, {}, need.runs, 0, steps, epochs, every, need.record, device))
    first, points = needs[0], [point for each in grids for point in each.points]
    return SweepDesign(first.settings, {}, points, first.runs, 0, first.record)

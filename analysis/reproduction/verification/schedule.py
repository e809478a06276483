"""The experiments that claims need: estimates of their run times, and their evidence,
read or measured."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import pandas as pd
import xarray as xr

from analysis.output.tables import format_table
from analysis.reproduction.verification import evidence
from analysis.reproduction.verification.claim import Claim
from analysis.reproduction.verification.experiment import (
    Experiment,
    Params,
    Runner,
    Size,
)
from analysis.reproduction.verification.formatting import format_duration
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.results import judge_claim
from analysis.reproduction.verification.verdict_table import format_verdict
from analysis.transitions.ablations import step_cost
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    TransformerSettings,
)
from dynamics.sweeps.design import SweepDesign, sweep_design
from dynamics.sweeps.run import compute_missing_points

RATES = {
    ParticleSettings.system: 200_000.0,
    ModularSettings.system: 100_000.0,
    SparseSettings.system: 2_800.0,
    TransformerSettings.system: 1_800.0,
}
"""Runs times steps or epochs per second on two cores with the default settings,
including recording."""


UNSCORED = 0.6
"""Fraction of the usual time that a training takes if only its first and last frame are
scored."""


class ScheduledExperiment(NamedTuple):
    """An experiment with its size and its evidence."""

    experiment: Experiment
    params: Params
    path: Path
    """File of its evidence"""
    seconds: float
    """Estimated time; 0 if the evidence exists"""


def schedule_experiments(
    experiments: Sequence[Experiment], size: Size, runner: Runner
) -> list[ScheduledExperiment]:
    """The experiments of a size, in their order. The time of an ensemble that several
    need is counted once."""
    steps, counted = [], set[Path]()
    for experiment in experiments:
        sizing = experiment.at(size)
        if sizing is None:
            continue
        params = sizing.params
        path, seconds = evidence.evidence_path(experiment, params, runner), 0.0
        if not path.exists():
            needs = {runner.path(need): need for need in experiment.ensembles(params)}
            missing = [
                need
                for there, need in needs.items()
                if there not in counted and not there.exists()
            ]
            seconds = sizing.seconds + sum(map(ensemble_seconds, missing))
            counted |= set(needs)
        steps.append(ScheduledExperiment(experiment, params, path, seconds))
    return steps


def ensemble_seconds(need: RequiredRuns) -> float:
    """Estimated time to compute an ensemble on two cores, in seconds."""
    settings, steps = need.settings, need.steps
    cost = (
        need.runs
        * steps
        / (settings.epoch_steps or 1)
        * max(1.0, getattr(settings, "dim", 2) / 4)
    )
    if isinstance(settings, SparseSettings):
        usual = SparseSettings()
        cost *= (
            settings.epoch_steps
            * step_cost(settings)
            / (usual.epoch_steps * step_cost(usual))
        )
        if need.frame_gap == steps:
            cost *= UNSCORED
    if isinstance(settings, ParticleSettings):
        cost *= (settings.n / 17) ** 4
    if isinstance(settings, TransformerSettings):
        cost *= settings.train_pairs / TransformerSettings().train_pairs
    return 1.0 + cost / RATES.get(settings.system, 1_000.0)


def print_plan(
    steps: Sequence[ScheduledExperiment], size: Size, whole: bool, stream: TextIO
) -> None:
    """Print how many experiments are missing and their time; if some are, or with
    `whole`, also a table."""
    missing = [step for step in steps if step.seconds]
    if not steps:
        print(f"{size} size: no experiment is needed for these claims", file=stream)
        return
    if missing or whole:
        times = [
            format_duration(step.seconds) if step.seconds else "exists"
            for step in steps
        ]
        rows = [
            (step.experiment.name, time, step.experiment.what)
            for step, time in zip(steps, times, strict=True)
        ]
        print(
            format_table(
                pd.DataFrame(rows, columns=["experiment", "takes", "what is measured"])
            ),
            file=stream,
        )
    seconds = sum(step.seconds for step in missing)
    takes = (
        f"about {format_duration(seconds)} on two cores"
        if missing
        else "all evidence exists"
    )
    print(
        f"\n{size} size: {len(missing)} of {len(steps)} experiments to do, {takes}",
        file=stream,
        flush=True,
    )


def precompute_ensembles(steps: Sequence[ScheduledExperiment], runner: Runner) -> None:
    """Compute all ensembles that experiments need on the workers of a cluster, before
    the measurements.

    Raises as `dynamics.sweeps.run.compute_missing_points` does.
    """
    if runner.scheduler is None:
        return
    needs = {
        runner.path(need): need
        for step in steps
        if step.seconds
        for need in step.experiment.ensembles(step.params)
    }
    for alike in sorted({(need.runs, need.record) for need in needs.values()}):
        group = [need for need in needs.values() if (need.runs, need.record) == alike]
        compute_missing_points(_together(group, runner.device), runner.scheduler)


def _together(needs: Sequence[RequiredRuns], device: str) -> SweepDesign:
    """Ensembles with the same number of runs and the same recording, as the points of
    one sweep."""
    grids = []
    for need in needs:
        one = need.settings.epoch_steps
        length, every = need.steps // (one or 1), need.frame_gap // (one or 1)
        steps, epochs = (None, length) if one else (length, None)
        grids.append(
            sweep_design(
                need.settings,
                {},
                need.runs,
                0,
                steps,
                epochs,
                every,
                need.record,
                device,
            )
        )
    first, points = needs[0], [point for grid in grids for point in grid.points]
    return SweepDesign(first.settings, {}, points, first.runs, 0, first.record)


def gather_evidence(
    steps: Sequence[ScheduledExperiment],
    runner: Runner,
    claims: Sequence[Claim],
    size: Size,
) -> dict[str, xr.Dataset]:
    """The evidence of each experiment, by its name. Missing evidence is measured;
    progress goes to `runner.say`."""
    result: dict[str, xr.Dataset] = {}
    left, spent, planned = sum(step.seconds for step in steps), 0.0, 0.0
    for number, step in enumerate(steps, 1):
        known = evidence.load_evidence(step.experiment, step.params, runner)
        if known is None:
            pace = spent / planned if planned > 60 else 1.0
            print(
                f"\n[{number}/{len(steps)}] {step.experiment.name}: {step.experiment.what}; "
                f"about {format_duration(pace * step.seconds)}, of {format_duration(pace * left)} left",
                file=runner.say,
                flush=True,
            )
            begin = time.perf_counter()
            known = evidence.measure_evidence(step.experiment, step.params, runner)
            spent, planned, left = (
                spent + time.perf_counter() - begin,
                planned + step.seconds,
                left - step.seconds,
            )
            for claim in (
                item for item in claims if item.experiment == step.experiment.name
            ):
                print(
                    format_verdict(judge_claim(claim, known, size)),
                    file=runner.say,
                    flush=True,
                )
        result[step.experiment.name] = known
    return result

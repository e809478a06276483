"""Evidence: the measurements of an experiment, in a small NetCDF file whose name has a
hash of all settings; what is missing of it, for how long, and its measurement."""

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd
import xarray as xr

from analysis.output.results import write_result
from analysis.output.tables import format_table
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Size,
    Sizing,
)
from analysis.transitions.ablations import step_cost
from dynamics.ensemble import create_system
from dynamics.errors import MissingPackage, TrajectoryError
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    Settings,
    SparseSettings,
    TransformerSettings,
    saved_settings,
)
from dynamics.sweeps.design import SweepDesign, sweep_design
from dynamics.sweeps.run import compute_missing_points
from dynamics.system import SYSTEM_KINDS, resolve_device
from dynamics.trajectory.description import git_commit, package_versions
from dynamics.trajectory.netcdf import NETCDF_LOCK, READ_ERRORS

PAPER_SETTINGS = {
    item.system: item for item in (ParticleSettings, ModularSettings, SparseSettings)
}
"""Settings of the papers' systems."""
RATES = {
    "particles": 200_000,
    "modular": 100_000,
    "sparse": 2_800,
    "transformer": 1_800,
}
"""Runs times steps or epochs per second on two cores with the default settings,
including recording."""
UNSCORED = 0.6
"""Fraction of the usual time that a training takes if only its first and last frame are
scored."""


def check_torch() -> None:
    """Check that torch is installed, which experiments on networks need. Raises
    MissingPackage."""
    if find_spec("torch") is None:
        raise MissingPackage(
            "claims of networks need torch, which comes with: pip install"
            " 'training-dynamics[train]'"
        )


# ---------------------------------------------------------------------------- the files


def evidence_path(experiment: Experiment, params: Params, runner: Runner) -> Path:
    """The file of the evidence of an experiment: EXPERIMENT-HASH.nc in the folder of
    the runner. The hash is over the experiment's name and version, its sizes, the names
    of its ensembles, and the numerics versions and defaults of the systems from which
    it makes runs of its own. It does not depend on the device: measurements on a GPU
    serve on a CPU."""
    runner = dataclasses.replace(runner, device="cpu")
    systems = {}
    for name, settings in PAPER_SETTINGS.items():
        system = create_system(settings(), runner.device)
        systems[name] = [system.numerics_version, system.device, system.settings]
    identity = [
        experiment.name,
        experiment.version,
        dict(params),
        dict(experiment.depends),
        [runner.path(need).stem for need in experiment.ensembles(params)],
        systems,
    ]
    content = json.dumps(identity, sort_keys=True, default=_settings_with_values)
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return runner.evidence / f"{experiment.name}-{digest}.nc"


def _settings_with_values(settings: Settings) -> dict[str, Any]:
    """The settings as files contain them, without settings that are None. So a setting
    that is added later does not change names of evidence."""
    of_sums = ("method", "accuracy")  # are in the first names of evidence
    values = saved_settings(settings)
    values |= {
        name: getattr(settings, name) for name in of_sums if name in vars(settings)
    }
    return {name: value for name, value in values.items() if value is not None}


def load_evidence(path: Path) -> xr.Dataset | None:
    """Evidence, or None if the file does not exist. Raises TrajectoryError for a file
    that cannot be read."""
    if not path.exists():
        return None
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as evidence:
            return evidence.load()
    except READ_ERRORS as error:
        raise TrajectoryError(
            f"{path}: damaged ({error}); if it is deleted, it is measured again"
        ) from None


def measure_evidence(
    experiment: Experiment, params: Params, runner: Runner, path: Path
) -> xr.Dataset:
    """Run an experiment and write its evidence. Raises as `simulate` and the experiment
    do, and RecordingError."""
    begin = time.perf_counter()
    evidence = experiment.measure(runner, params)
    evidence.attrs.update(
        title=f"Evidence of the experiment {experiment.name}: {experiment.what}",
        experiment=experiment.name,
        experiment_version=experiment.version,
        params_json=json.dumps(dict(params), sort_keys=True),
        seconds=time.perf_counter() - begin,
        **measurement_provenance(runner.device),
        comment="NaN marks missing values. The claims are in analysis.reproduction.",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_result(evidence, path)
    return evidence


def measurement_provenance(device: str) -> dict[str, Any]:
    """Date, versions and device of a measurement made now."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": git_commit(),
        "package_versions": json.dumps(package_versions()),
        "device": resolve_device(device, SYSTEM_KINDS["sparse"]),
        "cores": len(affinity(0)) if affinity else os.cpu_count() or 1,
    }


# ----------------------------------------------------------------------------- the plan


class ScheduledExperiment(NamedTuple):
    """An experiment with its size and its evidence."""

    experiment: Experiment
    sizing: Sizing
    path: Path
    """File of its evidence"""
    seconds: float
    """Estimated time; 0 if the evidence exists"""

    @property
    def params(self) -> Params:
        """The sizes of the experiment."""
        return self.sizing.params


def schedule_experiments(
    experiments: Sequence[Experiment], size: Size, runner: Runner
) -> list[ScheduledExperiment]:
    """The experiments of a size, in their order. Where evidence of the full size
    exists, it replaces the default size. The time of an ensemble that several need is
    counted once."""
    steps = []
    counted = set[Path]()
    for experiment in experiments:
        sizing = experiment.at(size)
        if size is Size.DEFAULT and experiment.full is not None:
            full = evidence_path(experiment, experiment.full.params, runner)
            sizing = experiment.full if full.exists() else sizing
        if sizing is None:
            continue
        path = evidence_path(experiment, sizing.params, runner)
        seconds = 0.0
        if not path.exists():
            seconds = sizing.seconds
            for need in experiment.ensembles(sizing.params):
                file = runner.path(need)
                if file not in counted and not file.exists():
                    seconds += ensemble_seconds(need)
                counted.add(file)
        steps.append(ScheduledExperiment(experiment, sizing, path, seconds))
    return steps


def ensemble_seconds(need: RequiredRuns) -> float:
    """Estimated time to compute an ensemble on two cores, in seconds."""
    settings = need.settings
    work = max(1.0, getattr(settings, "dim", 2) / 4)
    match settings:
        case ParticleSettings():
            work *= (settings.n / 17) ** 4
        case SparseSettings():
            usual = SparseSettings()
            work *= settings.epoch_steps / usual.epoch_steps
            work *= step_cost(settings) / step_cost(usual)
            work *= UNSCORED if need.frame_gap == need.steps else 1
        case TransformerSettings():
            work *= settings.train_pairs / TransformerSettings().train_pairs
    epochs = need.steps / (settings.epoch_steps or 1)
    return 1 + need.runs * epochs * work / RATES[settings.system]


def format_duration(seconds: float) -> str:
    """A duration in seconds, or in hours and minutes."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def print_plan(
    steps: Sequence[ScheduledExperiment], size: Size, whole: bool, stream: TextIO
) -> None:
    """Print how many experiments are missing and their time; if some are, or with
    `whole`, also a table."""
    if not steps:
        print(f"{size} size: no experiment is needed for these claims", file=stream)
        return
    missing = [step.seconds for step in steps if step.seconds]
    if missing or whole:
        table = pd.DataFrame(
            {
                "experiment": step.experiment.name,
                "takes": format_duration(step.seconds) if step.seconds else "exists",
                "what is measured": step.experiment.what,
            }
            for step in steps
        )
        print(format_table(table), file=stream)
    takes = "all evidence exists"
    if missing:
        takes = f"about {format_duration(sum(missing))} on two cores"
    count = f"{len(missing)} of {len(steps)} experiments to do"
    print(f"\n{size} size: {count}, {takes}", file=stream, flush=True)


# -------------------------------------------------------------------------- measurement


def precompute_ensembles(steps: Sequence[ScheduledExperiment], runner: Runner) -> None:
    """Compute all ensembles that experiments need on the workers of a cluster, before
    the measurements; those with the same number of runs and the same recording are the
    points of one sweep.

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
    designs: dict[tuple, SweepDesign] = {}
    for need in sorted(needs.values(), key=lambda need: (need.runs, need.record)):
        epoch = need.settings.epoch_steps
        length = need.steps // (epoch or 1)
        every = need.frame_gap // (epoch or 1)
        design = sweep_design(
            need.settings,
            {},
            need.runs,
            0,
            None if epoch else length,
            length if epoch else None,
            every,
            need.record,
            runner.device,
        )
        first = designs.setdefault((need.runs, need.record), design)
        if first is not design:
            first.points.extend(design.points)
    for design in designs.values():
        compute_missing_points(design, runner.scheduler)


def gather_evidence(
    steps: Sequence[ScheduledExperiment], runner: Runner
) -> dict[str, xr.Dataset]:
    """The evidence of each experiment, by its name. Missing evidence is measured;
    progress goes to `runner.say`."""
    result: dict[str, xr.Dataset] = {}
    left = sum(step.seconds for step in steps)
    spent = 0.0
    planned = 0.0
    for number, (experiment, sizing, path, seconds) in enumerate(steps, 1):
        evidence = load_evidence(path)
        if evidence is None:
            pace = spent / planned if planned > 60 else 1.0
            print(
                f"\n[{number}/{len(steps)}] {experiment.name}: {experiment.what}; about"
                f" {format_duration(pace * seconds)}, of {format_duration(pace * left)}"
                " left",
                file=runner.say,
                flush=True,
            )
            begin = time.perf_counter()
            evidence = measure_evidence(experiment, sizing.params, runner, path)
            spent += time.perf_counter() - begin
            planned += seconds
            left -= seconds
        result[experiment.name] = evidence
    return result

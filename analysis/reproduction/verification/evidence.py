"""Evidence: the measurements of an experiment, in a small NetCDF file whose name has a
hash of all settings."""

import dataclasses
import hashlib
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xarray as xr

from analysis.output.results import write_result
from analysis.reproduction.verification.experiment import Experiment, Params, Runner
from dynamics.errors import TrajectoryError
from dynamics.provenance import git_commit, package_versions
from dynamics.run_checks import RUNS_FOLDER
from dynamics.settings import ModularSettings, ParticleSettings, SparseSettings
from dynamics.system_creation import create_system
from dynamics.trajectory.netcdf import NETCDF_LOCK

EVIDENCE_FOLDER = RUNS_FOLDER / "verify"
PAPER_SETTINGS = {
    item.system: item for item in (ParticleSettings, ModularSettings, SparseSettings)
}
"""Settings of the papers' systems."""


def evidence_path(experiment: Experiment, params: Params, runner: Runner) -> Path:
    """The file of the evidence of an experiment: runs/verify/EXPERIMENT-HASH.nc."""
    return (
        EVIDENCE_FOLDER / f"{experiment.name}-{_digest(experiment, params, runner)}.nc"
    )


def load_evidence(
    experiment: Experiment, params: Params, runner: Runner
) -> xr.Dataset | None:
    """The evidence of an experiment, or None. Raises TrajectoryError for a file that
    cannot be read."""
    path = evidence_path(experiment, params, runner)
    if not path.exists():
        return None
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as evidence:
            return evidence.load()
    except (OSError, ValueError) as error:
        raise TrajectoryError(
            f"{path}: damaged ({error}); if it is deleted, it is measured again"
        ) from None


def measure_evidence(
    experiment: Experiment, params: Params, runner: Runner
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
        comment=(
            "NaN marks missing values. The claims are in"
            " analysis.reproduction.registry."
        ),
    )
    EVIDENCE_FOLDER.mkdir(parents=True, exist_ok=True)
    write_result(evidence, evidence_path(experiment, params, runner))
    return evidence


def measurement_provenance(device: str) -> dict[str, Any]:
    """Date, versions and device of a measurement made now."""
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": git_commit(),
        "package_versions": json.dumps(package_versions()),
        "device": create_system(SparseSettings(), device).device,
        "cores": (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        ),
    }


def _system_settings(device: str) -> dict[str, Any]:
    """Numerics version, device and default settings of each system, from which
    experiments make their own runs."""
    made = {
        name: create_system(settings(), device)
        for name, settings in PAPER_SETTINGS.items()
    }
    return {
        name: [one.numerics_version, one.device, dataclasses.asdict(one.settings)]
        for name, one in made.items()
    }


def _digest(experiment: Experiment, params: Params, runner: Runner) -> str:
    """Hash of the experiment, its sizes, the names of its ensembles, and the defaults
    of the systems."""
    names = [runner.path(need).stem for need in experiment.ensembles(params)]
    settings = _system_settings(runner.device)
    whole = [
        experiment.name,
        experiment.version,
        dict(params),
        dict(experiment.depends),
        names,
        settings,
    ]
    content = json.dumps(whole, sort_keys=True, default=dataclasses.asdict)
    return hashlib.sha256(content.encode()).hexdigest()[:12]

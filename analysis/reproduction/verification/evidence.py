"""Evidence: what a study has measured, as a small NetCDF file under a name made of all that its numbers depend on."""

import dataclasses
import hashlib
import inspect
import json
import os
import sys
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
from dynamics.system_checks import create_system
from dynamics.trajectory.netcdf import NETCDF_LOCK

EVIDENCE_FOLDER = RUNS_FOLDER / "verify"
PAPER_SETTINGS = {each.system: each for each in (ParticleSettings, ModularSettings, SparseSettings)}
"""Settings of the papers' systems."""


def evidence_path(study: Experiment, params: Params, runner: Runner) -> Path:
    """Where the evidence of a study lies: runs/verify/STUDY-HASH.nc."""
    return EVIDENCE_FOLDER / f"{study.name}-{_digest(study, params, runner)}.nc"


def load_evidence(study: Experiment, params: Params, runner: Runner) -> xr.Dataset | None:
    """The evidence of a study, where it is there. Raises TrajectoryError for a file that cannot be read."""
    path = evidence_path(study, params, runner)
    if not path.exists():
        return None
    try:
        with NETCDF_LOCK, xr.open_dataset(path, engine="netcdf4") as there:
            return there.load()
    except (OSError, ValueError) as error:
        raise TrajectoryError(f"{path}: damaged ({error}); without it, it is measured again") from None


def measure_evidence(study: Experiment, params: Params, runner: Runner) -> xr.Dataset:
    """Do a study, and keep its evidence. Raises as `simulate` and the study do, and RecordingError."""
    begin = time.perf_counter()
    evidence = study.measure(runner, params)
    evidence.attrs.update(
        title=f"Evidence of the study {study.name}: {study.what}",
        study=study.name,
        study_version=study.version,
        params_json=json.dumps(dict(params), sort_keys=True),
        seconds=time.perf_counter() - begin,
        source=measurement_source_hash(study),
        **measurement_provenance(runner.device),
        comment="By run where there are runs. NaN is no value. What claims say of it is in "
        "analysis.reproduction.claims.registry.",
    )
    EVIDENCE_FOLDER.mkdir(parents=True, exist_ok=True)
    write_result(evidence, evidence_path(study, params, runner))
    return evidence


def measurement_source_hash(study: Experiment) -> str:
    """Twelve hexadecimal digits over the module that measures a study."""
    module = sys.modules[study.measure.__module__]
    return hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:12]


def measurement_provenance(device: str) -> dict[str, Any]:
    """When, and by what, something is measured now."""
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": git_commit(),
        "package_versions": json.dumps(package_versions()),
        "device": create_system(SparseSettings(), device).device,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    }


def _system_settings(device: str) -> dict[str, Any]:
    """How each system computes, and its default settings, which what a study makes itself begins from."""
    made = {name: create_system(settings(), device) for name, settings in PAPER_SETTINGS.items()}
    return {name: [one.numerics_version, one.device, dataclasses.asdict(one.settings)] for name, one in made.items()}


def _digest(study: Experiment, params: Params, runner: Runner) -> str:
    """Over the study, its sizes, the names of the ensembles that it needs, and how systems compute by default."""
    names = [runner.path(need).stem for need in study.ensembles(params)]
    whole = [study.name, study.version, dict(params), dict(study.depends), names, _system_settings(runner.device)]
    content = json.dumps(whole, sort_keys=True, default=dataclasses.asdict)
    return hashlib.sha256(content.encode()).hexdigest()[:12]

"""The ensemble of a command: simulated, branched off another one, or read from disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

import xarray as xr

from dynamics import cost_model
from dynamics.branching import branch, branch_path, branch_step
from dynamics.ensemble import Ensemble
from dynamics.provenance import FIRST_BACKEND
from dynamics.settings import ModularSettings, Settings, SettingsError, check_integer
from dynamics.trajectory.diverged import count_diverged
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.schema import read_settings
from sims.command_line.ensemble_options import EnsembleOptions, OriginOptions

Options = TypeVar("Options")
_Simulation = Callable[[], xr.Dataset]


def run_ensemble(
    settings: Settings,
    duration: int | None,
    ensemble: EnsembleOptions,
    origin: OriginOptions,
    log: TextIO,
    unit: str = "steps",
) -> tuple[Path, xr.Dataset]:
    """Compute the ensemble or read it from disk, print which to `log`, and return its
    file and its trajectory.

    duration: number of steps, or of epochs if `unit` is "epochs"; None is the system's
    default. Raises the errors of `simulate`, with the unit as the name of the field.
    """
    unit_steps = settings.epoch_steps if unit == "epochs" else 1
    try:
        if duration is not None:
            check_integer(unit, duration, 0, 2**53 // unit_steps)
        prepare = _prepare_branch if origin.branch else _prepare_simulation
        path, run = prepare(settings, duration, unit_steps, ensemble, origin)
        before = path.stat().st_mtime_ns if path.exists() else None
        trajectory = run()
    except SettingsError as error:
        result = (
            f"{error.found} steps"
            if error.field == "steps" and unit_steps > 1
            else error.found
        )
        field = ", ".join(
            unit if name == "steps" else name for name in error.field.split(", ")
        )
        raise SettingsError(field, result, error.allowed) from None
    how = "found" if path.stat().st_mtime_ns == before else "written"
    last = int(trajectory["step"][-1])
    reached = (
        f"{last} {unit}"
        if unit_steps == 1
        else f"{float(trajectory['epoch'][-1]):g} {unit} of {unit_steps} steps"
    )
    if how == "found" and (recorded := int(open_trajectory(path)["step"][-1])) > last:
        reached += f"; the file has {recorded} steps, shown is step {last}"
    print(
        f"trajectory  {path}  ({how}: {trajectory.sizes['run']} runs, {reached})",
        file=log,
    )
    return path, trajectory


def _prepare_simulation(
    settings: Settings,
    duration: int | None,
    unit_steps: int,
    ensemble: EnsembleOptions,
    origin: OriginOptions,
) -> tuple[Path, _Simulation]:
    """The file of an ensemble that starts at step 0, and the function that computes
    it."""
    if origin.step is not None:
        raise SettingsError(
            "step", origin.step, "a step only with a trajectory to begin from"
        )
    steps = None if duration is None else unit_steps * duration
    runs = Ensemble(settings, steps=steps, **ensemble.arguments())
    path = ensemble.out or runs.path
    return path, lambda: runs.simulate(path, ensemble.overwrite)


def _prepare_branch(
    settings: Settings,
    duration: int | None,
    unit_steps: int,
    ensemble: EnsembleOptions,
    origin: OriginOptions,
) -> tuple[Path, _Simulation]:
    """The file of an ensemble that branches off another one at a step, and the function
    that computes it."""
    if origin.step is None:
        raise SettingsError(
            "step", "none", "the step at which to branch off the trajectory of --branch"
        )
    source = open_origin(str(origin.branch), settings.system, "branch")
    step = origin.step
    recorded = {"backend": FIRST_BACKEND, **source.attrs}
    for field in ("runs", "seed", "device", "backend"):
        if getattr(ensemble, field) not in (recorded[field], "auto"):
            raise SettingsError(
                field,
                getattr(ensemble, field),
                f"{recorded[field]}, as in {origin.branch}",
            )
    before = read_settings(source)
    now = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(before)
    }
    changes = {
        name: value for name, value in now.items() if value != getattr(before, name)
    }
    until = duration
    if duration is not None and settings.epoch_steps:
        until = branch_step(source, step, duration, **changes)
    last = int(source["step"][-1]) if until is None else until
    if step > last:
        raise SettingsError("step", step, f"at most {last}, where the branch ends")
    options: dict[str, Any] = {
        "every": ensemble.every,
        "record": ensemble.record,
        **changes,
    }
    path = ensemble.out or branch_path(source, step, **options)
    overwrite = ensemble.overwrite
    return path, lambda: branch(
        source,
        step,
        until=until,
        out=path,
        overwrite=overwrite,
        progress=True,
        **options,
    )


def print_diverged(trajectory: xr.Dataset, consequence: str, log: TextIO) -> None:
    """Print how many runs have diverged, if any, and the consequence for them."""
    if diverged := count_diverged(trajectory):
        print(f"diverged    {diverged} runs: {consequence}", file=log)


def print_backend(trajectory: xr.Dataset, log: TextIO) -> None:
    """Print the backend that has computed a trajectory on a CPU, and the time that the
    cost model expects of each."""
    if trajectory.attrs["device"] != "cpu":
        return
    settings = cast(ModularSettings, read_settings(trajectory))
    seconds = cost_model.epoch_seconds(settings, trajectory.sizes["run"])
    expected = ", ".join(
        f"{name} {1000 * value:.3g} ms" for name, value in seconds.items()
    )
    name = trajectory.attrs.get("backend", FIRST_BACKEND)
    print(
        f"backend     {name}  (expected for an epoch of all runs: {expected})", file=log
    )


def open_origin(name: str, system: str, option: str) -> xr.Dataset:
    """The trajectory that an option names. Raises SettingsError if it is not of this
    system."""
    trajectory = open_trajectory(name)
    result = trajectory.attrs["system"]
    if result != system:
        raise SettingsError(
            option, f"{name} of the system {result}", f"a trajectory of {system}"
        )
    return trajectory


def options_from_trajectory(
    options: Callable[..., Options], trajectory: xr.Dataset, **changes: Any
) -> Options:
    """The options of a command that repeat a trajectory with some settings changed."""
    settings = dataclasses.replace(read_settings(trajectory), **changes)
    attrs = trajectory.attrs
    ensemble = EnsembleOptions(
        runs=int(attrs["runs"]),
        seed=int(attrs["seed"]),
        record=attrs["record"],
        device=attrs["device"],
    )
    return options(settings=settings, ensemble=ensemble)

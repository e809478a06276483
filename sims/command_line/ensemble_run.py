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
from dynamics.named_conditions import REGISTERED
from dynamics.settings import (
    MAX_STEPS,
    ModularSettings,
    Settings,
    SettingsError,
    changed_settings,
    check_integer,
    start_file,
)
from dynamics.trajectory.description import recorded_backend
from dynamics.trajectory.diverged import count_diverged, count_stopped
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
) -> tuple[Path, xr.Dataset]:
    """Compute the ensemble or read it from disk, print which to `log`, and return its
    file and its trajectory.

    duration: in epochs if the system has epochs, otherwise in steps; None is the
    default of the system. Raises the errors of `simulate`."""
    unit = "steps"
    unit_steps = 1
    if settings.epoch_steps:
        unit = "epochs"
        unit_steps = settings.epoch_steps
    if duration is not None:
        check_integer(unit, duration, 0, MAX_STEPS // unit_steps)
    if origin.branch:
        path, run = _prepare_branch(settings, duration, ensemble, origin)
    else:
        steps = None if duration is None else unit_steps * duration
        path, run = _prepare_simulation(settings, steps, ensemble, origin)
    before = path.stat().st_mtime_ns if path.exists() else None
    trajectory = run()
    last = int(trajectory["step"][-1])
    reached = f"{last} {unit}"
    if unit_steps > 1:
        epoch = float(trajectory["epoch"][-1])
        reached = f"{epoch:g} epochs of {unit_steps} steps"
    how = "written"
    if path.stat().st_mtime_ns == before:
        how = "found"
        recorded = int(open_trajectory(path)["step"][-1])
        if recorded > last:
            reached += f"; the file has {recorded} steps, shown is step {last}"
    runs = trajectory.sizes["run"]
    print(f"trajectory  {path}  ({how}: {runs} runs, {reached})", file=log)
    start = start_file(settings) or ""
    if start.endswith(".nc"):
        step = getattr(settings, "start_step", 0)
        place = "its last step" if step == -1 else f"its step {step}"
        print(f"start       {start}, {place}", file=log)
    stopped = count_stopped(trajectory)
    if stopped or "until" in trajectory.attrs:
        condition = trajectory.attrs.get("until", "a condition of the original")
        print(f"stopped     {stopped} of {runs} runs: {condition}", file=log)
    return path, trajectory


def _prepare_simulation(
    settings: Settings,
    steps: int | None,
    ensemble: EnsembleOptions,
    origin: OriginOptions,
) -> tuple[Path, _Simulation]:
    """The file of an ensemble that starts at step 0, and the function that computes
    it."""
    if origin.step is not None:
        allowed = "a step only with a trajectory to begin from"
        raise SettingsError("step", origin.step, allowed)
    runs = Ensemble(settings, steps=steps, **ensemble.arguments())
    path = ensemble.out or runs.path
    return path, lambda: runs.simulate(path, ensemble.overwrite)


def _prepare_branch(
    settings: Settings,
    duration: int | None,
    ensemble: EnsembleOptions,
    origin: OriginOptions,
) -> tuple[Path, _Simulation]:
    """The file of an ensemble that branches off another one at a step, and the function
    that computes it."""
    step = origin.step
    if step is None:
        allowed = "the step at which to branch off the trajectory of --branch"
        raise SettingsError("step", "none", allowed)
    source = open_origin(str(origin.branch), settings.system, "branch")
    recorded = {**source.attrs, "backend": recorded_backend(source.attrs)}
    for name in ("runs", "seed", "device", "backend"):
        value = getattr(ensemble, name)
        if value not in (recorded[name], "auto"):
            allowed = f"{recorded[name]}, as in {origin.branch}"
            raise SettingsError(name, value, allowed)
    before = read_settings(source)
    options: dict[str, Any] = {
        "every": ensemble.every,
        "record": ensemble.record,
        "condition": ensemble.until,
    }
    changes = {}
    for field in dataclasses.fields(before):
        value = getattr(settings, field.name)
        if value != getattr(before, field.name):
            changes[field.name] = value
    until = duration
    if duration is not None and settings.epoch_steps:
        until = branch_step(source, step, duration, **changes)
    last = int(source["step"][-1]) if until is None else until
    if step > last:
        raise SettingsError("step", step, f"at most {last}, where the branch ends")
    options |= changes
    path = ensemble.out or branch_path(source, step, **options)
    return path, lambda: branch(
        source,
        step,
        until=until,
        out=path,
        overwrite=ensemble.overwrite,
        progress=True,
        **options,
    )


def print_diverged(trajectory: xr.Dataset, consequence: str, log: TextIO) -> None:
    """Print how many runs have diverged, if any, and the consequence for them."""
    if diverged := count_diverged(trajectory):
        print(f"diverged    {diverged} runs: {consequence}", file=log)


def print_backend(trajectory: xr.Dataset, log: TextIO) -> None:
    """Print the backend that has computed a trajectory, and on a CPU the time that the
    cost model expects of each."""
    name = recorded_backend(trajectory.attrs)
    if trajectory.attrs["device"] != "cpu":
        print(f"backend     {name}", file=log)
        return
    settings = cast(ModularSettings, read_settings(trajectory))
    seconds = cost_model.epoch_seconds(settings, trajectory.sizes["run"])
    expected = ", ".join(
        f"{name} {1000 * value:.3g} ms" for name, value in seconds.items()
    )
    print(
        f"backend     {name}  (expected for an epoch of all runs: {expected})", file=log
    )


def open_origin(name: str, system: str, option: str) -> xr.Dataset:
    """The trajectory that an option names. Raises SettingsError if it is not of this
    system."""
    trajectory = open_trajectory(name)
    recorded = trajectory.attrs["system"]
    if recorded != system:
        raise SettingsError(
            option, f"{name} of the system {recorded}", f"a trajectory of {system}"
        )
    return trajectory


def condition_as_option(condition: str | None) -> str | None:
    """The value of --until for the attribute of a file; None for a function, which only
    Python has."""
    if condition is None:
        return None
    name, is_own, _ = condition.partition("@")
    return None if is_own and name not in REGISTERED else name


def options_from_trajectory(
    options: Callable[..., Options], trajectory: xr.Dataset, **changes: Any
) -> Options:
    """The options of a command that repeat a trajectory with some settings changed."""
    settings = changed_settings(read_settings(trajectory), changes)
    attrs = trajectory.attrs
    ensemble = EnsembleOptions(
        runs=int(attrs["runs"]),
        seed=int(attrs["seed"]),
        record=attrs["record"],
        device=attrs["device"],
        until=condition_as_option(attrs.get("until")),
    )
    return options(settings=settings, ensemble=ensemble)

"""The ensemble that a command is about: simulated, branched off another, or found."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dynamics.settings import Settings, SettingsError, check_integer
from sims.command_line.amount import EnsembleOptions
from sims.command_line.origin import OriginOptions, open_origin

if TYPE_CHECKING:
    import xarray as xr


def run_ensemble(
    settings: Settings,
    length: int | None,
    amount: EnsembleOptions,
    origin: OriginOptions,
    say: TextIO,
    option: str = "steps",
) -> "tuple[Path, xr.Dataset]":
    """The trajectory, run or found, and its file; says which to `say`.

    length: how many steps, or epochs where `option`, the command's name for it, is that. Raises as `simulate` does.
    """
    unit = settings.epoch_steps if option == "epochs" else 1
    try:
        if length is not None:
            check_integer(option, length, 0, 2**53 // unit)
        path, run = (_branch if origin.branch else _simulation)(settings, length, unit, amount, origin)
        before = path.stat().st_mtime_ns if path.exists() else None
        trajectory = run()
    except SettingsError as error:
        found = f"{error.found} steps" if error.field == "steps" and unit > 1 else error.found
        field = ", ".join(option if name == "steps" else name for name in error.field.split(", "))
        raise SettingsError(field, found, error.allowed) from None
    how = "found" if path.stat().st_mtime_ns == before else "written"
    last = int(trajectory["step"][-1])
    reached = f"{last} {option}" if unit == 1 else f"{float(trajectory['epoch'][-1]):g} {option} of {unit} steps"
    print(f"trajectory  {path}  ({how}: {trajectory.sizes['run']} runs, {reached})", file=say)
    return path, trajectory


_Simulation = Callable[[], "xr.Dataset"]


def _simulation(
    settings: Settings, length: int | None, unit: int, amount: EnsembleOptions, origin: OriginOptions
) -> tuple[Path, _Simulation]:
    """A run from its beginning: where it lives, and how it is made."""
    from dynamics.preparation import run_path
    from dynamics.simulation import simulate

    if origin.step is not None:
        raise SettingsError("step", origin.step, "a step only with a trajectory to begin from")
    path = amount.out or run_path(settings, amount.runs, amount.seed, amount.every, amount.record, amount.device)
    how = dataclasses.asdict(dataclasses.replace(amount, out=path))
    return path, lambda: simulate(settings, steps=None if length is None else unit * length, **how)


def _branch(
    settings: Settings, length: int | None, unit: int, amount: EnsembleOptions, origin: OriginOptions
) -> tuple[Path, _Simulation]:
    """A run that leaves another at a step: where it lives, and how it is made."""
    from dynamics.branching import branch, branch_path, branch_step
    from dynamics.trajectory.schema import read_settings

    if origin.step is None:
        raise SettingsError("step", "none", "the step at which to leave the trajectory of --branch")
    source, step = open_origin(str(origin.branch), settings.system, "branch"), origin.step
    for field in ("runs", "seed", "device"):
        if getattr(amount, field) not in (source.attrs[field], "auto"):
            raise SettingsError(field, getattr(amount, field), f"{source.attrs[field]}, as in {origin.branch}")
    before = read_settings(source)
    now = {field.name: getattr(settings, field.name) for field in dataclasses.fields(before)}
    changes = {name: value for name, value in now.items() if value != getattr(before, name)}
    until = length
    if length is not None and settings.epoch_steps:
        until = branch_step(source, step, length, **changes)
    last = int(source["step"][-1]) if until is None else until
    if step > last:
        raise SettingsError("step", step, f"at most {last}, where the branch ends")
    how: dict[str, Any] = {"every": amount.every, "record": amount.record, **changes}
    path = amount.out or branch_path(source, step, **how)
    return path, lambda: branch(source, step, until=until, out=path, overwrite=amount.overwrite, progress=True, **how)

"""The settings of a trajectory in a line, for the caption of a figure."""

import dataclasses

import xarray as xr

from dynamics.settings import Settings
from dynamics.trajectory.schema import read_settings

SYMBOLS = {
    "particles": {"n": "N", "dim": "D", "fa": "f_a"},
    "modular": {"n": "N", "dim": "D", "hidden": "H", "weight_decay": "weight decay"},
    "sparse": {"vocab": "p", "length": "L", "sparsity": "k", "dim": "d", "hidden": "h", "batch": "batch", "lr": "lr"},
}
"""What is always told, by system; other settings are told where they are not the default."""

TASKS = {
    "particles": "particles", "modular": "modular addition", "sparse": "sparse modular addition",
}  # fmt: skip


def settings_summary(*trajectories: xr.Dataset) -> str:
    """Task, settings, length and runs of trajectories of one system; a setting that differs has all its values."""
    settings, first = [read_settings(each) for each in trajectories], trajectories[0]
    told = [f"{word} = {_values(settings, name)}" for name, word in _words(settings).items()]
    steps = [int(each["step"][-1]) for each in trajectories]
    lengths = [step // (each.epoch_steps or 1) for step, each in zip(steps, settings, strict=True)]
    unit = "epochs" if "epoch" in first.variables else "steps"
    runs = " and ".join(dict.fromkeys(str(each.sizes["run"]) for each in trajectories))
    each = " each" if len(trajectories) > 1 and runs.isdigit() else ""
    told += [
        f"{', '.join(dict.fromkeys(map(str, lengths)))} {unit}",
        f"{runs} {'run' if runs == '1' else 'runs'}{each} from seed {_seed(first)}",
    ]
    return f"{TASKS.get(settings[0].system, settings[0].system)}: {', '.join(told)}"


TRAINING = ("batch", "lr")
"""Settings that tell nothing of weights which were not trained."""


def untrained_summary(settings: Settings) -> str:
    """Task and network of weights that come from no training."""
    words = SYMBOLS.get(settings.system, {})
    told = [f"{word} = {_values([settings], name)}" for name, word in words.items() if name not in TRAINING]
    return f"{TASKS.get(settings.system, settings.system)}: {', '.join(told)}; not trained"


def _seed(trajectory: xr.Dataset) -> int:
    return int(trajectory["seed"].values[0])


def _words(settings: list[Settings]) -> dict[str, str]:
    """The settings to be told and their names."""
    usual, first = type(settings[0])(), settings[0]
    always = SYMBOLS.get(first.system, {})
    changed = [
        field.name for field in dataclasses.fields(first)
        if field.name not in always and not field.name.startswith("start")
        and any(getattr(each, field.name) != getattr(usual, field.name) for each in settings)
    ]  # fmt: skip
    return {**always, **{name: name.replace("_", " ") for name in changed}}


def _values(settings: list[Settings], name: str) -> str:
    values = dict.fromkeys(getattr(each, name) for each in settings)
    return ", ".join(f"{value:g}" if isinstance(value, int | float) else str(value) for value in values)

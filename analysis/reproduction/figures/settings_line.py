"""The settings of a trajectory in a line, for the caption of a figure."""

import dataclasses

import xarray as xr

from dynamics.settings import Settings
from dynamics.trajectory.schema import read_settings

SYMBOLS = {
    "particles": {"n": "N", "dim": "D", "fa": "f_a"},
    "modular": {"n": "N", "dim": "D", "hidden": "H", "weight_decay": "weight decay"},
    "sparse": {
        "vocab": "p",
        "length": "L",
        "sparsity": "k",
        "dim": "d",
        "hidden": "h",
        "batch": "batch",
        "lr": "lr",
    },
    "transformer": {
        "n": "p",
        "train_share": "training fraction",
        "attention_rate": "α",
        "dim": "d",
        "weight_decay": "weight decay",
    },
}
"""What is always told, by system; other settings are told where they are not the
default."""
TASKS = {
    "modular": "modular addition",
    "sparse": "sparse modular addition",
    "transformer": "modular addition",
}
TRAINING = ("batch", "lr")
"""Settings that tell nothing of weights which were not trained."""


def settings_summary(*trajectories: xr.Dataset) -> str:
    """Task, settings, length and runs of trajectories of one system; a setting that
    differs has all its values."""
    settings = [read_settings(trajectory) for trajectory in trajectories]
    first = trajectories[0]
    steps = [int(trajectory["step"][-1]) for trajectory in trajectories]
    lengths = [
        str(step // (setting.epoch_steps or 1))
        for step, setting in zip(steps, settings, strict=True)
    ]
    unit = "epochs" if "epoch" in first.variables else "steps"
    runs = " and ".join(
        dict.fromkeys(str(trajectory.sizes["run"]) for trajectory in trajectories)
    )
    item = " each" if len(trajectories) > 1 and runs.isdigit() else ""
    size = (
        f"{', '.join(dict.fromkeys(lengths))} {unit}, {runs}"
        f" {'run' if runs == '1' else 'runs'}{item}"
    )
    return (
        f"{_format_settings(settings, _words(settings))}, {size} from seed"
        f" {first['seed'].values[0]}"
    )


def untrained_summary(settings: Settings) -> str:
    """Task and network of weights that come from no training."""
    words = {
        name: word
        for name, word in SYMBOLS.get(settings.system, {}).items()
        if name not in TRAINING
    }
    return f"{_format_settings([settings], words)}; not trained"


def _words(settings: list[Settings]) -> dict[str, str]:
    """The settings to be told and their names."""
    words = dict(SYMBOLS.get(settings[0].system, {}))
    for field in dataclasses.fields(settings[0]):
        changed = any(
            getattr(setting, field.name) != field.default for setting in settings
        )
        if changed and not field.name.startswith("start"):
            words.setdefault(field.name, field.name.replace("_", " "))
    return words


def _format_settings(settings: list[Settings], words: dict[str, str]) -> str:
    """The task, and the values of the settings that have a word."""
    items = []
    for name, word in words.items():
        values = dict.fromkeys(getattr(setting, name) for setting in settings)
        text = ", ".join(
            f"{value:g}" if isinstance(value, int | float) else str(value)
            for value in values
        )
        items.append(f"{word} = {text}")
    return f"{TASKS.get(settings[0].system, settings[0].system)}: {', '.join(items)}"

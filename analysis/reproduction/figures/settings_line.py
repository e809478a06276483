"""The settings of a trajectory in a line, for the caption of a figure."""

import xarray as xr

from dynamics.settings import Settings
from dynamics.settings_text import TASKS, setting_texts
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
    words = SYMBOLS.get(settings[0].system, {})
    return (
        f"{_format_settings(settings, words)}, {size} from seed"
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


def _format_settings(settings: list[Settings], words: dict[str, str]) -> str:
    """The task, and the values of the settings that have a word or are not the
    default."""
    task = "modular addition"
    if settings[0].system != "transformer":
        task = TASKS.get(settings[0].system, settings[0].system)
    texts = setting_texts(*settings, always=words, form="equation")
    return f"{task}: {', '.join(texts)}"

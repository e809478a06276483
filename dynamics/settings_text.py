"""Settings as text: in words, as options of a command line, and as Python code.

This module imports only the standard library."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from dynamics.settings import (
    HASH_SEPARATOR,
    ModularSettings,
    ParticleSettings,
    RecordedSettings,
    SparseSettings,
    TransformerSettings,
)

TASKS = {
    SparseSettings.system: "sparse modular addition",
    ModularSettings.system: "modular addition",
}
"""Names of systems by their tasks; other systems have their own."""

SYMBOLS = {
    "n": "N",
    "dim": "D",
    "fa": "f_a",
    "length": "L",
    "sparsity": "k",
    "ga": "g_a",
    "gr": "g_r",
}
"""Symbols of settings; other settings have their own names."""

MAIN_SETTINGS = {
    SparseSettings.system: {"vocab": "p", "dim": "d"},
    ModularSettings.system: {"n": "N", "weight_decay": "weight decay"},
    TransformerSettings.system: {"task": "task", "n": "n", "attention_rate": "α"},
    ParticleSettings.system: {"n": "N", "fa": "f_a"},
}
"""By system: the settings that every description has, with their symbols."""


def describe_settings(settings: Any, most: int | None = None) -> str:
    """The task, and the main settings and those that differ from their defaults.

    most: largest number of settings that are not main ones.

    >>> describe_settings(ParticleSettings(n=5, dim=3))
    'particles, N = 5, f_a = 1, D = 3'
    """
    if isinstance(settings, RecordedSettings):
        parameters = f"{settings.parameters} parameters"
        modulus = f"N = {settings.modulus}" if settings.modulus else ""
        words = [settings.model, settings.optimizer, parameters, modulus]
        return ", ".join(filter(None, words))
    main = MAIN_SETTINGS.get(settings.system, {})
    texts = setting_texts(settings, always=main)
    if most is not None and len(texts) > len(main) + most:
        texts = [*texts[: len(main) + most], "…"]
    return ", ".join([TASKS.get(settings.system, settings.system), *texts])


def setting_texts(
    *settings: Any,
    always: Mapping[str, str] | None = None,
    form: Literal["words", "equation", "option", "code"] = "words",
) -> list[str]:
    """A text for each setting that is always named, and for each other one that differs
    from its default.

    settings: of the same class; only an equation has the values of all. always: names
    and their symbols. form: "weight decay 0.5" in words, as the equation "weight decay
    = 0.5, 1", as the option "--weight-decay 0.5", or as code, "weight_decay=0.5"."""
    symbols = always or {}
    texts = []
    fields = {field.name: field.default for field in dataclasses.fields(settings[0])}
    values = {name: [getattr(item, name) for item in settings] for name in fields}
    changed = [name for name in fields if set(values[name]) != {fields[name]}]
    for name in dict.fromkeys([*symbols, *changed]):
        word = symbols.get(name) or SYMBOLS.get(name, name.replace("_", " "))
        if form == "code":
            texts.append(f"{name}={values[name][0]!r}")
        elif form == "option":
            value = str(values[name][0]).split(HASH_SEPARATOR)[0]
            texts.append(f"--{name.replace('_', '-')} {value}")
        elif form == "words":
            texts.append(_in_words(name, word, values[name][0]))
        elif name in symbols or not name.startswith("start"):
            items = [
                f"{value:g}" if isinstance(value, int | float) else str(value)
                for value in dict.fromkeys(values[name])
            ]
            texts.append(f"{word} = {', '.join(items)}")
    return texts


def _in_words(name: str, word: str, value: Any) -> str:
    if name == "start":
        return f"from {Path(value.split(HASH_SEPARATOR)[0]).stem}"
    if isinstance(value, bool):
        return word if value else f"no {word}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{word} = {text}" if len(word) <= 3 else f"{word} {text}"

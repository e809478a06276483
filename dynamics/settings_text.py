"""Settings as text: in words, as options of a command line, and as Python code.

This module imports only the standard library."""

import dataclasses
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from dynamics.expressions import OWN_FUNCTION
from dynamics.forces import law_json
from dynamics.pair_lists import FIELD as PAIR_LIST
from dynamics.settings import (
    HASH_SEPARATOR,
    ModularSettings,
    ParticleSettings,
    RecordedSettings,
    SparseSettings,
    TransformerSettings,
)

EXPRESSIONS = ("attraction", "repulsion", "alignment")
"""Settings that are expressions."""
MAX_EXPRESSION = 40
"""Number of characters of an expression in words."""
MAX_FORCES = 3
"""Number of parts of a law in words."""
_TABLE = re.compile(r"interp\([^][]*, \[([^][]*)\], \[[^][]*\]\)")

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
    = 0.5, 1", as the option "--weight-decay 0.5" of a shell, or as code,
    "weight_decay=0.5". Words and equations shorten laws and long expressions."""
    symbols = always or {}
    texts = []
    fields = {field.name: field.default for field in dataclasses.fields(settings[0])}
    values = {name: [getattr(item, name) for item in settings] for name in fields}
    changed = [name for name in fields if set(values[name]) != {fields[name]}]
    if None not in values.get(PAIR_LIST, [None]) and form != "code":
        changed = [name for name in changed if name != "train_share"]  # of the list
    unused = [set(getattr(item, "unused_settings", ())) for item in settings]
    left_out = set.intersection(*unused) - set(changed)
    symbols = {name: word for name, word in symbols.items() if name not in left_out}
    for name in dict.fromkeys([*symbols, *changed]):
        word = symbols.get(name) or SYMBOLS.get(name, name.replace("_", " "))
        if form == "code":
            texts.append(f"{name}={values[name][0]!r}")
        elif form == "option":
            texts.append(_as_option(name, values[name][0]))
        elif form == "words":
            texts.append(_in_words(name, word, values[name][0]))
        elif name in symbols or not name.startswith("start"):
            items = [
                f"{value:g}"
                if isinstance(value, int | float)
                else short_text(name, value)
                for value in dict.fromkeys(values[name])
            ]
            texts.append(f"{word} = {', '.join(items)}")
    return texts


BY_PART = ("decay_of", "lr_of", "freeze")
"""Settings of single variables of a network."""

REGISTERED = ("optimizer", "schedule")
"""Settings whose files contain digests of what users have registered."""


def short_expression(text: str) -> str:
    """An expression of a strength, in which a table is "table of 16 points", and of
    which the beginning stands for the whole if it is long, and a function of the user
    its name.

    >>> short_expression("2*interp(r, [0, 1, 2], [3, 1, 0])")
    '2*table of 3 points'
    """
    text = re.sub(OWN_FUNCTION, r"\1(\3)", text)
    found = 1
    while found:
        text, found = re.subn(_TABLE, _table_in_words, text)
    if len(text) <= MAX_EXPRESSION:
        return text
    return f"{text[: MAX_EXPRESSION - 1]}…"


def _table_in_words(table: re.Match[str]) -> str:
    return f"table of {table[1].count(',') + 1} points"


def short_text(name: str, value: Any) -> str:
    """The value of a setting in a few words."""
    if name in EXPRESSIONS:
        return short_expression(value)
    if name in REGISTERED:
        return re.sub("@[0-9a-f]{12}", "", value)
    if name in BY_PART:
        return " ".join(value)
    if name == PAIR_LIST and value is not None:
        return Path(value.split(HASH_SEPARATOR)[0]).stem
    if name != "law":
        return str(value)
    forces = [force.name for force in value] or ["CA"]
    if len(forces) > MAX_FORCES:
        forces[MAX_FORCES - 1 :] = [f"{len(forces) - MAX_FORCES + 1} more"]
    return " + ".join(forces)


def _as_option(name: str, value: Any) -> str:
    """A setting as an option of a shell's command line."""
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    if name == "law":
        return f"--law {shlex.quote(law_json(value))}"
    if isinstance(value, tuple):
        return " ".join([f"--{option}", *map(str, value)])
    text = short_text(name, value) if name in REGISTERED else str(value)
    text = text.split(HASH_SEPARATOR)[0]
    joint = "=" if text.startswith("-") else " "
    return f"--{option}{joint}{shlex.quote(text)}"


def _in_words(name: str, word: str, value: Any) -> str:
    if name == "start":
        return f"from {Path(value.split(HASH_SEPARATOR)[0]).stem}"
    if isinstance(value, bool):
        return word if value else f"no {word}"
    text = f"{value:g}" if isinstance(value, float) else short_text(name, value)
    is_symbol = len(word) <= 3 and name != "law"
    return f"{word} = {text}" if is_symbol else f"{word} {text}"

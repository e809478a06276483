"""The steps that names of checkpoints say, by explicit rules, and the names of tensors
without those of wrappers."""

import decimal
import re
from collections.abc import Iterable, Sequence

from dynamics.errors import TrajectoryError
from dynamics.recording.quantities import plain_name
from dynamics.settings import SettingsError

LABELS = (
    ("step", r"(?:(?:global|time)[-_]?)?steps?|iter(?:ation)?s?|updates?"),
    ("checkpoint", r"checkpoint|ckpt|ck"),
    ("epoch", r"epochs?|ep"),
)
"""What a number in a name counts, in order of preference, and the words before it."""

SEPARATORS = r"[-_=. ]"

NUMBER = re.compile(
    r"\d{1,3}(?:,\d{3})+(?![\d,])|\d+(?:\.\d+)?(?:e\d+|[km](?![a-z]))?", re.IGNORECASE
)
"""Digits, with thousands separated by commas, a fraction, an exponent, k or M."""

SHARD = re.compile(r"\d{5}-of-\d{5}$")
"""The end of the name of a file with a part of a checkpoint."""

HOW = "--step-from with the name of the step in the files, or --step-from order"


def steps_in_names(names: Sequence[str]) -> tuple[list[int], str] | None:
    """The steps of checkpoints with these names, and where they stand, in words.

    They are the numbers after a word for a step, else for a checkpoint, else for an
    epoch; without such a word, the only number in which the names differ. None if there
    is no such number in a single name. Raises SettingsError if the names can be
    understood in several ways."""
    parts = [SHARD.search(name) for name in names]
    if any(parts):
        allowed = "the file that ends in .index.json, which lists the parts"
        raise SettingsError("checkpoints", f"{names[0]}, a part of one", allowed)
    numbers = [list(NUMBER.finditer(name)) for name in names]
    for label, words in LABELS:
        ends = re.compile(rf"(?<![a-z])(?:{words}){SEPARATORS}?$", re.IGNORECASE)
        labelled = [
            [number for number in row if ends.search(_unsigned(_before(number)))]
            for row in numbers
        ]
        counts = list(map(len, labelled))
        if not any(counts):
            continue
        for name, count in zip(names, counts, strict=True):
            if count != 1:
                what = f"{name}, with {count} numbers of a {label}"
                raise SettingsError("step_from", what, f"one in each name, or {HOW}")
        steps = [_step(number) for (number,) in labelled]
        return steps, f"the number of the {label} in the names"
    if len(names) == 1:
        return None
    return _differing_numbers(names, numbers), "the number in which the names differ"


def _before(number: re.Match[str]) -> str:
    """The text before a number in a name."""
    return number.string[: number.start()]


def _unsigned(before: str) -> str:
    """The text before a number without what is part of the number: a sign, a point."""
    return re.sub(rf"(?:(?<={SEPARATORS})|^)[-+.,]+$", "", before)


def _is_apart(number: re.Match[str]) -> bool:
    """Whether a number is not a part of a longer one, of a word or of a date."""
    before = _before(number)
    after = number.string[number.end() :]
    return (
        _unsigned(before) == before
        and not re.search(r"(?:^|[^a-z\d])\d+[-_ ]$", before, re.I)
        and not re.match(r"[a-z+]|[-_ .,:]\d", after, re.I)
    )


def _whole_number(text: str) -> int | None:
    """The value of a number such as 500, 1,000, 1.5k or 1e3; None if it is a fraction or
    too large."""
    digits = text.replace(",", "").lower()
    factor = {"k": 1000, "m": 10**6}.get(digits[-1], 1)
    value = decimal.Decimal(digits.rstrip("km")) * factor
    is_fraction = "." in digits and factor == 1
    is_step = not is_fraction and value == value.to_integral_value() and value < 2**62
    return int(value) if is_step else None


def _differing_numbers(
    names: Sequence[str], numbers: Sequence[Sequence[re.Match[str]]]
) -> list[int]:
    """The only number in which names differ. Raises SettingsError if there is none, if
    it is joined to another number, as in a date, or if it has the digits of a time."""
    texts = {tuple(NUMBER.split(name)) for name in names}
    columns = list(zip(*numbers, strict=True)) if len(texts) == 1 else []
    differing = [
        column for column in columns if len({number[0] for number in column}) > 1
    ]
    if len(differing) != 1:
        what = f"{', '.join(names[:3])}, which do not differ in one number alone"
        raise SettingsError("step_from", what, HOW)
    for number in differing[0]:
        if len(number[0]) >= 10 or re.fullmatch(r"(19|20)\d{6}", number[0]):
            what = f"{number.string}, whose number may be a time"
            raise SettingsError("step_from", what, HOW)
    return list(map(_step, differing[0]))


def _step(number: re.Match[str]) -> int:
    """The value of a number in a name. Raises SettingsError if it is no whole number
    from 0, runs into other letters or digits, or is joined to another number, as in
    1_000 or a date."""
    value = _whole_number(number[0]) if _is_apart(number) else None
    if value is None:
        what = f"{number.string}, where {number[0]} is not one whole number from 0"
        raise SettingsError("step_from", what, HOW)
    return value


def tensor_names(names: Iterable[str], rules: Sequence[str] = ()) -> dict[str, str]:
    """The names that tensors get: without parts of wrappers, such as ``_orig_mod``, and
    without a first part ``module`` (DDP) if all names have it; then changed by rules
    OLD=NEW, which replace the beginning of names, in their order. Raises SettingsError,
    and TrajectoryError if two names become equal.

    >>> tensor_names(["module.a._orig_mod.weight", "module.b"], ["a.=net."])
    {'module.a._orig_mod.weight': 'net.weight', 'module.b': 'b'}
    """
    result = {name: plain_name(name) for name in names}
    while result and all(name.startswith("module.") for name in result.values()):
        result = {name: new.removeprefix("module.") for name, new in result.items()}
    for rule in rules:
        old, equals, new = rule.partition("=")
        matches = [name for name, value in result.items() if value.startswith(old)]
        if not equals or not old or not matches:
            some = ", ".join(list(result.values())[:6])
            raise SettingsError("rename", rule, f"OLD=NEW, where OLD begins {some}")
        result |= {name: new + result[name][len(old) :] for name in matches}
    originals: dict[str, str] = {}
    for name, new in result.items():
        if originals.setdefault(new, name) != name:
            how = "--rename OLD=NEW gives one of them another name"
            raise TrajectoryError(
                f"{originals[new]} and {name}: both become {new}; {how}"
            )
    return result

"""A claim: what a paper states, how it is put to the test here, and what would refute it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import xarray as xr

from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.rules import Rule


class Measurement(NamedTuple):
    """A number that a claim asks for, how it is read off a study's evidence, and the rule that judges it."""

    measure: Callable[[xr.Dataset], Estimate]
    rule: Rule
    label: str = ""
    """Which part it is, where there are several"""
    unit: str = ""
    """Such as % or epochs; none for a dimensionless number"""
    digits: int = 1
    """After the point, when it is shown"""


def part(
    measure: Callable[..., Estimate],
    rule: Rule,
    label: str = "",
    unit: str = "",
    /,
    *,
    digits: int = 1,
    **arguments: Any,
) -> Measurement:
    """A part of a claim: `measure`, called with the evidence and the keyword arguments, is judged by `rule`."""
    return Measurement(partial(measure, **arguments) if arguments else measure, rule, label, unit, digits)


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, or of our own."""

    name: str
    """To be typed, such as CA.table2.fa2: paper, place, what"""
    source: str
    """Where it stands, such as "CA table 2, f_a = 2" """
    statement: str
    """In words of our own"""
    measured: str = ""
    """How it is measured here"""
    refuted: str = ""
    """What would refute it"""
    study: str = ""
    """Name of the study whose evidence it is read off"""
    parts: tuple[Measurement, ...] = ()
    readings: tuple[str, ...] = ()
    """What an ambiguous statement may mean; the first is the one that is tested"""
    covers: tuple[str, ...] = ()
    """Which of the paper's tables, figures and sections it answers for, such as "table 2", "figure 5", "section 6" """
    figure: str = ""
    """The plate of `analysis.paper` that shows it, such as ca5"""
    untestable: str = ""
    """Why it cannot be tested; empty where it can"""
    weight: int = 1
    """How much of its paper stands on it: 1 a detail, 2 a finding, 3 what the paper is known for"""
    meaning: str = ""
    """What follows if it does not hold; said where it is not reproduced, or only partly"""

    @property
    def paper(self) -> str:
        """CA, VC, CH, or OWN."""
        return self.name.split(".")[0]


def untested_claim(name: str, source: str, statement: str, why: str, *covers: str) -> Claim:
    """A statement that cannot be put to the test, and why."""
    return Claim(name=name, source=source, statement=statement, covers=covers, untestable=why)

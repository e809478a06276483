"""Claims: what a paper states, how it is tested here, and what would refute it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import xarray as xr

from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.rules import Rule


class Measurement(NamedTuple):
    """One part of a claim: how its number is computed from an experiment's evidence, and the rule that judges it."""

    measure: Callable[[xr.Dataset], Estimate]
    rule: Rule
    label: str = ""
    """Name of the part, if there are several"""
    unit: str = ""
    """Such as % or epochs; empty for a dimensionless number"""
    digits: int = 1
    """Decimal places when it is printed"""


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
    """A statement of a paper, or one of our own."""

    name: str
    """Name on the command line, such as CA.table2.fa2: paper, place, subject"""
    source: str
    """Place in the paper, such as "CA table 2, f_a = 2" """
    statement: str
    """The statement in our own words"""
    measured: str = ""
    """How it is measured here"""
    refuted: str = ""
    """What would refute it"""
    study: str = ""
    """Name of the experiment that tests it"""
    parts: tuple[Measurement, ...] = ()
    readings: tuple[str, ...] = ()
    """Interpretations of an ambiguous statement; the first one is tested"""
    covers: tuple[str, ...] = ()
    """The paper's tables, figures and sections that it covers, such as "table 2", "figure 5", "section 6" """
    figure: str = ""
    """The figure of `analysis.paper` that shows it, such as ca5"""
    untestable: str = ""
    """The reason why it cannot be tested; empty if it can"""
    weight: int = 1
    """How important it is for its paper: 1 a detail, 2 a finding, 3 a main result"""
    meaning: str = ""
    """The consequence if it does not hold; printed if it is not or only partly reproduced"""

    @property
    def paper(self) -> str:
        """CA, VC, CH, or OWN."""
        return self.name.split(".")[0]


def untested_claim(name: str, source: str, statement: str, why: str, *covers: str) -> Claim:
    """A claim that cannot be tested, with the reason."""
    return Claim(name=name, source=source, statement=statement, covers=covers, untestable=why)

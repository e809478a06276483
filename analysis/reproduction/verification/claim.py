"""Claims: what a paper states, how it is tested here, and by which criterion."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import xarray as xr

from analysis.reproduction.verification.criteria import Criterion, read_criterion
from analysis.reproduction.verification.samples import Estimate


class Kind(StrEnum):
    """What kind of statement a claim is. Only empirical claims count in the headline of
    the report."""

    EMPIRICAL = "empirical"
    """It can come out otherwise, and is measured on many runs"""
    CONSTRUCTION = "by construction"
    """It follows from definitions, or was built in: an identity, a circuit made by
    hand"""
    EXAMPLE = "example"
    """One case suffices"""
    FITTED = "fitted"
    """What the paper leaves open was chosen to match its number"""
    TABLE = "authors' table"
    """A number of data that the authors published, not of a paper"""
    AMBIGUOUS = "ambiguous"
    """Two places of the paper contradict each other"""
    REPEATED = "repeated"
    """It is counted as part of another claim: its numbers were judged there, or divide
    that claim's by layer"""


class Measurement(NamedTuple):
    """One part of a claim: how its number is computed from an experiment's evidence,
    and the criterion for it."""

    measure: Callable[[xr.Dataset], Estimate]
    criterion: Criterion
    label: str = ""
    """Name of the part, if there are several"""
    unit: str = ""
    """Such as % or epochs; empty for a dimensionless number"""
    digits: int = 1
    """Decimal places when it is printed"""

    @property
    def number(self) -> tuple[Any, ...]:
        """What decides on the number, evidence aside: equal for two parts that use the
        same number."""
        how = self.measure
        return (
            (how.func, repr((how.args, sorted(how.keywords.items()))))
            if isinstance(how, partial)
            else (how, "")
        )


Measure = Callable[..., Estimate]


def part(
    measure: Measure,
    criterion: Criterion,
    label: str = "",
    unit: str = "",
    /,
    *,
    digits: int = 1,
    **arguments: Any,
) -> Measurement:
    """A part of a claim: `measure`, called with the evidence and the keyword arguments,
    is judged by `criterion`."""
    return Measurement(
        partial(measure, **arguments) if arguments else measure,
        criterion,
        label,
        unit,
        digits,
    )


def read_parts(
    rows: Sequence[Mapping[str, Any]], names: Mapping[str, Any]
) -> Iterator[Measurement]:
    """The parts of a claim from its file, in which each has these fields:

        label       name of the part
        estimate    name of the function that computes the number
        with        its arguments; `estimator` and `failure` are names of functions
        over        arguments with several values, for each of which there is a part, as a list, a table of values and
                    their words in the label, or the name of such a constant; the label has the argument in braces
        criterion   see `analysis.reproduction.verification.criteria.read_criterion`
        unit, digits

    names: functions and constants by name."""
    for row in rows:
        arguments = {
            name: names[value] if name in ("estimator", "failure") else _as_tuple(value)
            for name, value in row.get("with", {}).items()
        }
        several = {
            name: names[values] if isinstance(values, str) else values
            for name, values in row.get("over", {}).items()
        }
        criterion = read_criterion(row["criterion"])
        for chosen in itertools.product(*several.values()):
            words = {
                name: values[value] if isinstance(values, Mapping) else value
                for (name, values), value in zip(several.items(), chosen, strict=True)
            }
            varied = dict(zip(several, map(_as_tuple, chosen), strict=True))
            yield part(
                names[row["estimate"]],
                criterion,
                row.get("label", "").format(**words),
                row.get("unit", ""),
                digits=row.get("digits", 1),
                **arguments,
                **varied,
            )


def _as_tuple(value: Any) -> Any:
    """Lists, which partial functions cannot be compared with, as tuples."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, or one of our own."""

    name: str
    """Name on the command line, such as CA.table2.fa2: paper, place, subject"""
    statement: str
    """The statement in our own words"""
    measured: str = ""
    """How it is measured here"""
    parts: tuple[Measurement, ...] = ()
    """What is measured; see `read_parts`"""
    kind: Kind = Kind.EMPIRICAL
    departure: str = ""
    """What changes the meaning of the verdict: how the test departs from the paper's
    setting. Printed beside it"""
    readings: tuple[str, ...] = ()
    """Interpretations of an ambiguous statement; the first one is tested"""
    places: str = ""
    """The paper's tables, figures and sections covered, as "table 2, figure 5". By
    default that of its name"""
    figure: str = ""
    """The figure of `analysis.paper` that shows it, such as ca5. By default that of the
    first figure in `places`"""
    untestable: str = ""
    """The reason why it cannot be tested; empty if it can"""
    importance: int = 1
    """How important it is for its paper: 1 a detail, 2 a finding, 3 a main result"""
    meaning: str = ""
    """The consequence if it does not hold"""
    panels: str = ""
    """Name of the figure of which it is one of several panels, which count as one
    claim"""
    experiment: str = ""
    """Name of the experiment that tests it"""

    @property
    def paper(self) -> str:
        """CA, VC, CH, or OWN."""
        return self.name.split(".")[0]

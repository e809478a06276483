r"""The pair forces of particles as values (CA sections 5 and 6).

A pair of tokens i <= j has the pair sum x_ij = x_i + x_j. A `Force` describes how another
pair sum x_kl acts on x_ij. With r = \|x_ij - x_kl\| and c the cosine of the angle between
x_ij and x_kl, it is one of

    along the difference    strength(r) (x_ij - x_kl) / r
    along the other         strength(c) x_kl / \|x_kl\|

between pairs with equal sums i + j modulo N (like), with different ones (unlike), or
both. The sum over kl acts on both particles i and j. The total force on the particles is
the sum of all forces, each times its constant and its weight, which balances it with
another force.

A force is 0 where it is undefined: along the difference of two pair sums that coincide,
and for a pair sum at the origin, which has no direction.

`CA` is the law of the paper; its constants f_a, g_a, g_r and its balance are settings."""

import dataclasses
import functools
import json
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from dynamics.errors import SettingsError, check_choice
from dynamics.expressions import Expression, parse_expression
from dynamics.folders import read_plain_file
from dynamics.number_tables import TABLE_FORM, read_table
from dynamics.own_functions import own_function_text

if TYPE_CHECKING:
    Strength = str | Callable[[float], float]
else:
    Strength = str  # what a Force stores, and what files contain

PairKind = Literal["like", "unlike", "all"]
"""Pairs of pair sums that a force acts between: with equal modular sums, with different
ones, or both."""
ForceDirection = Literal["difference", "other"]
BalanceRule = Literal["magnitude", "count", "none"]

VARIABLES = {"difference": "r", "other": "c"}
"""The variable of the strength, by the direction of a force."""
CONSTANTS = ("fa", "ga", "gr")
"""Settings of particles that may be the constant of a force."""
BALANCES = ("repulsion_balance", "alignment_balance")
"""Settings of particles that may be the balance of a force."""


@dataclasses.dataclass(frozen=True)
class Force:
    """One force between pair sums. All values are dimensionless.

    Parameters
    ----------
    name : str
        A Python identifier; no other force of the law has it.
    pairs : {"like", "unlike", "all"}
        The pairs of tokens that it acts between: those with equal sums modulo N, with
        different ones, or both.
    along : {"difference", "other"}
        Its direction: away from the other pair sum, or along the other pair sum.
    strength : str or callable
        Its size as an expression of the distance r of two pair sums (along the
        difference), or of the cosine c of the angle between them (along the other).
        Positive is repulsion, or alignment. Or a function of one number that Numba can
        compile; it is identified by its source, and files contain its name.
    constant : float or str, optional
        A factor: a number, or the setting "fa", "ga" or "gr".
    balance : str, optional
        Its weight: "magnitude" makes the summed magnitudes of this force and of
        `against` equal, with constants of 1; "count" is the number of pairs that
        `against` acts between over that of this force; "none" is 1. The settings
        "repulsion_balance" and "alignment_balance" name one of the three.
    against : str, optional
        Name of the force that this one is balanced with.

    Raises
    ------
    SettingsError
        If a value is not allowed.

    See Also
    --------
    dynamics.ParticleSettings : Its `law` is a tuple of forces.

    Examples
    --------
    >>> from dynamics import ParticleSettings, forces, simulate
    >>> core = forces.Force("core", "like", "difference", "exp(-3*r)", constant=5.0)
    >>> settings = ParticleSettings(n=5, law=(*forces.CA, core))
    >>> simulate(settings, runs=2, steps=10, progress=False).sizes["token"]
    5
    """

    name: str
    pairs: PairKind
    along: ForceDirection
    strength: Strength
    constant: float | str = 1.0
    balance: str = "none"
    against: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise SettingsError("name of a force", self.name, "a Python identifier")
        check_choice(f"pairs of {self.name}", self.pairs, get_args(PairKind))
        check_choice(f"direction of {self.name}", self.along, get_args(ForceDirection))
        rules = (*get_args(BalanceRule), *BALANCES)
        check_choice(f"balance of {self.name}", self.balance, rules)
        if not isinstance(self.against, str):
            raise SettingsError(
                f"against of {self.name}", self.against, "the name of a force"
            )
        constant = _checked_constant(f"constant of {self.name}", self.constant)
        object.__setattr__(self, "constant", constant)
        variable = VARIABLES[self.along]
        text = self.strength
        if callable(text):
            text = own_function_text(text, variable)
        expression = parse_expression(text, variable, f"strength of {self.name}")
        object.__setattr__(self, "strength", expression.text)

    @functools.cached_property
    def expression(self) -> Expression:
        """The strength as a tree, which can be evaluated and differentiated."""
        return parse_expression(
            str(self.strength), VARIABLES[self.along], f"strength of {self.name}"
        )

    @property
    def is_radial(self) -> bool:
        """Whether it acts along the difference of two pair sums."""
        return self.along == "difference"

    def acts_between(self, kind: Literal["like", "unlike"]) -> bool:
        """Whether it acts between pairs with equal, or with different modular sums."""
        return self.pairs in (kind, "all")


def _checked_constant(field: str, value: object) -> float | str:
    """The constant of a force: a finite number, or the name of a setting."""
    if isinstance(value, str):
        check_choice(field, value, CONSTANTS)
        return value
    number = float(value) if isinstance(value, numbers.Real) else float("nan")
    if isinstance(value, bool) or not abs(number) <= 1e6:
        allowed = f"a number from -1e6 to 1e6, or one of {', '.join(CONSTANTS)}"
        raise SettingsError(field, value, allowed)
    return number


@functools.lru_cache(maxsize=64)
def ca_forces(
    attraction: str = "1", repulsion: str = "1/r", alignment: str = "c > 0"
) -> tuple[Force, ...]:
    """The four forces of CA (equations 2 to 4), with other strengths if they are given.

    Parameters
    ----------
    attraction, repulsion : str, optional
        Expressions of r: strength of the attraction between pairs with equal modular
        sums, and of the repulsion between those with different ones.
    alignment : str, optional
        Expression of c: strength of the alignment; between pairs with different sums it
        acts in the opposite direction.

    Returns
    -------
    tuple of Force

    Examples
    --------
    >>> [force.strength for force in ca_forces(repulsion="1/r**3")]
    ['-1', '1/r**3', 'c > 0', '-(c > 0)']
    """
    return (
        Force("like_attraction", "like", "difference", f"-({attraction})", "ga"),
        Force(
            "unlike_repulsion",
            "unlike",
            "difference",
            repulsion,
            "gr",
            "repulsion_balance",
            "like_attraction",
        ),
        Force("like_alignment", "like", "other", alignment, "fa"),
        Force(
            "unlike_alignment",
            "unlike",
            "other",
            f"-({alignment})",
            "fa",
            "alignment_balance",
            "like_alignment",
        ),
    )


CA = ca_forces()
"""The law of CA section 6: attraction, repulsion and alignment."""


def strength_text(text: str, variable: str, field: str) -> str:
    """The text of a strength: that of the expression, or of the table in a file (.csv)
    whose rows are values of the variable and of the strength.

    Raises SettingsError.
    """
    if isinstance(text, str) and text.endswith(".csv"):
        text = _table_text(Path(text), variable, field)
    return parse_expression(text, variable, field).text


def _table_text(path: Path, variable: str, field: str) -> str:
    """The table of a file as an expression. Rows may have any order; the first one may
    be a heading."""
    try:
        rows = [row for _, row in read_table(read_plain_file(path))]
    except OSError as error:
        raise SettingsError(
            field, f"{path} ({error.strerror})", "a file that can be read"
        ) from None
    except ValueError as error:
        raise SettingsError(field, f"{path} ({error})", "a table") from None
    table: dict[float, float] = {}
    for row in rows:
        numbers = [number for number in map(_number, row) if number is not None]
        found = f"the row {','.join(row)[:60]!r} in {path}"
        if len(numbers) != 2 or len(row) != 2:
            allowed = f"two numbers, {variable} and the strength, {TABLE_FORM}"
            raise SettingsError(field, found, allowed)
        x, strength = numbers
        if x in table:
            raise SettingsError(field, found, f"each value of {variable} in one row")
        table[x] = strength
    if len(table) < 2:
        found = f"fewer than two rows of numbers in {path}"
        raise SettingsError(field, found, "two or more")
    points = sorted(table)
    return f"interp({variable}, {points}, {[table[x] for x in points]})"


def _number(text: str) -> float | None:
    """The finite number that a text is, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def check_law(law: Sequence[Force]) -> tuple[Force, ...]:
    """Check that the forces of a law have different names and are balanced with forces
    of the law; return them as a tuple.

    Raises SettingsError.
    """
    allowed = "a tuple of dynamics.forces.Force"
    if not isinstance(law, list | tuple):
        raise SettingsError("law", law, allowed)
    forces = tuple(law)
    for force in forces:
        if not isinstance(force, Force):
            raise SettingsError("law", force, allowed)
    names = [force.name for force in forces]
    if len(set(names)) < len(names):
        raise SettingsError("law", ", ".join(names), "forces with different names")
    for force in forces:
        others = [name for name in names if name != force.name]
        needs_other = force.balance != "none" or force.against
        if needs_other and force.against not in others:
            raise SettingsError(
                f"against of {force.name}",
                force.against,
                f"another force of the law ({', '.join(others) or 'there is none'})",
            )
    return forces


@functools.lru_cache(maxsize=64)
def bare_forces(law: tuple[Force, ...]) -> tuple[Force, ...]:
    """The forces of a law without their constants and balance: what kernels are
    compiled for."""
    return tuple(
        Force(force.name, force.pairs, force.along, force.strength) for force in law
    )


def law_json(law: Iterable[Force]) -> str:
    """A law as JSON, which `law_from_json` reads."""
    return json.dumps([dataclasses.asdict(force) for force in law])


def law_from_json(text: str) -> tuple[Force, ...]:
    """The law that `law_json` has written.

    Raises
    ------
    SettingsError
        If the text is something else.

    Examples
    --------
    >>> law_from_json(law_json(CA)) == CA
    True
    """
    allowed = "a list of forces as JSON"
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError("law", text[:60], f"{allowed} ({error})") from None
    if not isinstance(values, list):
        raise SettingsError("law", text[:60], allowed)
    names = [field.name for field in dataclasses.fields(Force)]
    for value in values:
        if not isinstance(value, dict) or not {
            "name",
            "pairs",
            "along",
            "strength",
        } <= (value.keys()):
            raise SettingsError(
                "law", value, "forces with name, pairs, along and strength"
            )
        unknown = sorted(value.keys() - set(names))
        if unknown:
            raise SettingsError("law", unknown[0], f"the fields {', '.join(names)}")
    return check_law([Force(**value) for value in values])

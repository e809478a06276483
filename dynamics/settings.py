"""Settings: what the physics and the optimisation of a run are, and nothing about how much of it is run.

One frozen dataclass per system is at once the Python API, the command line and the provenance saved in a
trajectory. Names and symbols are the papers'; CA is Musat, arXiv 2408.09414. Standard library only, so
that a command line can be built, and its help printed, without importing anything heavy.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal


class SettingsError(ValueError):
    """A setting outside what is allowed; names the field, what was found and what is allowed."""

    def __init__(self, field: str, found: object, allowed: str) -> None:
        self.field, self.found, self.allowed = field, found, allowed
        super().__init__(f"{field}: found {found}, allowed is {allowed}")

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:  # for transport between processes
        return type(self), (self.field, self.found, self.allowed)


def check_whole(field: str, value: object, low: int, high: int) -> None:
    """Refuse what is not an int in low..high."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(field, value, f"a whole number from {low} to {high}")


def check_real(field: str, value: object, *, positive: bool = False) -> None:
    """Refuse what is not a finite number of at most 1e6 that is at least 0, or above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsError(field, value, "a finite number")
    if value < 0 or (positive and value == 0) or value > 1e6:
        raise SettingsError(field, value, f"a number {'above 0' if positive else 'from 0'} up to 1e6")


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of the named choices."""
    if value not in choices:
        raise SettingsError(field, value, "one of " + ", ".join(choices))


StepRule = Literal["force", "direction", "particle"]
Balance = Literal["magnitude", "count", "none"]
Variance = Literal["overall", "axis", "none"]
Diagonal = Literal["twice", "once", "none"]


@dataclass(frozen=True)
class ParticleSettings:
    """N particles in D dimensions under the pair forces of CA sections 5 and 6. All values are dimensionless.

    Below `dim` stand the choices that the paper leaves open. Their defaults are the most literal reading
    of section 6 that reproduces its table 2.
    """

    system: ClassVar[str] = "particles"
    default_steps: ClassVar[int] = 100
    default_every: ClassVar[int] = 1

    fa: float = 1.0
    """Alignment constant f_a (CA eq 4)."""
    ga: float = 1.0
    """Attraction constant g_a between pair sums of equal modular sum (CA eq 3)."""
    gr: float = 1.0
    """Repulsion constant g_r between pair sums of different modular sum (CA eq 2)."""
    n: int = 17
    """Number of particles N, which is also the modulus."""
    dim: int = 2
    """Dimension D of the space."""
    step_size: float = 0.003
    """Length scale of one step."""
    step_rule: StepRule = "force"
    """How a step follows the force F: x += step_size F; or F scaled to norm sqrt(N) ("direction"); or each
    particle's own force scaled to norm 1 ("particle")."""
    repulsion_balance: Balance = "magnitude"
    """Weight of repulsion: its summed magnitude made equal to that of attraction, both at constant 1; or the
    ratio of the numbers of like and unlike pairs; or 1."""
    alignment_balance: Balance = "count"
    """Weight of the alignment of unlike pairs against like ones, by the same rules."""
    variance: Variance = "overall"
    """What is kept at 1 after every step: one standard deviation over all coordinates; one along each axis;
    or nothing."""
    diagonal: Diagonal = "twice"
    """Whether (i, i) is a pair whose force particle i takes twice, takes once, or no pair."""
    start: str = "random"
    """First positions: "random" (standard normal, from the seed), or a file with an embedding: a trajectory
    (.nc, the run of the same seed), .npy (token, axis) or (seed, token, axis), or .csv (a row a token)."""
    start_step: int = 0
    """Step of a trajectory given as start; -1 is its last."""

    @property
    def time_step(self) -> float:
        """Time that passes in one step, so that `time` is time_step x step."""
        return self.step_size

    def __post_init__(self) -> None:
        for field in ("fa", "ga", "gr"):
            check_real(field, getattr(self, field))
        check_real("step_size", self.step_size, positive=True)
        check_whole("n", self.n, 1, 100_000)
        check_whole("dim", self.dim, 1, 1_000)
        check_choice("step_rule", self.step_rule, ("force", "direction", "particle"))
        check_choice("repulsion_balance", self.repulsion_balance, ("magnitude", "count", "none"))
        check_choice("alignment_balance", self.alignment_balance, ("magnitude", "count", "none"))
        check_choice("variance", self.variance, ("overall", "axis", "none"))
        check_choice("diagonal", self.diagonal, ("twice", "once", "none"))
        if not isinstance(self.start, str) or not self.start:
            raise SettingsError("start", self.start, '"random" or the path of a file')
        check_whole("start_step", self.start_step, -1, 2**62)
        if self.start == "random" and self.start_step != 0:
            raise SettingsError("start_step", self.start_step, "0 unless start is a trajectory")


Settings = ParticleSettings
"""The settings of any system."""

SETTINGS: dict[str, type[Settings]] = {ParticleSettings.system: ParticleSettings}
"""Settings class by the `system` that a trajectory names."""

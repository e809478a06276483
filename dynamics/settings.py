"""Settings of the systems: physics and optimisation. How many runs and steps are computed
is not among them; `EnsembleArguments` has it.

The settings of each system are a frozen dataclass. It is used in Python, defines the
options of the command line, and is saved in trajectories. Names and symbols are those
of the papers: CA is Musat, arXiv 2408.09414, and VC is Odonnat, Bouaziz, Cabannes,
arXiv 2410.24050. This module imports only the standard library, so that --help is fast.
"""

import contextlib
import dataclasses
import hashlib
import importlib
import math
import numbers
import operator
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, get_args

from dynamics import forces, optimizers, schedules
from dynamics.errors import MissingFile, SettingsError, check_choice
from dynamics.folders import read_plain_file
from dynamics.forces import BalanceRule, Force
from dynamics.optimizers import Optimizer
from dynamics.pair_lists import FIELD as PAIR_LIST
from dynamics.pair_lists import parse_pairs


def check_integer(field: str, value: object, low: int, high: int) -> int:
    """Check that a value is a Python or NumPy integer from low to high; return it as an
    int. Raises SettingsError."""
    try:
        number = low - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = low - 1
    if not low <= number <= high:
        raise SettingsError(field, value, f"a whole number from {low} to {high}")
    return number


def check_real(
    field: str,
    value: object,
    *,
    positive: bool = False,
    up_to: float = 1e6,
    below: float = float("inf"),
) -> float:
    """Check that a value is at least 0 (or `positive`), and at most `up_to` or below
    `below`; return it as a float.

    Raises SettingsError.
    """
    limit = (
        f"below {below:g}" if below <= up_to else f"up to {up_to:g}".replace("e+0", "e")
    )
    allowed = f"a finite number {'above 0' if positive else 'from 0'} {limit}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SettingsError(field, value, allowed)
    number = float(value) if abs(value) <= up_to else float("nan")  # type: ignore[operator]
    if not 0 <= number < below or (positive and number == 0):
        raise SettingsError(field, value, allowed)
    return abs(number)  # -0.0 becomes 0.0


def _check_field(
    settings: object,
    field: str,
    check: Callable[..., Any],
    *limits: int,
    **options: Any,
) -> None:
    """Replace a field of frozen settings by the value that `check` returns for it."""
    object.__setattr__(
        settings, field, check(field, getattr(settings, field), *limits, **options)
    )


class Settings(Protocol):
    """The attributes that the settings of every system have. A settings class is a
    frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    system: ClassVar[str]
    """Name of the system in trajectories."""

    @property
    def default_steps(self) -> int: ...

    @property
    def default_every(self) -> int: ...

    @property
    def epoch_steps(self) -> int:
        """Steps in an epoch; 0 for a system without epochs."""

    @property
    def modulus(self) -> int:
        """The modulus of the addition, N (CA) or p (VC)."""

    @property
    def time_step(self) -> float:
        """Time that passes in one step: `time` is time_step x step."""


RecordMode = Literal["all", "metrics"]
"""Which variables of a run are recorded: all, or only norms, losses and accuracies."""

StepRule = Literal["force", "direction", "particle"]
VarianceRule = Literal["overall", "axis", "none"]
DiagonalRule = Literal["twice", "once", "none"]
SumMethod = Literal["auto", "direct", "mesh", "tree"]
"""How forces are summed; "tree" is the former name of "mesh", which files keep. In files
of another dimension than 2 it stands for fast sums that there are no more."""

MESH_PARTICLES = 128
"""Number of particles in the plane from which "auto" selects the fast summation, which
is faster there by measured time."""

SAVED_IF_CHANGED = {"saved": "if changed"}
"""Metadata of settings that saved settings contain only if they differ from their
defaults: settings added after files had been written, which keep their names so."""


RANDOM = "random"
"""The setting `start` of runs whose initial values are drawn with their seeds."""


class StartSettings:
    """Settings of a system whose initial values may come from a file."""

    start: str
    """RANDOM, or a file."""
    start_step: int
    """Recorded step of the file, if it is a trajectory."""

    def _check_start(self) -> None:
        if not isinstance(self.start, str) or not self.start:
            raise SettingsError("start", self.start, '"random" or the path of a file')
        _check_field(self, "start_step", check_integer, -1, 2**62)
        if self.start == RANDOM and self.start_step != 0:
            raise SettingsError(
                "start_step", self.start_step, "0 unless start is a trajectory"
            )


def saved_settings(settings: Any) -> dict[str, Any]:
    """The settings as files contain them; they are part of the identity of a run."""
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(settings)
        if field.metadata == SAVED_IF_CHANGED
    }
    values = dataclasses.asdict(settings)
    if getattr(settings, "uses_mesh", False):
        values["method"] = "tree"  # so that names of files stay as they were
    return {
        name: value
        for name, value in values.items()
        if name not in defaults or value != defaults[name]
    }


@dataclass(frozen=True)
class ParticleSettings(StartSettings):
    """N particles in D dimensions under the pair forces of CA sections 5 and 6. All
    values are dimensionless.

    The settings from `step_size` on are not specified by the paper. Their defaults are
    the most literal interpretation of section 6 that reproduces its table 2.

    Raises
    ------
    SettingsError
        If a value is not allowed. The other settings classes raise it too.

    Examples
    --------
    >>> from dynamics import ParticleSettings
    >>> ParticleSettings(fa=2.0).n
    17
    >>> ParticleSettings(fa=-1.0)
    Traceback (most recent call last):
    dynamics.errors.SettingsError: fa: found -1.0, allowed is a finite number from 0 up to 1e6
    """

    system: ClassVar[str] = "particles"
    default_steps: ClassVar[int] = 100
    default_every: ClassVar[int] = 1
    epoch_steps: ClassVar[int] = 0

    fa: float = 1.0
    """Alignment constant f_a (CA eq 4)."""
    ga: float = 1.0
    """Attraction constant g_a, between pair sums with equal modular sums (CA eq 3)."""
    gr: float = 1.0
    """Repulsion constant g_r, between pair sums with different modular sums (CA eq
    2)."""
    n: int = 17
    """Number of particles N, which is also the modulus."""
    dim: int = 2
    """Dimension D of the space."""
    step_size: float = 0.003
    """Factor that multiplies the force in each step."""
    step_rule: StepRule = "force"
    """Displacement in a step: step size times the force ("force"), times the force
    scaled to total norm sqrt(N) ("direction"), or times the force scaled to norm 1 for
    each particle ("particle")."""
    repulsion_balance: BalanceRule = "magnitude"
    """Weight of the repulsion: chosen so that with g_a = g_r = 1 the summed magnitudes
    of attraction and repulsion are equal ("magnitude"), the ratio of the number of
    pairs with equal sums to that with different sums ("count"), or 1 ("none")."""
    alignment_balance: BalanceRule = "count"
    """Weight of the alignment between pairs with different sums, relative to that
    between pairs with equal sums. Same choices as for the repulsion."""
    variance: VarianceRule = "overall"
    """Normalisation after every step: the standard deviation over all coordinates is
    set to 1 ("overall"), that along each axis is set to 1 ("axis"), or it is left as it
    is ("none"). The mean is subtracted in any case."""
    diagonal: DiagonalRule = "twice"
    """Number of times that the force on the pair (i, i) acts on particle i: twice, or
    once. With "none", (i, i) is no pair: it neither feels nor exerts a force."""
    attraction: str = dataclasses.field(default="1", metadata=SAVED_IF_CHANGED)
    """Strength of the attraction between pairs with equal modular sums, as an
    expression of their distance r, such as "exp(-r)", or a table of r and strength
    (.csv). Positive values attract."""
    repulsion: str = dataclasses.field(default="1/r", metadata=SAVED_IF_CHANGED)
    """Strength of the repulsion between pairs with different modular sums, as an
    expression of their distance r, such as "1/r**3", or a table (.csv). Positive values
    repel."""
    alignment: str = dataclasses.field(default="c > 0", metadata=SAVED_IF_CHANGED)
    """Strength of the alignment, as an expression of the cosine c of the angle between
    two pair sums, such as "c > 0.5" (1 where it is true, else 0), or a table (.csv)."""
    law: tuple[Force, ...] = dataclasses.field(default=(), metadata=SAVED_IF_CHANGED)
    """Another law than CA's: its forces. On the command line a file that analysis.pair_law
    has written (.nc), or forces as JSON or in a file (.json). It replaces --attraction,
    --repulsion and --alignment."""
    temperature: float = dataclasses.field(default=0.0, metadata=SAVED_IF_CHANGED)
    """Temperature T of noise: in each step every coordinate moves by sqrt(2 T step_size)
    times a standard normal number."""
    start: str = RANDOM
    """Initial positions: "random" (standard normal, drawn with the seed of the run), or
    a file: a trajectory (.nc; the run with the same seed is used), an array (.npy) of
    shape (token, axis) or (seed, token, axis), or a table (.csv, .txt and others) with
    one row per token, with or without a header, and with commas, semicolons, tabs or
    blanks between the numbers."""
    start_step: int = 0
    """Recorded step whose positions are used if --start is a trajectory; -1 is the last
    step."""
    method: SumMethod = dataclasses.field(default="auto", metadata=SAVED_IF_CHANGED)
    """Summation of forces: over all pairs of pair sums ("direct"), by a fast summation
    with cells, a mesh and Fourier transforms in two dimensions ("mesh"; "tree" is its
    former name), or the one or the other by the number of particles ("auto": mesh from
    N = 128 in two dimensions)."""
    accuracy: float = dataclasses.field(default=1e-6, metadata=SAVED_IF_CHANGED)
    """Largest error of the forces of method "mesh", relative to the largest force;
    direct sums are exact."""

    @property
    def modulus(self) -> int:
        """N, the number of particles."""
        return self.n

    @property
    def time_step(self) -> float:
        """The step size."""
        return self.step_size

    @property
    def forces(self) -> tuple[Force, ...]:
        """The forces of the law."""
        if self.law:
            return self.law
        return forces.ca_forces(self.attraction, self.repulsion, self.alignment)

    def constant_of(self, force: Force) -> float:
        """The constant of a force."""
        if isinstance(force.constant, str):
            return float(getattr(self, force.constant))
        return force.constant

    def balance_of(self, force: Force) -> BalanceRule:
        """The rule that balances a force."""
        rule: BalanceRule = getattr(self, force.balance, force.balance)  # type: ignore[arg-type]
        return rule

    @property
    def uses_mesh(self) -> bool:
        """Whether forces are summed on a mesh: the method "mesh", or what "auto"
        selects for this number of particles."""
        if self.method != "auto":
            return self.method == "mesh"
        return self.dim == 2 and self.n >= MESH_PARTICLES and self.has_ca_strengths

    @property
    def has_ca_strengths(self) -> bool:
        """Whether the forces are those of CA, but for constants and balance."""
        return forces.bare_forces(self.forces) == forces.bare_forces(forces.CA)

    @property
    def unused_settings(self) -> tuple[str, ...]:
        """Names of the constants and balances that no force of the law has."""
        used = {
            name for force in self.forces for name in (force.constant, force.balance)
        }
        settings = (*forces.CONSTANTS, *forces.BALANCES)
        return tuple(name for name in settings if name not in used)

    def _check_unused(self, name: str) -> None:
        """Raise SettingsError if a setting that the law does not use is not its
        default."""
        default = getattr(type(self), name)
        if getattr(self, name) != default:
            allowed = (
                f"{default}: no force of the law has {name} as constant or balance"
            )
            raise SettingsError(name, getattr(self, name), allowed)

    def __post_init__(self) -> None:
        for name in ("fa", "ga", "gr", "temperature"):
            _check_field(self, name, check_real)
        for name in ("attraction", "repulsion", "alignment"):
            variable = "c" if name == "alignment" else "r"
            text = forces.strength_text(getattr(self, name), variable, name)
            object.__setattr__(self, name, text)
        object.__setattr__(self, "law", forces.check_law(self.law))
        strengths = (self.attraction, self.repulsion, self.alignment)
        if self.law and forces.ca_forces(*strengths) != forces.CA:
            raise SettingsError(
                "law",
                "a law of its own and other strengths of CA's forces",
                "the one or the other; law=() is CA's law",
            )
        if self.law:
            for name in self.unused_settings:
                self._check_unused(name)
        _check_field(self, "step_size", check_real, positive=True)
        _check_field(self, "n", check_integer, 2, 100_000)
        _check_field(
            self, "dim", check_integer, 1, 64
        )  # kernels are unrolled over axes
        for name, choices in PARTICLE_CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        check_choice("method", self.method, get_args(SumMethod))
        if self.method == "tree":
            method = "mesh" if self.dim == 2 else "direct"
            object.__setattr__(self, "method", method)
        if self.method == "mesh" and self.dim != 2:
            raise SettingsError("method", "mesh", "direct or auto unless dim is 2")
        if self.method == "mesh" and not self.has_ca_strengths:
            allowed = "direct or auto for other strengths than CA's"
            raise SettingsError("method", "mesh", allowed)
        _check_field(self, "accuracy", check_real, positive=True, up_to=0.01)
        if self.accuracy < 1e-10:
            raise SettingsError(
                "accuracy",
                self.accuracy,
                "a number from 1e-10 to 0.01, or method direct",
            )
        self._check_start()


def scaled_step_size(step_size: float, n: int) -> float:
    """The step size with which N particles move as far in a step as 17 particles, the
    number in CA, move with `step_size`: forces grow as N²."""
    return step_size * (ParticleSettings.n / n) ** 2


@dataclass(frozen=True)
class OptimizerSettings:
    """The optimizer, shared by the settings of both networks. All values are
    dimensionless."""

    lr: float = 0.001
    """Learning rate."""
    optimizer: str = "adam"
    """Optimizer: sgd, adam or adamw, as in torch.optim, or a registered one."""
    weight_decay: float = 0.0
    """Weight decay of all parameters; for adam and sgd, the coefficient of an L2 term
    in the loss."""
    beta1: float = 0.9
    """Decay rate of the mean gradient in adam, adamw and registered optimizers with
    beta1."""
    beta2: float = 0.999
    """Decay rate of the mean squared gradient in adam, adamw and registered optimizers
    with beta2."""
    momentum: float = 0.0
    """Momentum of sgd and of registered optimizers with momentum."""
    eps: float = dataclasses.field(default=1e-8, metadata=SAVED_IF_CHANGED)
    """The number that adam and adamw add to the root of the mean squared gradient; also
    of registered optimizers with eps."""
    schedule: str = dataclasses.field(default="constant", metadata=SAVED_IF_CHANGED)
    """Schedule of the learning rate: constant, warmup:STEPS, cosine:STEPS:FLOOR, a
    registered one, or several separated by commas, which multiply."""
    decay_of: tuple[str, ...] = dataclasses.field(default=(), metadata=SAVED_IF_CHANGED)
    """Weight decay of single variables of the network, as in embedding=0."""
    lr_of: tuple[str, ...] = dataclasses.field(default=(), metadata=SAVED_IF_CHANGED)
    """Learning rate of single variables of the network, as in embedding=0.001."""
    freeze: tuple[str, ...] = dataclasses.field(default=(), metadata=SAVED_IF_CHANGED)
    """Variables of the network that keep their initial values."""

    @property
    def time_step(self) -> float:
        """The learning rate."""
        return self.lr

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The numbers of the optimizer by name."""
        return {name: getattr(self, name) for name in optimizers.HYPERPARAMETERS}

    @property
    def optimizer_value(self) -> Optimizer:
        """The optimizer as a value."""
        identity = _optimizer_identity(self.optimizer)  # in another process, too
        optimizer = optimizers.find_optimizer(identity)
        return optimizer.with_hyperparameters(self.hyperparameters)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the variables of the network that are trained."""
        return ()

    def learning_rate_of(self, variable: str) -> float:
        """The learning rate of a variable of the network, such as "embedding"."""
        if variable in self.freeze:
            return 0.0
        return values_by_variable(self.lr_of).get(variable, self._common_rate(variable))

    def weight_decay_of(self, variable: str) -> float:
        """The weight decay of a variable of the network, such as "embedding"."""
        own = values_by_variable(self.decay_of)
        return own.get(variable, self._common_decay(variable))

    def _common_rate(self, variable: str) -> float:
        """The learning rate of a variable that `lr_of` does not name."""
        return self.lr

    def _common_decay(self, variable: str) -> float:
        """The weight decay of a variable that `decay_of` does not name."""
        return self.weight_decay

    @property
    def whole_schedule(self) -> str:
        """The schedule with what other settings contribute to it."""
        return self.schedule

    @property
    def has_schedule(self) -> bool:
        """Whether the learning rate changes during training."""
        return self.whole_schedule != schedules.CONSTANT

    def learning_rate_factor(self, step: int) -> float:
        """What multiplies learning rates in the update that follows `step` updates."""
        return schedules.schedule_factor(self.whole_schedule)(step)

    @property
    def elapsed_times(self) -> Mapping[int, float] | None:
        """The time of each step, the sum of the learning rates before it; None without a
        schedule, where it is the learning rate times the step."""
        if self.schedule == schedules.CONSTANT:
            return None
        return schedules.elapsed_times(self.lr, self.whole_schedule)

    def __post_init__(self) -> None:
        _check_field(self, "weight_decay", check_real)
        _check_field(self, "lr", check_real, positive=True)
        for field in ("beta1", "beta2", "momentum"):
            _check_field(self, field, check_real, below=1)
        _check_field(self, "eps", check_real)
        object.__setattr__(self, "optimizer", _optimizer_identity(self.optimizer))
        object.__setattr__(self, "schedule", _schedule_identity(self.schedule))
        for field in ("decay_of", "lr_of", "freeze"):
            _check_variables(self, field)
        used = optimizers.find_optimizer(self.optimizer).hyperparameters
        for field in ("beta1", "beta2", "momentum", "eps"):
            default = self.__dataclass_fields__[field].default
            value = getattr(self, field)
            if value != default and field not in used:
                names = optimizers.optimizers_with(field)
                allowed = f"{default:g} unless the optimizer is {' or '.join(names)}"
                raise SettingsError(field, value, allowed)
        if "weight_decay" not in used and (self.weight_decay or self.decay_of):
            name = optimizers.find_optimizer(self.optimizer).name
            found = self.weight_decay or " ".join(self.decay_of)
            field = "weight_decay" if self.weight_decay else "decay_of"
            raise SettingsError(field, found, f"none with {name}, which has no decay")


def values_by_variable(items: tuple[str, ...]) -> dict[str, float]:
    """The numbers in settings such as ("embedding=0.1",), by variable."""
    pairs = (item.rpartition("=") for item in items)
    return {name: float(number) for name, _, number in pairs}


def _check_variables(settings: "OptimizerSettings", field: str) -> None:
    """Check a setting whose items name variables of the network, with numbers from 0
    except for `freeze`; store them in the order of the variables. Raises
    SettingsError."""
    names = settings.weight_names
    allowed = f"variables among {', '.join(names)}"
    if field != "freeze":
        allowed = f"VARIABLE=NUMBER, each of another one of {', '.join(names)}"
    items = {}
    value = getattr(settings, field)
    for item in value:
        name, equals, number = str(item).partition("=")
        if name not in names or name in items or (equals == "") != (field == "freeze"):
            raise SettingsError(field, item, allowed)
        items[name] = name
        if equals:
            try:
                number = repr(check_real(field, float(number)))
            except ValueError:
                raise SettingsError(field, item, allowed) from None
            items[name] = f"{name}={number}"
    ordered = tuple(items[name] for name in names if name in items)
    object.__setattr__(settings, field, ordered)


def _optimizer_identity(name: object) -> str:
    """What files contain of an optimizer; modules that register optimizers are imported
    if it is not known. Raises SettingsError."""
    identity = optimizers.find_identity(str(name))
    if identity is None:
        import_external_systems()
        identity = optimizers.find_identity(str(name))
    if identity is None:
        known = optimizers.optimizer_names()
        allowed = (
            f"one of {', '.join(known)}, or of a module that registers it and that"
            f" {SYSTEM_MODULES_VARIABLE} lists"
        )
        own, at, _ = str(name).partition("@")
        if at and own in known:
            allowed = (
                f"the optimizer {own} whose source is as it was then; it has changed"
            )
        raise SettingsError("optimizer", name, allowed)
    return identity


def _schedule_identity(text: object) -> str:
    """What files contain of a schedule, as `_optimizer_identity`."""
    names = schedules.schedule_names(str(text))
    if None in map(schedules.find_identity, names):
        import_external_systems()
    return schedules.schedule_identity(str(text))


ActivationName = Literal["relu", "gelu", "tanh"]
"""Activations of hidden layers; `dynamics.networks.activation_functions` has them."""


class PairSplit:
    """Which pairs are trained on, in the settings of networks that learn pairs of
    tokens: a share of all, drawn by the seed of each run or by one seed for all runs, or
    those that a file lists."""

    train_share: float
    split_seed: int | None
    train_pairs_file: str | None

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        raise NotImplementedError

    @property
    def train_pairs(self) -> int:
        """Number of pairs that are trained on."""
        return int(self.train_share * self.pairs + 1e-9)  # 0.7 of 10 pairs is 7

    @property
    def pair_tokens(self) -> int:
        """Number of tokens that pairs consist of."""
        raise NotImplementedError

    def pair_of(self, first: int, second: int) -> tuple[int, int] | None:
        """The pair of the task that two tokens are; None if it is no pair of it."""
        raise NotImplementedError

    def listed_pairs(self) -> tuple[tuple[int, int], ...] | None:
        """The training pairs that the file lists; None without a file. Raises
        SettingsError if the file is missing or has changed."""
        if self.train_pairs_file is None:
            return None
        pairs = _pairs_in_file(self)
        share = len(pairs) / self.pairs
        if self.train_share != share:
            allowed = f"no other than {share:g}, that of the pairs in the file"
            raise SettingsError("train_share", self.train_share, allowed)
        return pairs

    def _check_split(self) -> None:
        """Check the fields; a file determines the share and gets the hash of its
        content."""
        if self.split_seed is not None:
            _check_field(self, "split_seed", check_integer, 0, 2**62)
        if self.train_pairs_file is not None:
            self._check_list()
        _check_field(self, "train_share", check_real, positive=True, up_to=1)
        if self.train_pairs < 1:
            allowed = f"a fraction that selects at least one of the {self.pairs} pairs"
            raise SettingsError("train_share", self.train_share, allowed)

    def _check_list(self) -> None:
        name = self.train_pairs_file
        if not isinstance(name, str) or not name:
            raise SettingsError(PAIR_LIST, name, "the path of a file, or none")
        if self.split_seed is not None:
            allowed = "none with --train-pairs-file, whose pairs all runs have"
            raise SettingsError("split_seed", self.split_seed, allowed)
        if HASH_SEPARATOR in name:
            with contextlib.suppress(MissingFile):  # which few analyses need
                self.listed_pairs()
            return
        pinned = append_content_hash(name, PAIR_LIST)
        object.__setattr__(self, PAIR_LIST, pinned)
        share = len(_pairs_in_file(self)) / self.pairs
        if self.train_share not in (type(self).train_share, share):
            allowed = "none with --train-pairs-file, which determines it"
            raise SettingsError("train_share", self.train_share, allowed)
        object.__setattr__(self, "train_share", share)


def _pairs_in_file(settings: PairSplit) -> tuple[tuple[int, int], ...]:
    """The pairs in the file that settings name with its hash. Raises SettingsError."""
    assert settings.train_pairs_file is not None
    path = verify_content_hash(settings.train_pairs_file, PAIR_LIST)
    return parse_pairs(
        read_plain_file(path), str(path), settings.pair_tokens, settings.pair_of
    )


def changed_settings(settings: Any, changes: Mapping[str, Any]) -> Any:
    """The settings with some changed; another list of training pairs, or none, replaces
    the share of the former one. Raises SettingsError."""
    if PAIR_LIST in changes:
        changes = {"train_share": type(settings).train_share, **changes}
    return dataclasses.replace(settings, **changes)


@dataclass(frozen=True)
class NetworkSettings(OptimizerSettings, StartSettings):
    """The optimizer and the initial weights of a network."""

    system: ClassVar[str]

    start: str = dataclasses.field(default=RANDOM, metadata=SAVED_IF_CHANGED)
    """Initial weights: "random", or of a trajectory (.nc) of this system, or arrays of
    some or all variables (.npz)."""
    start_step: int = dataclasses.field(default=0, metadata=SAVED_IF_CHANGED)
    """Recorded step of the trajectory given as --start; -1 is the last."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_start()


@dataclass(frozen=True)
class ModularSettings(PairSplit, NetworkSettings):
    """A transformer with constant attention that learns addition modulo N (CA sections
    3 and 4), trained on the whole training split at every step. All values are
    dimensionless.

    Examples
    --------
    >>> from dynamics import ModularSettings
    >>> settings = ModularSettings(n=5, train_share=0.8)
    >>> settings.pairs, settings.train_pairs
    (15, 12)
    """

    system: ClassVar[str] = "modular"
    default_steps: ClassVar[int] = 2000
    default_every: ClassVar[int] = 10
    epoch_steps: ClassVar[int] = 1

    lr: float = 0.01
    """Learning rate."""
    optimizer: str = "adamw"
    """Optimizer: sgd, adam or adamw, as in torch.optim, or a registered one."""
    weight_decay: float = 0.6
    """Weight decay of all parameters (CA: 0, 0.3, 0.6, 1); for adam and sgd, the
    coefficient of an L2 term."""
    n: int = 17
    """Number of tokens N, which is also the modulus."""
    hidden: int = 32
    """Width H of the hidden layer."""
    dim: int = 2
    """Dimension D of the embeddings."""
    train_share: float = 0.8
    """Fraction of the N(N+1)/2 pairs that are used for training (their number is
    rounded down); the others are used for validation."""
    embedding_weight_decay: float | None = dataclasses.field(
        default=None, metadata=SAVED_IF_CHANGED
    )
    """Former name of --decay-of embedding=NUMBER."""
    split_seed: int | None = dataclasses.field(default=None, metadata=SAVED_IF_CHANGED)
    """Seed of the training pairs of all runs. Default: each run has pairs of its own,
    by its seed."""
    activation: ActivationName = dataclasses.field(
        default="relu", metadata=SAVED_IF_CHANGED
    )
    """Activation function of the hidden layer."""
    train_pairs_file: str | None = dataclasses.field(
        default=None, metadata=SAVED_IF_CHANGED
    )
    """CSV file of the training pairs of all runs."""

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the variables of the network that are trained."""
        hidden, output = (
            ("hidden_weight", "hidden_bias"),
            ("output_weight", "output_bias"),
        )
        return ("embedding", *hidden, *output)

    @property
    def modulus(self) -> int:
        """N, the number of tokens."""
        return self.n

    def _common_decay(self, variable: str) -> float:
        if variable == "embedding" and self.embedding_weight_decay is not None:
            return self.embedding_weight_decay
        return self.weight_decay

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_weight_decay is not None:
            _check_field(self, "embedding_weight_decay", check_real)
            if "embedding" in values_by_variable(self.decay_of):
                allowed = "none if --decay-of names the embedding"
                found = self.embedding_weight_decay
                raise SettingsError("embedding_weight_decay", found, allowed)
        check_choice("activation", self.activation, get_args(ActivationName))
        _check_field(self, "n", check_integer, 2, 1000)
        _check_field(self, "hidden", check_integer, 1, 100_000)
        _check_field(self, "dim", check_integer, 1, 10_000)
        self._check_split()

    @property
    def pairs(self) -> int:
        """Number of unordered pairs of tokens."""
        return self.n * (self.n + 1) // 2

    @property
    def pair_tokens(self) -> int:
        """N, the number of tokens."""
        return self.n

    def pair_of(self, first: int, second: int) -> tuple[int, int]:
        """The two tokens in increasing order."""
        return min(first, second), max(first, second)


SUCCESS_ACCURACY = 0.98
"""Test accuracy above which a run counts as successful (VC's ablations)."""

MLP_VARIABLES = ("receptor", "assembler", "transform_bias", "receptor_bias")
"""Weights of the MLP of VC's network."""

NormName = Literal["rms", "unit", "rms-smooth", "unit-smooth"]
StartRuns = Literal["seed", "successful"]


@dataclass(frozen=True)
class SparseSettings(NetworkSettings):
    """The one-layer transformer of VC, which learns the sum modulo p of some tokens of
    a sequence (VC section 2), in mini-batches. The defaults are those of the authors'
    code. All values are dimensionless.

    VC calls the input weights of the MLP receptors and its output weights assemblers.

    Examples
    --------
    >>> from dynamics import SparseSettings
    >>> settings = SparseSettings(data=1000, batch=32)
    >>> settings.epoch_steps, settings.counting
    (32, (0, 1, 2, 3, 4))
    """

    system: ClassVar[str] = "sparse"

    lr: float = 0.003
    """Learning rate."""
    vocab: int = 2
    """Number of tokens p, which is also the modulus."""
    length: int = 12
    """Length L of the sequences."""
    sparsity: int = 5
    """Number k of tokens that are summed."""
    positions: tuple[int, ...] = ()
    """Positions of the k tokens that are summed, counted from 0. Default: the first
    k."""
    data: int = 2048
    """Number n of training sequences, drawn with replacement; the number of test
    sequences is the same."""
    batch: int = 32
    """Number of sequences in a mini-batch; the last mini-batch of an epoch may be
    smaller."""
    mlp_lr_discount: float = 1.0
    """Ratio of the learning rate of the other parameters to that of the MLP, except for
    variables in --lr-of."""
    assembler_decay: float = 0.0
    """Additional weight decay of the output weights of the MLP (the assemblers)."""
    dim: int = 2
    """Dimension d of the embeddings."""
    hidden: int = 32
    """Width h of the MLP."""
    norm: NormName = "rms"
    """Normalisation of embeddings: to root mean square 1 (rms, as in the authors' code)
    or to norm 1 (unit, as in the paper); rms-smooth and unit-smooth are smoothed near
    the origin by sigma(|x|) = |x|² (3 - 2 |x|) for |x| up to 1."""
    smooth_width: float = dataclasses.field(default=1.0, metadata=SAVED_IF_CHANGED)
    """Width w of the smoothed region of rms-smooth and unit-smooth: sigma(|x| / w) for
    |x| up to w."""
    table: int = 0
    """Number of rows of the embedding table; 0: number of tokens. Rows without a token
    are part of the softmax."""
    activation: ActivationName = "gelu"
    """Activation function of the MLP; gelu is the exact GELU, not its tanh
    approximation."""
    receptor_biases: bool = True
    """Whether the input weights of the MLP (the receptors) have biases."""
    output_bias: bool = True
    """Whether the output of the MLP has a bias, as in the authors' code; it has none in
    the paper."""
    start: str = RANDOM
    """Initial weights: "random" (from the seed), or a file: a trajectory (.nc) of this
    system, whose embedding may have fewer rows, or arrays (.npz), by variable."""
    start_step: int = 0
    """Recorded step of the trajectory given as start; -1 is its last."""
    start_runs: StartRuns = "seed"
    """Runs of the trajectory given as start that are used: the run of the same seed
    ("seed"), or in turn those whose final test accuracy is above 0.98
    ("successful")."""

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the variables of the network that are trained."""
        attention = ("embedding", "position_embedding", "query", "value")
        names = [*attention, "receptor", "assembler"]
        if self.output_bias:
            names.append("transform_bias")
        if self.receptor_biases:
            names.append("receptor_bias")
        return tuple(names)

    @property
    def modulus(self) -> int:
        """p, the number of tokens."""
        return self.vocab

    @property
    def epoch_steps(self) -> int:
        """Mini-batches in an epoch."""
        return -(-self.data // self.batch)

    @property
    def default_steps(self) -> int:
        """1000 epochs."""
        return 1000 * self.epoch_steps

    @property
    def default_every(self) -> int:
        """One epoch."""
        return self.epoch_steps

    @property
    def counting(self) -> tuple[int, ...]:
        """Positions of the tokens that are summed."""
        return self.positions or tuple(range(self.sparsity))

    @property
    def rows(self) -> int:
        """Rows of the embedding table."""
        return self.table or self.vocab

    def _common_rate(self, variable: str) -> float:
        return self.lr / self.mlp_lr_discount if variable in MLP_VARIABLES else self.lr

    def _common_decay(self, variable: str) -> float:
        added = self.assembler_decay if variable == "assembler" else 0.0
        return self.weight_decay + added

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_task()
        _check_field(self, "batch", check_integer, 1, self.data)
        _check_field(self, "mlp_lr_discount", check_real, positive=True)
        _check_field(self, "assembler_decay", check_real)
        if self.assembler_decay and "assembler" in values_by_variable(self.decay_of):
            allowed = "0 if --decay-of names the assembler"
            raise SettingsError("assembler_decay", self.assembler_decay, allowed)
        _check_field(
            self, "dim", check_integer, 1, 64
        )  # kernels are unrolled over axes
        _check_field(self, "hidden", check_integer, 1, 100_000)
        _check_field(self, "table", check_integer, 0, 10_000)
        if 0 < self.table < self.vocab:
            raise SettingsError(
                "table",
                self.table,
                f"0, or at least {self.vocab}, the number of tokens",
            )
        check_choice("norm", self.norm, get_args(NormName))
        _check_field(self, "smooth_width", check_real, positive=True)
        if self.smooth_width != 1 and not self.norm.endswith("smooth"):
            allowed = "1 unless the norm is rms-smooth or unit-smooth"
            raise SettingsError("smooth_width", self.smooth_width, allowed)
        check_choice("activation", self.activation, get_args(ActivationName))
        for field in ("receptor_biases", "output_bias"):
            if not isinstance(getattr(self, field), bool):
                raise SettingsError(field, getattr(self, field), "True or False")
        check_choice("start_runs", self.start_runs, get_args(StartRuns))
        if self.start_runs != "seed" and not str(start_file(self)).endswith(".nc"):
            raise SettingsError(
                "start_runs", self.start_runs, "seed unless start is a trajectory"
            )

    def _check_task(self) -> None:
        _check_field(self, "vocab", check_integer, 2, 10_000)
        _check_field(self, "length", check_integer, 1, 10_000)
        _check_field(self, "sparsity", check_integer, 1, self.length)
        _check_field(self, "data", check_integer, 1, 10_000_000)
        places = tuple(
            check_integer("positions", place, 0, self.length - 1)
            for place in self.positions
        )
        if places and (
            len(set(places)) != self.sparsity or len(places) != self.sparsity
        ):
            raise SettingsError(
                "positions",
                self.positions,
                f"{self.sparsity} different positions (the value of sparsity), or none",
            )
        object.__setattr__(self, "positions", places)


TaskName = Literal["add", "subtract", "multiply", "quadratic", "symmetric", "dihedral"]
InitialisationName = Literal["zhong", "nanda"]


@dataclass(frozen=True)
class TransformerSettings(PairSplit, NetworkSettings):
    """A transformer without layer normalisation that learns a binary operation:
    addition modulo p and others, or the composition in a group. The defaults are those
    of Zhong et al., arXiv 2306.17844 (ZL); those of Nanda et al., arXiv 2301.05217
    (NA), are in `TRANSFORMER_PRESETS`. All values are dimensionless.

    Examples
    --------
    >>> from dynamics import TransformerSettings
    >>> settings = TransformerSettings(n=5, dim=8, heads=2, train_share=0.6)
    >>> settings.pairs, settings.train_pairs, settings.width
    (25, 15, 32)
    """

    system: ClassVar[str] = "transformer"

    weight_decay: float = 2.0
    """Weight decay of all parameters; for adam and sgd, the coefficient of an L2 term
    in the loss."""
    optimizer: str = "adamw"
    """Optimizer: sgd, adam or adamw, as in torch.optim, or a registered one."""
    beta2: float = 0.98
    """Decay rate of the mean squared gradient in adam, adamw and registered optimizers
    with beta2."""
    warmup: int = 10
    """Number of first updates over which the learning rate increases linearly to its
    value, besides --schedule."""
    batch: int = 0
    """Number of pairs in a mini-batch; the last mini-batch of an epoch may be smaller.
    0: the whole training split."""
    task: TaskName = "add"
    """Operation: a + b, a - b, a b, or a² + ab + b² modulo n (add, subtract, multiply,
    quadratic), or the composition in the symmetric group S_n or the dihedral group D_n
    (symmetric, dihedral)."""
    n: int = 59
    """Modulus p; for groups, the n of S_n (n! elements) or D_n (2n elements)."""
    ordered: bool = True
    """Whether all ordered pairs (a, b) are data, or only those with a <= b."""
    train_share: float = 0.8
    """Fraction of the pairs that are trained on (their number is rounded down); the
    others are the test split."""
    attention_rate: float = 1.0
    """Attention rate α (ZL): the attention matrix is α softmax + (1 - α), so 0 gives
    each token the weight 1."""
    layers: int = 1
    """Number of layers L."""
    heads: int = 4
    """Number of attention heads per layer."""
    dim: int = 128
    """Width d of the residual stream, the dimension of the embeddings."""
    head_dim: int = 0
    """Width of an attention head. 0: dim / heads, rounded down, but at least 1."""
    hidden: int = 0
    """Width of the MLP. 0: 4 dim."""
    activation: ActivationName = "relu"
    """Activation function of the MLP; gelu is the exact GELU."""
    equals_token: bool = False
    """Whether the sequence is (a, b, =) instead of (a, b). The prediction is read off
    the last position."""
    causal: bool = False
    """Whether a position attends only to itself and earlier ones; with one layer this
    changes nothing."""
    own_vocabularies: bool = False
    """Whether b has embeddings of its own, so that its token is not that of the same
    element as a."""
    initialisation: InitialisationName = "zhong"
    """Standard deviation of the initial MLP weights: 1/sqrt(outputs) (zhong) or
    1/sqrt(dim) (nanda). Other weights are the same in both: 1/sqrt(dim), and
    1/sqrt(tokens) for the unembedding."""
    split_seed: int | None = dataclasses.field(default=None, metadata=SAVED_IF_CHANGED)
    """Seed of the training pairs of all runs. Default: each run has pairs of its own,
    by its seed."""
    train_pairs_file: str | None = dataclasses.field(
        default=None, metadata=SAVED_IF_CHANGED
    )
    """CSV file of the training pairs of all runs."""

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the variables of the network that are trained."""
        heads = ("query_weight", "key_weight", "value_weight", "attention_output")
        mlp = ("mlp_input", "mlp_input_bias", "mlp_output", "mlp_output_bias")
        return ("embedding", "position_embedding", *heads, *mlp, "unembedding")

    @property
    def modulus(self) -> int:
        """The modulus p; 0 for groups, whose elements are no numbers."""
        return 0 if self.task in ("symmetric", "dihedral") else self.n

    @property
    def elements(self) -> int:
        """Number of elements, which is the number of classes."""
        return {
            "symmetric": math.factorial(min(self.n, 6)),
            "dihedral": 2 * self.n,
        }.get(self.task, self.n)

    @property
    def tokens(self) -> int:
        """Number of rows of the embedding: those of a, then those of b if they are
        others, then the = token."""
        return self.elements * (1 + self.own_vocabularies) + self.equals_token

    @property
    def positions(self) -> int:
        """Length of the sequence."""
        return 2 + self.equals_token

    @property
    def width(self) -> int:
        """Width of the MLP."""
        return self.hidden or 4 * self.dim

    @property
    def head_width(self) -> int:
        """Width of an attention head."""
        return self.head_dim or max(1, self.dim // self.heads)

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        m = self.elements
        return m * m if self.ordered else m * (m + 1) // 2

    @property
    def pair_tokens(self) -> int:
        """Number of elements."""
        return self.elements

    def pair_of(self, first: int, second: int) -> tuple[int, int] | None:
        """The pair itself; None if it has a > b and only pairs a <= b are data."""
        return (first, second) if self.ordered or first <= second else None

    @property
    def batch_pairs(self) -> int:
        """Number of pairs in a mini-batch."""
        return self.batch or self.train_pairs

    @property
    def epoch_steps(self) -> int:
        """Mini-batches in an epoch."""
        return -(-self.train_pairs // self.batch_pairs)

    @property
    def default_steps(self) -> int:
        """20,000 epochs."""
        return 20_000 * self.epoch_steps

    @property
    def default_every(self) -> int:
        """100 epochs."""
        return 100 * self.epoch_steps

    @property
    def whole_schedule(self) -> str:
        """The schedule, after the warm-up."""
        warmup = f"warmup:{self.warmup}"
        return warmup if self.schedule == "constant" else f"{warmup},{self.schedule}"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("task", self.task, get_args(TaskName))
        check_choice("activation", self.activation, get_args(ActivationName))
        check_choice(
            "initialisation", self.initialisation, get_args(InitialisationName)
        )
        low, high = {"symmetric": (2, 6), "dihedral": (1, 500)}.get(
            self.task, (2, 1000)
        )
        _check_field(self, "n", check_integer, low, high)
        for field in ("layers", "heads", "dim"):
            _check_field(self, field, check_integer, 1, 10_000)
        for field in ("head_dim", "hidden", "warmup", "batch"):
            _check_field(self, field, check_integer, 0, 10_000_000)
        for field in ("ordered", "equals_token", "causal", "own_vocabularies"):
            if not isinstance(getattr(self, field), bool):
                raise SettingsError(field, getattr(self, field), "True or False")
        _check_field(self, "attention_rate", check_real, up_to=1)
        self._check_split()
        _check_field(self, "batch", check_integer, 0, self.train_pairs)


_NANDA = TransformerSettings(
    n=113,
    train_share=0.3,
    weight_decay=1.0,
    equals_token=True,
    causal=True,
    initialisation="nanda",
)

TRANSFORMER_PRESETS: dict[str, TransformerSettings] = {
    "zhong": TransformerSettings(),
    "nanda": _NANDA,
    "small": dataclasses.replace(_NANDA, n=53, train_share=0.5),
}
"""Settings of ZL, of NA, and of a smaller network that generalises earlier with the
rest as NA."""


@dataclass(frozen=True)
class RecordedSettings:
    """A model that was trained in a loop of its own and recorded by `dynamics.record`;
    it cannot be simulated.

    Examples
    --------
    >>> from dynamics import RecordedSettings
    >>> RecordedSettings(model="Transformer", modulus=113).modulus
    113
    """

    system: ClassVar[str] = "recorded"
    default_steps: ClassVar[int] = 0
    default_every: ClassVar[int] = 1

    model: str = "model"
    """Name of the model's class."""
    optimizer: str = ""
    """Name of the optimizer's class, or several joined by +."""
    parameters: int = 0
    """Number of trained parameters."""
    signature: str = ""
    """Digest of the names, shapes and types of the tensors in the model's state."""
    recorded: str = ""
    """Names of the recorded variables, separated by commas."""
    modulus: int = 0
    """Modulus of the addition that the model learns; 0 if its tokens are no numbers."""
    epoch_steps: int = 0
    """Updates in an epoch; 0 without epochs."""
    time_step: float = 1.0
    """Time that passes in one update: the learning rate of the first parameter group at
    the beginning."""
    beta1: float = 0.0
    """Decay rate of the mean gradient in Adam, if second moments are recorded."""
    eps: float = 0.0
    """The number that Adam adds to the root of the second moment, if second moments are
    recorded."""

    def __post_init__(self) -> None:
        for field, high in (
            ("modulus", 10**9),
            ("epoch_steps", 2**53),
            ("parameters", 2**62),
        ):
            _check_field(self, field, check_integer, 0, high)
        for field in ("time_step", "beta1", "eps"):
            _check_field(self, field, check_real)


MODEL_FILE = (
    "a Python file that defines any of logits(parameters, inputs), loss(parameters,"
    " batch), batches(), embedding(parameters), training_pairs(), operation(a, b) and"
    " module(config)"
)
"""What analyses of a model from outside are given, as words of an error message."""

LOSS_FILE = "a Python file that defines loss(parameters, batch) and batches()"
"""What analyses of the loss of a recorded model are given, as words of an error
message."""


PARTICLE_CHOICES: dict[str, tuple[str, ...]] = {
    "step_rule": get_args(StepRule),
    "repulsion_balance": get_args(BalanceRule),
    "alignment_balance": get_args(BalanceRule),
    "variance": get_args(VarianceRule),
    "diagonal": get_args(DiagonalRule),
}
"""Allowed values of the choices in `ParticleSettings`, in the order of their numbers in
the kernels."""

SETTINGS_CLASSES: dict[str, type] = {
    item.system: item
    for item in (ParticleSettings, ModularSettings, SparseSettings, TransformerSettings)
}
"""Settings class of each system that can be simulated, by its name in trajectories."""

SYSTEM_MODULES_VARIABLE = "TRAINING_DYNAMICS_SYSTEMS"
"""Environment variable with a comma-separated list of modules that register systems,
optimizers or schedules."""


def import_external_systems() -> None:
    """Import the modules that the environment variable lists; they register systems,
    optimizers and schedules. Raises SettingsError.

    Only this variable decides what is imported, never a trajectory file.
    """
    allowed = "modules that can be imported from here, with names such as docs.momentum"
    for name in filter(
        None, map(str.strip, os.environ.get(SYSTEM_MODULES_VARIABLE, "").split(","))
    ):
        if not all(map(str.isidentifier, name.split("."))):
            raise SettingsError(SYSTEM_MODULES_VARIABLE, name, allowed)
        try:
            importlib.import_module(name)
        except ImportError as error:
            if error.name is not None and f"{name}.".startswith(
                f"{error.name}."
            ):  # there is no such module
                raise SettingsError(SYSTEM_MODULES_VARIABLE, name, allowed) from None
            error.add_note(
                f"({SYSTEM_MODULES_VARIABLE} lists {name}, which could not be imported)"
            )
            raise
        except Exception as error:
            error.add_note(
                f"({SYSTEM_MODULES_VARIABLE} lists {name}, which could not be imported)"
            )
            raise


# ------------------------------------------------------------------------------ ensemble

MAX_STEPS = 2**53
"""Largest number of steps: all integers up to this one are exact in float64."""


@dataclass(frozen=True)
class EnsembleArguments:
    """Settings and size of an ensemble, what is recorded, and where it is computed."""

    settings: Settings
    runs: int = 100
    """Number of runs. Run r has the seed SEED + r and does not depend on the other
    runs."""
    seed: int = 0
    """Seed of the first run."""
    steps: int | None = None
    """Number of steps. Default: that of the system."""
    every: int | None = None
    """Steps between recorded frames. The first and the last step are always
    recorded."""
    record: RecordMode = "all"
    """Record all variables, or only metrics: losses, accuracies and norms, without
    embeddings and weights."""
    device: str = "auto"
    """Device to compute on."""
    backend: str = "auto"
    """How a network is computed. On a CPU, CA's network: runs on SIMD lanes, or products
    of matrices (blas). On CUDA: a block of threads a run, or products (torch). auto
    selects by cost. The last bits of a run depend on it."""
    until: str | None = None
    """Condition at which a run ends, tested at recorded frames, such as "accuracy.test >
    .99" or circle. Default: none."""


# ---------------------------------------------------------------------------- start files

FILE_SETTINGS = frozenset({"start", PAIR_LIST})
"""Settings that name a file."""

HASH_SEPARATOR = "#sha256="
"""Separates the name of a file from the SHA-256 of its content."""


def start_file(settings: Any) -> str | None:
    """The start file of settings, without its hash; None if there is none."""
    start = getattr(settings, "start", RANDOM)
    return None if start == RANDOM else start.split(HASH_SEPARATOR)[0]


def append_content_hash(start: str, field: str = "start") -> str:
    """FILE#sha256=... for the name of a file; "random", and a name that has a hash,
    unchanged. field: the setting, for error messages. Raises SettingsError."""
    if start == RANDOM or re.search(HASH_SEPARATOR + "[0-9a-f]{64}$", start):
        return start
    return f"{start}{HASH_SEPARATOR}{file_sha256(Path(start), field)}"


def verify_content_hash(start: str, field: str = "start") -> Path:
    """The path of the file in FILE or FILE#sha256=.... Raises SettingsError if its
    content has another hash."""
    if HASH_SEPARATOR not in start:
        return Path(start)
    name, _, digest = start.rpartition(HASH_SEPARATOR)
    if file_sha256(Path(name), field) != digest:
        allowed = f"the file whose SHA-256 is {digest}; this one has changed since"
        raise MissingFile(field, name, allowed)
    return Path(name)


def file_sha256(path: Path, field: str = "start") -> str:
    """SHA-256 of a file's content. Raises SettingsError."""
    try:
        return hashlib.sha256(read_plain_file(path)).hexdigest()
    except OSError as error:
        allowed = f"a readable file ({error.strerror})"
        if field == "start":
            allowed = f'"random" or {allowed}'
        raise MissingFile(field, str(path), allowed) from None

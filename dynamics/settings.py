"""Settings: what the physics and the optimisation of a run are, and nothing about how much of it is run.

One frozen dataclass per system is at once the Python API, the command line and the provenance saved in a
trajectory. Names and symbols are the papers'; CA is Musat, arXiv 2408.09414. Standard library only, so
that a command line can be built, and its help printed, without importing anything heavy.
"""

import importlib
import numbers
import operator
import os
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, get_args

from dynamics.errors import SettingsError


def check_integer(field: str, value: object, low: int, high: int) -> int:
    """The value as an int if it is a whole number in low..high, NumPy's included."""
    try:
        number = low - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = low - 1
    if not low <= number <= high:
        raise SettingsError(field, value, f"a whole number from {low} to {high}")
    return number


def check_real(
    field: str, value: object, *, positive: bool = False, up_to: float = 1e6, below: float = float("inf")
) -> float:
    """The value as a float if it is a finite number from 0, or above 0, up to some number, or below one."""
    limit = f"below {below:g}" if below <= up_to else f"up to {up_to:g}".replace("e+0", "e")
    allowed = f"a finite number {'above 0' if positive else 'from 0'} {limit}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SettingsError(field, value, allowed)
    number = float(value) if abs(value) <= up_to else float("nan")  # type: ignore[operator]
    if not 0 <= number < below or (positive and number == 0):
        raise SettingsError(field, value, allowed)
    return abs(number)  # no negative zero


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of the named choices."""
    if value not in choices:
        raise SettingsError(field, value, "one of " + ", ".join(choices))


class Settings(Protocol):
    """What the loop and the format need of the settings of any system: a frozen dataclass with these."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    system: ClassVar[str]
    """Name of the system in trajectories."""

    @property
    def default_steps(self) -> int: ...

    @property
    def default_every(self) -> int: ...

    @property
    def epoch_steps(self) -> int:
        """Steps that make an epoch; 0 where there is none."""

    @property
    def modulus(self) -> int:
        """N or p."""

    @property
    def time_step(self) -> float:
        """Time that passes in one step, so that `time` is time_step x step."""


RecordMode = Literal["all", "metrics"]
"""What of a run is recorded: everything, or norms, losses and accuracies alone."""

StepRule = Literal["force", "direction", "particle"]
BalanceRule = Literal["magnitude", "count", "none"]
VarianceRule = Literal["overall", "axis", "none"]
DiagonalRule = Literal["twice", "once", "none"]


@dataclass(frozen=True)
class ParticleSettings:
    """N particles in D dimensions under the pair forces of CA sections 5 and 6. All values are dimensionless.

    Below `dim` stand the choices that the paper leaves open. Their defaults are the most literal reading
    of section 6 that reproduces its table 2.
    """

    system: ClassVar[str] = "particles"
    default_steps: ClassVar[int] = 100
    default_every: ClassVar[int] = 1
    epoch_steps: ClassVar[int] = 0

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
    repulsion_balance: BalanceRule = "magnitude"
    """Weight of repulsion: its summed magnitude made equal to that of attraction, both at constant 1; or the
    ratio of the numbers of like and unlike pairs; or 1."""
    alignment_balance: BalanceRule = "count"
    """Weight of the alignment of unlike pairs against like ones, by the same rules."""
    variance: VarianceRule = "overall"
    """What is kept at 1 after every step: one standard deviation over all coordinates; one along each axis;
    or nothing."""
    diagonal: DiagonalRule = "twice"
    """Whether (i, i) is a pair whose force particle i takes twice, takes once, or no pair."""
    start: str = "random"
    """First positions: "random" (standard normal, from the seed), or a file with an embedding: a trajectory
    (.nc, the run of the same seed), .npy (token, axis) or (seed, token, axis), or .csv (a row a token)."""
    start_step: int = 0
    """Step of a trajectory given as start; -1 is its last."""

    @property
    def modulus(self) -> int:
        """N, the number of particles."""
        return self.n

    @property
    def time_step(self) -> float:
        """The step size."""
        return self.step_size

    def __post_init__(self) -> None:
        for field in ("fa", "ga", "gr"):
            object.__setattr__(self, field, check_real(field, getattr(self, field)))
        object.__setattr__(self, "step_size", check_real("step_size", self.step_size, positive=True))
        object.__setattr__(self, "n", check_integer("n", self.n, 1, 100_000))
        object.__setattr__(self, "dim", check_integer("dim", self.dim, 1, 64))  # kernels are unrolled over axes
        for field, choices in PARTICLE_CHOICES.items():
            check_choice(field, getattr(self, field), choices)
        if not isinstance(self.start, str) or not self.start:
            raise SettingsError("start", self.start, '"random" or the path of a file')
        object.__setattr__(self, "start_step", check_integer("start_step", self.start_step, -1, 2**62))
        if self.start == "random" and self.start_step != 0:
            raise SettingsError("start_step", self.start_step, "0 unless start is a trajectory")


OptimizerName = Literal["adamw", "adam", "sgd"]


@dataclass(frozen=True)
class OptimizerSettings:
    """How weights follow their gradient. All values are dimensionless."""

    lr: float = 0.001
    """Learning rate."""
    optimizer: OptimizerName = "adam"
    """Update rule, as in torch.optim."""
    weight_decay: float = 0.0
    """Weight decay on every parameter. With adam and sgd it is the L2 term of the loss."""
    beta1: float = 0.9
    """Decay of Adam's mean gradient."""
    beta2: float = 0.999
    """Decay of Adam's mean squared gradient."""
    momentum: float = 0.0
    """Momentum of sgd."""

    @property
    def time_step(self) -> float:
        """The learning rate."""
        return self.lr

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight_decay", check_real("weight_decay", self.weight_decay))
        object.__setattr__(self, "lr", check_real("lr", self.lr, positive=True))
        for field in ("beta1", "beta2", "momentum"):
            object.__setattr__(self, field, check_real(field, getattr(self, field), below=1))
        check_choice("optimizer", self.optimizer, get_args(OptimizerName))
        if self.momentum and self.optimizer != "sgd":
            raise SettingsError("momentum", self.momentum, "0 unless the optimizer is sgd")
        for field, default in (("beta1", 0.9), ("beta2", 0.999)):
            if self.optimizer == "sgd" and getattr(self, field) != default:
                raise SettingsError(
                    field, getattr(self, field), f"{default} where the optimizer is sgd, which has none"
                )


@dataclass(frozen=True)
class ModularSettings(OptimizerSettings):
    """A transformer of constant attention that learns addition modulo N (CA sections 3 and 4), trained on the
    whole training split at every step. All values are dimensionless."""

    system: ClassVar[str] = "modular"
    default_steps: ClassVar[int] = 2000
    default_every: ClassVar[int] = 10
    epoch_steps: ClassVar[int] = 1

    lr: float = 0.01
    """Learning rate."""
    optimizer: OptimizerName = "adamw"
    """Update rule, as in torch.optim."""
    weight_decay: float = 0.6
    """Weight decay on every parameter; CA has 0, 0.3, 0.6 and 1. With adam and sgd it is the L2 term of the loss."""
    n: int = 17
    """Number of tokens N, which is also the modulus."""
    hidden: int = 32
    """Width H of the hidden layer."""
    dim: int = 2
    """Dimension D of the embeddings."""
    train_share: float = 0.8
    """Share of the N(N+1)/2 pairs that is trained on, rounded down; the others are for validation."""

    @property
    def modulus(self) -> int:
        """N, the number of tokens."""
        return self.n

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "n", check_integer("n", self.n, 1, 1000))
        object.__setattr__(self, "hidden", check_integer("hidden", self.hidden, 1, 100_000))
        object.__setattr__(self, "dim", check_integer("dim", self.dim, 1, 10_000))
        share = check_real("train_share", self.train_share, positive=True, up_to=1)
        object.__setattr__(self, "train_share", share)
        if self.train_pairs < 1:
            raise SettingsError("train_share", share, f"a share of the {self.pairs} pairs that is at least one pair")

    @property
    def pairs(self) -> int:
        """Number of unordered pairs of tokens."""
        return self.n * (self.n + 1) // 2

    @property
    def train_pairs(self) -> int:
        """Number of pairs that are trained on."""
        return int(self.train_share * self.pairs + 1e-9)  # 0.7 of 10 pairs is 7


SUCCESS_ACCURACY = 0.98
"""Test accuracy above which a run has succeeded (VC's ablations)."""

NormName = Literal["rms", "unit", "rms-smooth", "unit-smooth"]
ActivationName = Literal["gelu", "relu"]
StartRuns = Literal["seed", "successful"]


@dataclass(frozen=True)
class SparseSettings(OptimizerSettings):
    """VC's transformer of one layer, which learns the sum modulo p of some tokens of a sequence (VC section 2), in
    mini-batches. The defaults are those of the authors' code. All values are dimensionless."""

    system: ClassVar[str] = "sparse"

    lr: float = 0.003
    """Learning rate."""
    vocab: int = 2
    """Number of tokens p, which is also the modulus."""
    length: int = 12
    """Length L of the sequences."""
    sparsity: int = 5
    """Number k of tokens that count: the first k."""
    positions: tuple[int, ...] = ()
    """The positions that count, from 0, where they are not the first k; as many as sparsity says."""
    data: int = 2048
    """Number n of training sequences, drawn with replacement; there are as many for the test."""
    batch: int = 32
    """Sequences in a mini-batch; the last one of an epoch may be shorter."""
    mlp_lr_discount: float = 1.0
    """The feed-forward layer learns at the learning rate divided by this."""
    assembler_decay: float = 0.0
    """Weight decay of the feed-forward layer's second half, beside that on every parameter."""
    dim: int = 2
    """Dimension d of the embeddings."""
    hidden: int = 32
    """Width h of the feed-forward layer."""
    norm: NormName = "rms"
    """What embeddings are normalised to: root mean square 1 (the code), norm 1 (the paper), or either of them made
    smooth near the origin, by sigma(|x|) = |x|² (3 - 2 |x|) up to |x| = 1."""
    table: int = 0
    """Rows of the embedding table where there are more than tokens; those not used still take part in the softmax."""
    activation: ActivationName = "gelu"
    """Of the feed-forward layer; GELU is the exact one."""
    receptor_biases: bool = True
    """Whether the feed-forward layer's first half has biases."""
    output_bias: bool = True
    """Whether the feed-forward layer's second half has a bias (the code), or none (the paper)."""
    start: str = "random"
    """First weights: "random", from the seed, or a trajectory (.nc) of this system, whose circuits are carried over."""
    start_step: int = 0
    """Recorded step of the trajectory given as start; -1 is its last."""
    start_runs: StartRuns = "seed"
    """Which of its runs: that of the same seed; or those above .98 test accuracy at its end, the next one for each
    next seed."""

    @property
    def modulus(self) -> int:
        """p, the number of tokens."""
        return self.vocab

    @property
    def epoch_steps(self) -> int:
        """Batches in an epoch."""
        return -(-self.data // self.batch)

    @property
    def default_steps(self) -> int:
        """1000 epochs."""
        return 1000 * self.epoch_steps

    @property
    def default_every(self) -> int:
        """An epoch."""
        return self.epoch_steps

    @property
    def counting(self) -> tuple[int, ...]:
        """The positions that count."""
        return self.positions or tuple(range(self.sparsity))

    @property
    def rows(self) -> int:
        """Rows of the embedding table."""
        return self.table or self.vocab

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_task()
        object.__setattr__(self, "batch", check_integer("batch", self.batch, 1, self.data))
        discount = check_real("mlp_lr_discount", self.mlp_lr_discount, positive=True)
        object.__setattr__(self, "mlp_lr_discount", discount)
        object.__setattr__(self, "assembler_decay", check_real("assembler_decay", self.assembler_decay))
        object.__setattr__(self, "dim", check_integer("dim", self.dim, 1, 64))  # kernels are unrolled over axes
        object.__setattr__(self, "hidden", check_integer("hidden", self.hidden, 1, 100_000))
        object.__setattr__(self, "table", check_integer("table", self.table, 0, 10_000))
        if 0 < self.table < self.vocab:
            raise SettingsError("table", self.table, f"0, or at least the {self.vocab} tokens there are")
        check_choice("norm", self.norm, get_args(NormName))
        check_choice("activation", self.activation, get_args(ActivationName))
        for field in ("receptor_biases", "output_bias"):
            if not isinstance(getattr(self, field), bool):
                raise SettingsError(field, getattr(self, field), "True or False")
        self._check_start()

    def _check_task(self) -> None:
        object.__setattr__(self, "vocab", check_integer("vocab", self.vocab, 2, 10_000))
        object.__setattr__(self, "length", check_integer("length", self.length, 1, 10_000))
        object.__setattr__(self, "sparsity", check_integer("sparsity", self.sparsity, 1, self.length))
        object.__setattr__(self, "data", check_integer("data", self.data, 1, 10_000_000))
        places = tuple(check_integer("positions", place, 0, self.length - 1) for place in self.positions)
        if places and (len(set(places)) != self.sparsity or len(places) != self.sparsity):
            raise SettingsError(
                "positions", self.positions, f"{self.sparsity} different ones, as sparsity says, or none"
            )
        object.__setattr__(self, "positions", places)

    def _check_start(self) -> None:
        if not isinstance(self.start, str) or not self.start:
            raise SettingsError("start", self.start, '"random" or the path of a trajectory')
        object.__setattr__(self, "start_step", check_integer("start_step", self.start_step, -1, 2**62))
        check_choice("start_runs", self.start_runs, get_args(StartRuns))
        if self.start == "random" and self.start_step != 0:
            raise SettingsError("start_step", self.start_step, "0 unless start is a trajectory")
        if self.start == "random" and self.start_runs != "seed":
            raise SettingsError("start_runs", self.start_runs, "seed unless start is a trajectory")


PARTICLE_CHOICES: dict[str, tuple[str, ...]] = {
    "step_rule": get_args(StepRule),
    "repulsion_balance": get_args(BalanceRule),
    "alignment_balance": get_args(BalanceRule),
    "variance": get_args(VarianceRule),
    "diagonal": get_args(DiagonalRule),
}
"""What the open choices of `ParticleSettings` may be."""

SETTINGS_CLASSES: dict[str, type] = {each.system: each for each in (ParticleSettings, ModularSettings, SparseSettings)}
"""Settings class by the `system` that a trajectory names."""

SYSTEM_MODULES_VARIABLE = "TRAINING_DYNAMICS_SYSTEMS"
"""Environment variable that names, with commas between, the modules that register systems from outside."""


def import_external_systems() -> None:
    """Import the modules that the environment names, which register their systems. Raises SettingsError.

    It is the person at the keyboard who says what is imported, never a file that is opened.
    """
    allowed = "modules that can be imported from here, by names such as docs.momentum"
    for name in filter(None, map(str.strip, os.environ.get(SYSTEM_MODULES_VARIABLE, "").split(","))):
        if not all(map(str.isidentifier, name.split("."))):
            raise SettingsError(SYSTEM_MODULES_VARIABLE, name, allowed)
        try:
            importlib.import_module(name)
        except ImportError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                error.add_note(f"({SYSTEM_MODULES_VARIABLE} names {name}, which could not be imported)")
                raise  # the module is there, and what it imports is not
            raise SettingsError(SYSTEM_MODULES_VARIABLE, name, allowed) from None
        except Exception as error:
            error.add_note(f"({SYSTEM_MODULES_VARIABLE} names {name}, which could not be imported)")
            raise

"""Settings of the live pages, which the page's address holds; defaults are those of the
systems."""

from collections.abc import Sequence
from typing import Any

import param

from dynamics.expressions import parse_expression
from dynamics.forces import VARIABLES, law_from_json
from dynamics.settings import ModularSettings, ParticleSettings, TransformerSettings

PARTICLES = ParticleSettings()
NETWORK = ModularSettings()
FORCE_CONSTANTS = ("fa", "gr", "ga")
"""Constants of CA's forces, in the order of their sliders."""
OPENING_SEED = 26
"""Particles of this seed become a grid, and with more alignment a circle."""
SMALL_TRANSFORMER = TransformerSettings(n=31, dim=32, train_share=0.7)
"""A transformer that generalises in some 1000 epochs, which take seconds."""


def _number(value: float, low: float, high: float, step: float, label: str) -> Any:
    kind: Any = param.Integer if isinstance(value, int) else param.Number
    return kind(value, bounds=(low, high), step=step, label=label)


def _seed(value: int) -> Any:
    return _number(value, 0, 999, 1, "seed")


def _pace(value: float, unit: str, counts: Sequence[float]) -> Any:
    """How fast a run advances. counts: the choices, in steps or epochs per frame."""
    choices: dict[str, float] = {}
    for count in counts:
        words = f"{count:g} {unit}{'s' * (count > 1)} per frame"
        if count < 1:
            words = f"1 {unit} per {round(1 / count)} frames"
        choices[words] = count
    return param.Selector(default=value, objects=choices, label="pace")


class LawText(param.String):
    """Text that is part of a law. A text that is not allowed raises SettingsError."""

    only_if_changed = True
    """Whether an address has it only if it is not the default."""

    def _validate_value(self, val: Any, allow_None: bool) -> None:
        super()._validate_value(val, allow_None)
        if self.name == "law":
            law_from_json(val or "[]")
        elif self.name is not None:
            direction = "other" if self.name == "alignment" else "difference"
            parse_expression(val, VARIABLES[direction], self.name)


class ParticleSliders(param.Parameterized):
    """Settings of the page of particles."""

    fa = _number(PARTICLES.fa, 0, 5, 0.1, "alignment fₐ")
    gr = _number(PARTICLES.gr, 0, 5, 0.1, "repulsion gᵣ")
    ga = _number(PARTICLES.ga, 0, 5, 0.1, "attraction gₐ")
    attraction = LawText(PARTICLES.attraction, label="attraction of r")
    repulsion = LawText(PARTICLES.repulsion, label="repulsion of r")
    alignment = LawText(PARTICLES.alignment, label="alignment of c")
    law = LawText("", label="law as JSON")
    temperature = _number(PARTICLES.temperature, 0, 1, 0.001, "temperature T")
    step_size = _number(PARTICLES.step_size, 0.00001, 0.02, 0.00001, "step size")
    n = _number(PARTICLES.n, 2, 199, 1, "particles N")
    dim = _number(PARTICLES.dim, 1, 8, 1, "dimensions D")
    seed = _seed(OPENING_SEED)
    pace = _pace(1.0, "step", (0.2, 1.0, 2.0, 5.0, 20.0))


class TrainingSliders(param.Parameterized):
    """Settings of the page of a network in training."""

    lr = _number(NETWORK.lr, 0.0001, 0.1, 0.0001, "learning rate")
    weight_decay = _number(NETWORK.weight_decay, 0, 2, 0.05, "weight decay")
    train_share = _number(NETWORK.train_share, 0.1, 1, 0.05, "training fraction")
    n = _number(NETWORK.n, 4, 59, 1, "tokens N")
    seed = _seed(0)
    pace = _pace(5, "epoch", (1, 5, 20, 50))


_SMALL = SMALL_TRANSFORMER


class TransformerSliders(param.Parameterized):
    """Settings of the page of a transformer in training."""

    lr = _number(_SMALL.lr, 0.0001, 0.1, 0.0001, "learning rate")
    weight_decay = _number(_SMALL.weight_decay, 0, 5, 0.05, "weight decay")
    train_share = _number(_SMALL.train_share, 0.1, 1, 0.05, "training fraction")
    attention_rate = _number(_SMALL.attention_rate, 0, 1, 0.05, "attention rate α")
    n = _number(_SMALL.n, 5, 59, 1, "modulus p")
    seed = _seed(0)
    pace = _pace(3, "epoch", (1, 3, 10, 30))

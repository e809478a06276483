"""Settings of the live pages, which the page's address holds; defaults are those of the
systems."""

from typing import Any

import param

from dynamics.settings import ModularSettings, ParticleSettings, TransformerSettings

PARTICLES, NETWORK = ParticleSettings(), ModularSettings()
OPENING_SEED = 26
"""Particles of this seed become a grid, and with more alignment a circle."""
SMALL_TRANSFORMER = TransformerSettings(n=31, dim=32, train_share=0.7)
"""A transformer that generalises in some 1000 epochs, which take seconds."""


class ParticleSliders(param.Parameterized):
    """Settings of the page of particles."""

    fa = param.Number(PARTICLES.fa, bounds=(0, 5), label="alignment f_a")
    gr = param.Number(PARTICLES.gr, bounds=(0, 5), label="repulsion g_r")
    ga = param.Number(PARTICLES.ga, bounds=(0, 5), label="attraction g_a")
    step_size = param.Number(
        PARTICLES.step_size, bounds=(0.00001, 0.02), label="step size"
    )
    n = param.Integer(PARTICLES.n, bounds=(2, 199), label="particles N")
    dim = param.Integer(PARTICLES.dim, bounds=(1, 8), label="dimensions D")
    seed = param.Integer(OPENING_SEED, bounds=(0, 999), label="seed")
    pace: Any = param.Selector(
        default=1.0,
        objects={
            "a step in 5 frames": 0.2,
            "a step a frame": 1.0,
            "2 steps a frame": 2.0,
            "5 steps a frame": 5.0,
            "20 steps a frame": 20.0,
        },
        label="pace",
    )


PARTICLE_SLIDER_STEPS = {
    "fa": 0.1,
    "gr": 0.1,
    "ga": 0.1,
    "step_size": 0.00001,
    "n": 1,
    "dim": 1,
    "seed": 1,
}
"""Increment of each slider."""


class TrainingSliders(param.Parameterized):
    """Settings of the page of a network in training."""

    lr = param.Number(NETWORK.lr, bounds=(0.0001, 0.1), label="learning rate")
    weight_decay = param.Number(
        NETWORK.weight_decay, bounds=(0, 2), label="weight decay"
    )
    train_share = param.Number(
        NETWORK.train_share, bounds=(0.1, 1), label="training fraction"
    )
    n = param.Integer(NETWORK.n, bounds=(4, 59), label="tokens N")
    seed = param.Integer(0, bounds=(0, 999), label="seed")
    pace: Any = param.Selector(
        default=5,
        objects={
            "an epoch a frame": 1,
            "5 epochs a frame": 5,
            "20 epochs a frame": 20,
            "50 epochs a frame": 50,
        },
        label="pace",
    )


TRAINING_SLIDER_STEPS = {
    "lr": 0.0001,
    "weight_decay": 0.05,
    "train_share": 0.05,
    "n": 1,
    "seed": 1,
}


class TransformerSliders(param.Parameterized):
    """Settings of the page of a transformer in training."""

    lr = param.Number(SMALL_TRANSFORMER.lr, bounds=(0.0001, 0.1), label="learning rate")
    weight_decay = param.Number(
        SMALL_TRANSFORMER.weight_decay, bounds=(0, 5), label="weight decay"
    )
    train_share = param.Number(
        SMALL_TRANSFORMER.train_share, bounds=(0.1, 1), label="training fraction"
    )
    attention_rate = param.Number(
        SMALL_TRANSFORMER.attention_rate, bounds=(0, 1), label="attention rate α"
    )
    n = param.Integer(SMALL_TRANSFORMER.n, bounds=(5, 59), label="modulus p")
    seed = param.Integer(0, bounds=(0, 999), label="seed")
    pace: Any = param.Selector(
        default=5, objects=TrainingSliders.param.pace.names, label="pace"
    )


TRANSFORMER_SLIDER_STEPS = TRAINING_SLIDER_STEPS | {"attention_rate": 0.05}

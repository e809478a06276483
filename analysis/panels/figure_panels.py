"""Names of the panels of figures, in their order: `--panels` chooses from these."""

from __future__ import annotations

from collections.abc import Sequence

from dynamics.settings import SettingsError

ALL = "all"
"""The value of `--panels` that selects all panels."""

NONE: tuple[str, ...] = ()
"""The names of a figure with a single panel, or with one for each run."""

AUDIT = ("cosine", "fit", "weights", "planes")
AUDITS = ("cosine", "fit")
"""Of each moment and space."""
BARRIERS = ("trained", "matched")
CIRCUITS = ("labels", "leaks", "attention", "phases")
COMPARISON = (
    *("structures", "imperfections", "shapes"),
    *("speed", "gradient_norm", "distance"),
    *("cosine", "fit", "weights"),
)
CURVATURE = (
    *("modes", "rates", "growing"),
    *("movement", "layers", "trace", "flips"),  # of networks
    *("plane", "stability", "rest"),  # of particles
    *("eigenvalues", "sharpness", "fractions", "preconditioned", "loss"),  # of models
)
EDGE = ("limit", "loss")
EVENTS = ("examples", "escapes", "drops", "layers")
FATE = ("loss", "force", "committor")
FIXED_POINTS = ("gradients", "spectra", "descent")
FORMATION = (
    *("circle_distance", "grid_distance", "imperfections", "dominant_fraction"),
    *("onsets", "frequencies"),
)
GRADIENTS = (
    "loss",
    "accuracy",
    "levels",
    "strips",
    "drops",
    "spikes",
    "correlations",
)
INTERVENTIONS = ("spikes", "rate", "test")
LEARNING_COEFFICIENT = ("coefficient", "loss", "chains")
NOISE = ("scale", "size", "rank", "hessian")
OVERVIEW = ("correlation",)
"""Below the panels of the measures."""
PAIR_LAW = tuple(
    f"{space}_{name}"
    for space in ("whole", "planes")
    for name in ("fit", "repulsion", "alignment")
)
PROGRESS = ("loss", "parts", "components", "clock", "weights", "delay")
REPRESENTATIONS = ("dimension", "cka", "procrustes", "runs")
SCALING = ("circles", "midpoint", "width", "sizes", "formation", "imperfections")
SPARSITY = tuple(
    f"{split}_{name}" for split in ("train", "test") for name in ("success", "accuracy")
)
SPECTRAL_DENSITY = ("density", "index")
SPIKES = ("examples", "causes", "rise", "updates")
TRANSFER = ("mean", "largest", "clusters")
WEIGHT_SPECTRA = ("rank", "distance", "cosine", "singular_values")
WEIGHTS = ("sizes", "alignment", "structures")


def check_names(names: Sequence[str], every: Sequence[str]) -> None:
    """Raise SettingsError for names of panels that are none of all names, and for all
    panels beside others."""
    if not every and names:
        allowed = "no names: this picture has no panels to choose from"
        raise SettingsError("panels", " ".join(names), allowed)
    for name in names:
        if name not in every and tuple(names) != (ALL,):
            allowed = f"{ALL}, or one or more of {', '.join(every)}"
            raise SettingsError("panels", name, allowed)

"""Laws of forces for tests, and their fields in plain loops."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from dynamics.forces import BALANCES, Force, check_law
from dynamics.settings import ParticleSettings
from dynamics.strengths import evaluate

STRENGTHS = {
    "difference": (
        "-1",
        "1/r",
        "1/r**3",
        "-r*exp(-r)",
        "sqrt(r)/(1 + r)",
        "where(r < 1.5, 1.5 - r, 0)",
        "min(1/r, 0.8) - 0.3",
        "interp(log(r), [-2, 0, 1], [0.5, -1, 0.25])",
    ),
    "other": (
        "c > 0",
        "-(c > 0.3)",
        "c",
        "c**3 - c/2",
        "exp(c)*(c > -0.5)",
        "abs(c) - 0.4",
        "interp(c, [-1, 0.1, 1], [0, 1, -0.5])",
    ),
}


@st.composite
def laws(draw: st.DrawFn) -> tuple[Force, ...]:
    """One to four forces; some are balanced with the first."""
    forces = []
    for place in range(draw(st.integers(1, 4))):
        along = draw(st.sampled_from(("difference", "other")))
        balances = ("none", "magnitude", "count", *BALANCES) if place else ("none",)
        forces.append(
            Force(
                f"force_{place}",
                draw(st.sampled_from(("like", "unlike", "all"))),
                along,
                draw(st.sampled_from(STRENGTHS[along])),
                draw(st.sampled_from((1.0, -0.7, "fa", "ga", "gr"))),
                draw(st.sampled_from(balances)),
                "force_0" if place else "",
            )
        )
    return check_law(forces)


OWN_LAW = (
    Force("near", "unlike", "difference", "1/r**3", 0.5, "magnitude", "cohesion"),
    Force("cohesion", "all", "difference", "-r*exp(-r)"),
    Force("turn", "like", "other", "c**2 - 0.3", "fa"),
    Force("away", "unlike", "other", "-exp(c)*(c > 0.2)", 1.0, "magnitude", "turn"),
)
"""A law with all kinds of pairs, directions and smooth strengths with derivatives."""


def fields_by_loops(
    x: np.ndarray, pairs: np.ndarray, law: tuple[Force, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The fields (force, token, axis) and magnitudes (force,) of a law on an embedding
    (token, axis), between pairs (pair, 2)."""
    fields = np.zeros((len(law), *x.shape))
    magnitude = np.zeros(len(law))
    for place, force in enumerate(law):
        expression = force.expression
        for p in pairs:
            for q in pairs:
                like = (sum(p) - sum(q)) % len(x) == 0
                kind = "like" if like else "unlike"
                if (p == q).all() or not force.acts_between(kind):
                    continue
                first, second = x[p].sum(axis=0), x[q].sum(axis=0)
                if force.is_radial:
                    size = variable = np.linalg.norm(first - second)
                    direction = first - second
                else:
                    size = np.linalg.norm(second)
                    direction = second
                    lengths = np.linalg.norm(first) * size
                    variable = first @ second / lengths if lengths > 0 else 0.0
                    size = size if lengths > 0 else 0.0
                if size == 0:
                    continue
                strength = evaluate(expression, np.array(variable))
                magnitude[place] += abs(strength)
                for token in p:
                    fields[place, token] += strength * direction / size
    return fields, magnitude


def count_interactions(pairs: np.ndarray, n: int, kind: str) -> int:
    """The number of ordered pairs of pairs that a kind of force acts between."""
    residue = pairs.sum(axis=1) % n
    like = int((residue[:, None] == residue).sum()) - len(pairs)
    unlike = int((residue[:, None] != residue).sum())
    return {"like": like, "unlike": unlike, "all": like + unlike}[kind]


def settings_with_law(law: tuple[Force, ...], **values: Any) -> ParticleSettings:
    """Settings with a law. Values of constants and balances that no force of the law
    names are left at their defaults."""
    unused = ParticleSettings(law=law).unused_settings
    used = {name: value for name, value in values.items() if name not in unused}
    return ParticleSettings(law=law, **used)

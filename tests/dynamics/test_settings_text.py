"""Settings as text: in words, as options of a command line, and as Python code."""

import dataclasses
import shlex
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.command_line.parsing import parse_options
from dynamics import ParticleSettings, TransformerSettings
from dynamics.forces import CA, Force
from dynamics.settings_text import (
    describe_settings,
    setting_texts,
    short_expression,
)
from tests.dynamics.expression_texts import texts
from tests.laws import settings_with_law

TABLE = "interp(r, [0, 1, 2, 3], [1, 0.5, 0.25, 0])"
COHESION = Force("cohesion", "all", "difference", "-r", -0.01)

forces = st.builds(
    Force,
    st.sampled_from(["a", "b", "näher"]),
    st.sampled_from(["like", "unlike", "all"]),
    st.just("difference"),
    texts,
    st.sampled_from([1.0, -0.25, 1e-7, "fa", "gr"]),
)
laws = st.lists(forces, max_size=3, unique_by=lambda force: force.name).map(tuple)
temperatures = st.floats(0, 10)
particles = st.builds(
    settings_with_law,
    fa=st.floats(0, 5),
    law=laws,
    temperature=temperatures,
    start=st.sampled_from(["random", "a file's name (2).npy"]),
) | st.builds(
    ParticleSettings,
    attraction=texts,
    repulsion=texts | st.sampled_from(["-r", "-1", TABLE]),
    alignment=st.sampled_from(["c > 0", "c > 0.5", "-c", "1 - (c < 0)", "pi"]),
    temperature=temperatures,
)


def options_of(kind):
    """The class of options of a command with settings of one kind."""
    field = dataclasses.field(default_factory=kind)
    return dataclasses.make_dataclass("Options", [("settings", kind, field)])


def from_options(line, kind):
    """The settings of a command line."""
    before = sys.argv
    sys.argv = ["command", *shlex.split(line)]
    try:
        return parse_options(options_of(kind), "command").settings
    finally:
        sys.argv = before


@settings(max_examples=60, deadline=None)
@given(chosen=particles)
def test_options_and_code_give_the_same_settings(chosen):
    line = " ".join(setting_texts(chosen, form="option"))
    assert from_options(line, ParticleSettings) == chosen
    code = ", ".join(setting_texts(chosen, form="code"))
    assert eval(f"ParticleSettings({code})") == chosen


@pytest.mark.parametrize(
    "chosen",
    [
        TransformerSettings(causal=True, equals_token=True),
        TransformerSettings(ordered=False),
    ],
)
def test_flags_are_options(chosen):
    line = " ".join(setting_texts(chosen, form="option"))
    assert from_options(line, TransformerSettings) == chosen


def test_strengths_and_laws_in_words():
    changed = ParticleSettings(
        repulsion="1/r**3", alignment="c > 0.5", temperature=0.01
    )
    assert describe_settings(changed) == (
        "particles, N = 17, f_a = 1, repulsion 1/r**3, alignment c > 0.5,"
        " temperature 0.01"
    )
    table = ParticleSettings(attraction=TABLE)
    assert describe_settings(table) == (
        "particles, N = 17, f_a = 1, attraction table of 4 points"
    )
    assert setting_texts(changed, table, form="equation")[0] == (
        "attraction = 1, table of 4 points"
    )
    for law, words in (
        ((COHESION,), "law cohesion"),
        (CA[:3], "law like_attraction + unlike_repulsion + like_alignment"),
        ((*CA, COHESION), "law like_attraction + unlike_repulsion + 3 more"),
    ):
        chosen = ParticleSettings(law=law)
        constant = "" if law == (COHESION,) else "f_a = 1, "  # no force names f_a
        assert describe_settings(chosen) == f"particles, N = 17, {constant}{words}"
    equation = setting_texts(ParticleSettings(), chosen, form="equation")
    assert equation == ["law = CA, like_attraction + unlike_repulsion + 3 more"]


@given(text=texts)
def test_a_short_expression_is_short(text):
    short = short_expression(text)
    assert len(short) <= 40
    assert "[" not in short
    if len(text) <= 40 and "interp" not in text:
        assert short == text

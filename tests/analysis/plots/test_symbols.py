"""Names with dollar signs in figures, which matplotlib may read as formulae."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from analysis.plots.figure_files import in_style, new_panels
from analysis.plots.symbols import show_as_written, typeset


@given(st.text(r"$\{}_^ab %", max_size=12))
def test_every_text_can_be_drawn_and_is_typeset_once(text):
    typed = typeset(text)
    assert typeset(typed) == typed
    figure = Figure()
    figure.text(0, 0, typed)
    figure.text(0, 1, text)
    show_as_written(figure)
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", [r"$\foo$", "$a$b$_{c", "f_a $", r"$f_a$ and \$"])
def test_names_that_are_no_formulae_are_drawn_as_they_are(name):
    @in_style
    def plot():
        figure, (panel,) = new_panels([4], f"title {name}")
        panel.plot([0, 1], [0, 1], label=name)
        panel.set(xlabel=name, ylabel=name)
        panel.legend()
        return figure

    figure = plot()
    figure.draw_without_rendering()
    (legend,) = [axes.get_legend() for axes in figure.axes]
    (label,) = legend.get_texts()
    if name == r"$\foo$":
        assert label.get_text() == r"\$\foo\$"

"""Expressions: their text, what is refused, derivatives and JavaScript."""

import json
import math
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dynamics.errors import SettingsError
from dynamics.expressions import MAX_CHARACTERS, javascript, parse_expression
from dynamics.strengths import evaluate
from tests.dynamics.expression_texts import EXAMPLES, UNEVEN, VALUES, texts


def parse(text, variable="r"):
    return parse_expression(text, variable, "repulsion")


@given(texts)
def test_text_is_read_as_the_same_expression(text):
    expression = parse(text)
    assert parse(expression.text) == expression
    assert parse(expression.text).text == expression.text
    assert pickle.loads(pickle.dumps(expression)) == expression


@pytest.mark.parametrize("text", EXAMPLES)
def test_texts_as_users_write_them_stay(text):
    assert parse(text).text == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((1))/(r)", "1/r"),
        ("r-(1-r)", "r - (1 - r)"),
        ("(r-1)-r", "r - 1 - r"),
        ("2*(3*r)", "2*(3*r)"),
        ("(2*3)*r", "2*3*r"),
        ("(r**2)**3", "(r**2)**3"),
        ("r**(2**3)", "r**2**3"),
        ("(-2)**2", "(-2)**2"),
        ("-(2**2)", "-2**2"),
        ("2**(-r)", "2**-r"),
        ("(r<1)<2", "(r < 1) < 2"),
        ("r+1<2", "r + 1 < 2"),
        ("--2", "2"),
        ("+r", "r"),
        ("1.0/ r", "1/r"),
        ("1/\n r", "1/r"),
        ("1e42", "1e+42"),
        ("0.1", "0.1"),
        ("1e-5", "1e-05"),
    ],
)
def test_text_has_the_fewest_parentheses(text, canonical):
    assert parse(text).text == canonical


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_kept(number):
    kept = parse(repr(number)).evaluate(0.0, {"number": float})
    assert math.copysign(1.0, kept) == math.copysign(1.0, number)
    assert kept == number


HOSTILE = (
    "",
    " ",
    "1/x",
    "c > 0",
    "__import__('os').system('touch executed')",
    "__import__(r)",
    "eval(r)",
    "lambda: 1",
    "(r := 1)",
    'f"{r}"',
    "f'{open(1)}'",
    "'r'",
    "r.real",
    "(1).__class__",
    "r[0]",
    "exp[0]",
    "exp(r, base=2)",
    "exp(*r)",
    "exp(**r)",
    "exp()",
    "exp",
    "exp(exp)",
    "exp(r)(r)",
    "sin(r)",
    "steps(r, [0, 1], [1])",
    "min(r)",
    "max(r, 1, 2)",
    "where(r, 1)",
    "1 < r < 2",
    "r == 1",
    "r != 1",
    "r = 1",
    "r and 1",
    "not r",
    "1 if r else 2",
    "1if r else 2",
    "r // 2",
    "r % 2",
    "r @ r",
    "r ^ 2",
    "~r",
    "True",
    "None",
    "...",
    "1j",
    "nan",
    "inf",
    "1e400",
    "-1e400",
    "9" * 400,
    "9" * 5000,
    "[1, 2]",
    "(1, 2)",
    "{1}",
    "[r for r in r]",
    "(r for r in r)",
    "yield r",
    "await r",
    "r; r",
    "r #",
    "r\\",
    "r\0",
    "ř",
    "𝐫",
    "²",
    "r · r",
    "1 -",
    "(" * 10_000 + "r" + ")" * 10_000,
    "-" * 100_000 + "r",
    "1+" * 100_000 + "1",
    "r**" * 90_000 + "r",
    "r" + ".r" * 4000,
    "abs(" * 60 + "r" + ")" * 60,
    "+".join(["r"] * 60),
    "*".join(["(" + "+".join(["r"] * 20) + ")"] * 20),
    "r+" * MAX_CHARACTERS,
    "interp(r, [0, 1], [1])",
    "interp(r, [0], [1])",
    "interp(r, [], [])",
    "interp(r, [0, 0], [1, 2])",
    "interp(r, [1, 0], [1, 2])",
    "interp(r, [0, 1e-310], [1, 1])",
    "interp(r, [0, 1e400], [1, 2])",
    "interp(r, [-1e308, 1e308], [1, 2])",
    "interp(r, [0, 1], [-1e308, 1e308])",
    "interp(r, [0, 1], [1, r])",
    "interp(r, [0, 1], [1, 1 + 1])",
    "interp(r, [0, 1], [True, 1])",
    "interp(r, 0, 1)",
    "interp(r, (0, 1), (1, 2))",
    "interp(r, [0, 1])",
    None,
    1.0,
    b"r",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_other_text_is_one_line(text, tmp_path):
    with pytest.raises(SettingsError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("repulsion: found ")
    assert "\n" not in message
    assert len(message) < 500
    assert not any(tmp_path.iterdir())


@given(st.text(max_size=30) | st.text("r1+-*/()<>=.,[] epxmin", max_size=30))
def test_any_text_is_an_expression_or_refused(text):
    try:
        expression = parse(text)
    except SettingsError:
        return
    assert parse(expression.text) == expression


@pytest.mark.filterwarnings("error")
def test_reading_warns_of_nothing():
    with pytest.raises(SettingsError):
        parse("1if r else 2")


def test_table_of_5000_points(generator):
    x = np.sort(generator.random(5000)).tolist()
    y = (generator.standard_normal(5000) * 1e-100).tolist()
    expression = parse(f"interp(r, {x}, {y})")
    assert parse(expression.text) == expression
    assert evaluate(expression, x).tolist() == y


def test_module_imports_only_the_standard_library():
    code = (
        "import sys; import dynamics.expressions;"
        "print({'numpy', 'numba', 'msgspec', 'xarray'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("text", "monomial"),
    [
        ("1/r", (1.0, -1)),
        ("1", (1.0, 0)),
        ("-2*r**3/r", (-2.0, 2)),
        ("(2*r)**2", (4.0, 2)),
        ("r + r", (2.0, 1)),
        ("exp(0)*r**(1 + 1)", (1.0, 2)),
        ("0*r", (0.0, 0)),
        ("pi", (math.pi, 0)),
        ("max(1, 2)*r", (2.0, 1)),
        ("r + 1", None),
        ("r**0.5", None),
        ("exp(r)", None),
        ("r > 0", None),
        ("1/0", None),
        ("log(-1)", None),
        ("10**400", None),
        ("r**1e300", (1.0, int(1e300))),
        ("r**r", None),
    ],
)
def test_monomials(text, monomial):
    assert parse(text).monomial() == monomial


@pytest.mark.parametrize(
    ("text", "derivative"),
    [
        ("1", "0"),
        ("1/r", "-1/r**2"),
        ("1/r**3", "-3/r**4"),
        ("3*r", "3"),
        ("r > 0", "0"),
        ("-(r > 0)", "0"),
        ("exp(-r)", "-exp(-r)"),
        ("exp(-r)/r", "(-exp(-r) - exp(-r)/r)/r"),
        ("2*exp(r**2)", "2*(exp(r**2)*(2*r))"),
        ("abs(r)", "where(r < 0, -1, 1)"),
        ("min(r, 1)", "where(r < 1, 1, 0)"),
        ("where(r < 1, r**2, 3)", "where(r < 1, 2*r, 0)"),
        ("interp(r, [0, 1, 3], [0, 2, 1])", "steps(r, [0, 1, 3], [2, -0.5])"),
        ("2**r", "2**r*log(2)"),
        ("r**0.5", "0.5*r**-0.5"),
    ],
)
def test_derivatives_are_simplified(text, derivative):
    assert parse(text).derivative().text == derivative


@given(texts, st.floats(0.3, 3.0))
def test_derivative_and_central_differences(text, place):
    expression = parse(text)
    width = 1e-6 * place
    places = [place - width, place, place + width]
    left, here, right = evaluate(expression, places)
    assume(np.isfinite([left, here, right]).all())
    slopes = np.array([(here - left) / width, (right - here) / width])
    size = 1.0 + np.abs(slopes).max() + np.abs(here) / 1e3
    assume(np.isfinite(slopes).all())
    assume(np.ptp(slopes) < 1e-4 * size)  # no kink, and no jump
    derivatives = evaluate(expression.derivative(), places)
    assume(np.isfinite(derivatives).all())  # not that of sqrt(0*r)
    assume(np.ptp(derivatives) < 1e-3 * size)  # not where(r - 1, 0, r) at 1
    assert abs(derivatives[1] - slopes.mean()) < 1e-3 * size


JAVASCRIPT = """
const {functions, places} = JSON.parse(require("fs").readFileSync(0))
const text = (number) => String(number)
console.log(JSON.stringify(functions.map((f) => places.map(eval(f)).map(text))))
"""


def test_javascript_and_numpy():
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    expressions = [parse(text) for text in EXAMPLES]
    expressions.append(parse(f"interp(r, {UNEVEN}, {VALUES})").derivative())
    places = np.concatenate([np.linspace(-1.0, 4.0, 81), [1e-3, 1e3]])
    given = {
        "functions": [javascript(expression) for expression in expressions],
        "places": places.tolist(),
    }
    result = subprocess.run(
        [node, "-e", JAVASCRIPT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    values = [
        [float(text.replace("Infinity", "inf")) for text in row]
        for row in json.loads(result.stdout)
    ]
    expected = [evaluate(expression, places) for expression in expressions]
    np.testing.assert_allclose(values, expected, rtol=1e-13)

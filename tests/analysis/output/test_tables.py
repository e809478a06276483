"""Tables: the same DataFrame as aligned text and as CSV."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.output.tables import (
    Column,
    format_p_value,
    format_table,
    interval_columns,
    make_table,
    output_table,
)

NAN = math.nan
ROWS = [
    {
        "name": "a",
        "count": 1,
        **interval_columns("fraction", (0.5, 0.25, 0.75)),
        "single": np.float32(0.1),
        "ok": True,
    },
    {
        "name": "long, name",
        "count": None,
        **interval_columns("fraction", (NAN, NAN, NAN)),
        "single": 2,
        "ok": False,
    },
]
COLUMNS = [
    Column("name", "name"),
    Column("n", "count"),
    Column("%", "fraction", digits=1, interval="bounds", scale=100),
    Column("mean", "fraction", digits=2, interval="half-width"),
    Column("both", text=lambda row: f"{row['name'][0]}{row['ok']:d}"),
]


def test_words_are_aligned_to_the_left_and_numbers_to_the_right():
    assert format_table(make_table(ROWS), COLUMNS).splitlines() == [
        "name        n                  %         mean  both",
        "----------  -  -----------------  -----------  ----",
        "a           1  50.0 [25.0, 75.0]  0.50 ± 0.25    a1",
        "long, name  -                  -            -    l0",
    ]


def test_the_csv_has_numbers_in_full(capsys, tmp_path):
    output_table(make_table(ROWS), COLUMNS, Path("-"), rows=[True, False])
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        "name,count,fraction,fraction_low,fraction_high,single,ok",
        "a,1,0.5,0.25,0.75,0.10000000149011612,1",
        '"long, name",,,,,2.0,0',
    ]
    output_table(
        make_table(ROWS), COLUMNS, tmp_path / "deep" / "t.csv", rows=[True, False]
    )
    assert (tmp_path / "deep" / "t.csv").read_text() == printed
    assert (
        len(capsys.readouterr().out.splitlines()) == 4
    )  # an empty line, two of the head, and one row


def test_every_number_is_read_back_exactly(generator, capsys):
    values = generator.standard_normal(1000) * 10.0 ** generator.integers(-30, 30, 1000)
    output_table(pd.DataFrame({"x": values}), [], Path("-"))
    assert [
        float(row["x"]) for row in csv.DictReader(io.StringIO(capsys.readouterr().out))
    ] == list(values)


@pytest.mark.parametrize(
    ("value", "text"), [(NAN, "-"), (3e-5, "< 0.0001"), (0.04321, "0.0432")]
)
def test_p_values(value, text):
    assert format_p_value(value) == text


@given(st.floats(-1, 1), st.integers(0, 4))
def test_no_number_is_printed_as_minus_zero(value, digits):
    table = pd.DataFrame({"x": [value * 10.0**-digits]})
    text = format_table(table, [Column("x", "x", digits=digits)]).splitlines()[-1]
    assert float(text) != 0 or not text.strip().startswith("-")

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
    PRINTED_FORMATS,
    Column,
    format_p_value,
    format_table,
    interval_columns,
    make_table,
    output_table,
    write_table,
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


PRINTED = [
    Column("f_a", "fa"),
    Column("circles % [95%]", "circles", digits=1, interval="bounds"),
    Column("imperfections", "imperfections", digits=1, interval="half-width"),
    Column("note", "note"),
]


def table_of_special_characters():
    rows = [
        {
            "fa": 0.5,
            **interval_columns("circles", (0.26, 0.1, 0.9)),
            **interval_columns("imperfections", (34.9, 33.7, 36.1)),
            "note": "50% & more_or|less",
        },
        {
            "fa": 2,
            **interval_columns("circles", (math.nan, math.nan, math.nan)),
            **interval_columns("imperfections", (1.0, 0.5, 1.5)),
            "note": "",
        },
    ]
    return make_table(rows)


def test_the_printed_columns_are_written_as_latex(tmp_path):
    path = tmp_path / "table.tex"
    write_table(table_of_special_characters(), path, PRINTED)
    text = path.read_text()
    assert text.startswith("\\begin{tabular}")
    first, second = [line for line in text.splitlines() if line.count(" & ") == 3][1:]
    assert r"50\% \& more\_or\textbar{}less" in first
    assert r"34.9 $\pm$ 1.2" in first
    assert r"f\_a" in text
    assert "±" not in text
    assert second.count("- ") == 2


@pytest.mark.parametrize("suffix", [".csv", *PRINTED_FORMATS])
def test_a_command_writes_every_format_of_a_table(suffix, output_of):
    output_of(f"sims.particles --n 5 --runs 2 --steps 3 --out a.nc --csv t{suffix}")
    assert "circles" in Path(f"t{suffix}").read_text()


@pytest.mark.parametrize("suffix", [".md", ".tex"])
def test_line_breaks_in_cells_end_no_row(tmp_path, capsys, suffix):
    table = pd.DataFrame({"name": ["one\ntwo", "a\r\n\tb"], "value": [1, 2]})
    columns = [Column("name", "name"), Column("value", "value")]
    output_table(table, columns, tmp_path / f"table{suffix}")
    written = (tmp_path / f"table{suffix}").read_text()
    printed = capsys.readouterr().out
    for text in (written, printed):
        assert sum("one two" in line for line in text.splitlines()) == 1
        assert sum("2" in line for line in text.splitlines()) == 1


def test_the_printed_columns_are_written_as_markdown(tmp_path, capsys):
    path = tmp_path / "table.md"
    table = table_of_special_characters()
    output_table(table, PRINTED, path)
    header, line, *rows = path.read_text().splitlines()
    assert [cell.strip() for cell in header.split("|")[1:-1]] == [
        column.heading for column in PRINTED
    ]
    assert set(line) == set("|:-")
    assert "0.3 [0.1, 0.9]" in rows[0]
    assert r"more_or\|less" in rows[0]
    assert "34.9 ± 1.2" in rows[0]
    assert len(rows) == len(table)
    assert "34.9 ± 1.2" in capsys.readouterr().out

"""Tables of numbers in text files, whatever their header and separators."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dynamics.number_tables import read_numbers

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SEPARATORS = st.sampled_from([",", ";", "\t", " ", ", ", "; ", "   "])
NAMES = st.sampled_from(["x", "y", "first axis", "Länge", '"a"', "# x"])


@given(data=st.data(), rows=st.integers(1, 5), columns=st.integers(1, 4))
def test_the_numbers_are_those_that_were_written(data, rows, columns):
    values = [[data.draw(NUMBERS) for _ in range(columns)] for _ in range(rows)]
    separator = data.draw(SEPARATORS)
    lines = [separator.join(map(repr, row)) for row in values]
    if data.draw(st.booleans()):
        lines.insert(0, separator.join(data.draw(NAMES) for _ in range(columns)))
    if data.draw(st.booleans()):
        lines.insert(data.draw(st.integers(0, len(lines))), "")
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    mark = data.draw(st.sampled_from(["", "\ufeff"]))
    content = (mark + end.join(lines) + end).encode()
    assert_array_equal(read_numbers(content), values)


@given(separator=st.sampled_from([",", ";", "\t", " "]), header=st.booleans())
def test_tables_of_other_programs_are_read(separator, header):
    values = np.array([[0.1, -2.0], [3e-5, 4.0], [5.0, 6.25]])
    written = pd.DataFrame(values, columns=["x", "y"]).to_csv(
        sep=separator, index=False, header=header
    )
    assert_array_equal(read_numbers(written.encode()), values)
    quoted = io.StringIO()
    writer = csv.writer(quoted, delimiter=separator, quoting=csv.QUOTE_ALL)
    if separator != " ":
        writer.writerows([["x", "y"], *values.tolist()])
        assert_array_equal(read_numbers(quoted.getvalue().encode()), values)
    saved = io.BytesIO()
    np.savetxt(saved, values, delimiter=separator, header="x y" if header else "")
    assert_array_equal(read_numbers(saved.getvalue()), values)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it has no row of numbers"),
        (b"x,y\n", "it has no row of numbers"),
        (b"1,2\n3\n", "line 2 has 1 cells, line 1 has 2"),
        (b"x,y\n1,2\n\n3,4,5\n", "line 4 has 3 cells, line 2 has 2"),
        (b"1;a\n2;3\n", "line 1: 'a' is no number"),
        (b"1,2\n3,\n", "line 2: an empty cell is no number"),
        (b"0,5;1\n2;3", "line 1: '0,5' is no number; decimals follow a point"),
        (b"\xff\xfe1", "it is no text"),
        (b"\x89HDF\0\1", "it is no text"),
    ],
)
def test_what_is_no_table_is_named_with_its_line(content, reason):
    with pytest.raises(ValueError, match=reason):
        read_numbers(content)

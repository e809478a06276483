"""Text files of users: UTF-8 in every locale, with or without a byte order mark."""

import os
import subprocess
import sys

import pytest

from dynamics.law_files import read_law
from dynamics.user_code import read_source

LAW = '[{"name": "far", "pairs": "all", "along": "difference", "strength": "-r"}]'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_files_may_begin_with_a_byte_order_mark(tmp_path, encoding):
    law = tmp_path / "law.json"
    law.write_text(LAW, encoding)
    assert read_law(str(law)) == read_law(LAW)
    source = "x = 'Länge'\n"
    script = tmp_path / "model.py"
    script.write_text(source, encoding)
    assert read_source(script, "model", "") == source


def test_files_do_not_depend_on_the_locale(tmp_path):
    (tmp_path / "law.json").write_text(LAW.replace("far", "über"), "utf-8")
    code = """
import pandas as pd
from pathlib import Path
from analysis.output.tables import Column, write_table
from dynamics.law_files import read_law

assert read_law("law.json")[0].name == chr(252) + "ber"
sign = chr(177)
write_table(pd.DataFrame({"a": [sign]}), Path("table.csv"), [Column(sign, "a")])
write_table(pd.DataFrame({"a": [sign]}), Path("table.md"), [Column(sign, "a")])
"""
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    path = os.pathsep.join(sys.path)
    subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", code],
        cwd=tmp_path,
        env=os.environ | ascii_locale | {"PYTHONPATH": path},
        check=True,
    )
    for name in ("table.csv", "table.md"):
        assert "±" in (tmp_path / name).read_text("utf-8")

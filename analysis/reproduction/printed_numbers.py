"""The numbers that the papers print in tables or publish with their code, from
printed_numbers.toml."""

import tomllib
from importlib.resources import files
from typing import Any

_TABLES = tomllib.loads(
    files("analysis.reproduction").joinpath("printed_numbers.toml").read_text("utf-8")
)

TABLE_1: dict[float, dict[str, Any]] = {
    row["weight_decay"]: row for row in _TABLES["CA"]["table1"]
}
"""Rows of CA table 1 by weight decay."""
TABLE_2: dict[float, dict[str, Any]] = {
    row["fa"]: row for row in _TABLES["CA"]["table2"]
}
"""Rows of CA table 2 by alignment constant f_a."""
ZL_RUNS: list[dict[str, Any]] = _TABLES["ZL"]["runs"]
"""Rows of the table of ZL's runs, in the order of the attention rate."""

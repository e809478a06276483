"""The notebooks in docs/notebooks. A slow test of the documentation site runs them."""

import re

import nbformat
import pytest

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


def test_the_notebook_of_an_own_model_has_the_code_of_the_guide():
    guide = (ROOT / "docs" / "guides" / "own-model.md").read_text()
    own = nbformat.read(ROOT / "docs" / "notebooks" / "your-own-torch-model.ipynb", 4)
    code = "\n".join(cell.source for cell in own.cells if cell.cell_type == "code")
    training, loss = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[:2]
    functions = re.findall(
        r"^(?:class|def) .*\n(?:(?: .*)?\n)*(?: .*\n)", training + loss, re.MULTILINE
    )
    assert [function.split("(")[0] for function in functions] == [
        "class Adder",
        "def train",
        "def loss",
        "def batches",
    ]
    assert all(function in code for function in functions[:3])

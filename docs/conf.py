"""Configuration of the documentation site: `make docs` builds it into docs/_build/html."""

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_extensions")]
os.environ["PYTHONPATH"] = str(DOCS.parent)  # the notebooks import the packages of this folder

project = "training-dynamics"
html_title = project
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True

html_theme = "pydata_sphinx_theme"
html_show_sourcelink = False


def setup(app) -> None:
    app.connect("source-read", name_targets_of_report)


def name_targets_of_report(app, docname: str, source: list[str]) -> None:
    """Write the anchors of the generated report, which are HTML, as targets that Sphinx knows."""
    if docname == "report":
        source[0] = re.sub(r'^<a id="([^"]+)"></a>', r"(\1)=\n", source[0], flags=re.MULTILINE)

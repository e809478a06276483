"""Configuration of the documentation site: `make docs` builds it into
docs/_build/html."""

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_extensions")]
os.environ["PYTHONPATH"] = str(
    DOCS.parent
)  # the notebooks import the packages of this folder

REPORTS = sorted(path.stem for path in DOCS.glob("report*.md"))
"""Pages that `analysis.verify` has written."""

project = "training-dynamics"
html_title = project
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "api_pages",
    "thumbnails",
    "panel_tables",
    "full_size",
]
exclude_patterns = ["_build"]

if tags.has("short"):  # noqa: F821, a name that Sphinx defines
    # the tests build the site without the pages of source code and without running
    # the notebooks
    extensions.remove("sphinx.ext.viewcode")
    nb_execution_mode = "off"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # progress bars

numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autodoc_default_options = {"no-value": True}
autodoc_typehints = "none"

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_show_sourcelink = False
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = [
    "_static",
    "../analysis/explorer/particle_law.js",
    "../analysis/explorer/particle_starts.js",
    "../analysis/explorer/particles.js",
    "../analysis/explorer/story_data.js",
    "../analysis/explorer/story.js",
]
html_css_files = ["site.css"]
html_js_files = ["particle_law.js", "particle_starts.js", "particles.js"]
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "story": []},
    "show_prev_next": False,
}
html_sidebars = {
    name: []
    for name in (
        "index",
        "story",
        "get-started",
        "gallery",
        "results",
        "papers",
        *REPORTS,
        "glossary",
    )
}


def setup(app) -> None:
    app.connect("source-read", name_targets_of_report)


def name_targets_of_report(app, docname: str, source: list[str]) -> None:
    """Write the anchors of a generated report, which are HTML, as targets that Sphinx
    knows, and links to them, on all pages, without their page."""
    if docname in REPORTS:
        source[0] = re.sub(
            r'^<a id="([^"]+)"></a>', r"(\1)=\n", source[0], flags=re.MULTILINE
        )
    source[0] = re.sub(r"\]\((?:\.\./)?report[\w-]*\.md#", "](#", source[0])

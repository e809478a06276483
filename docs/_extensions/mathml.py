"""Formulas become MathML when the site is built, so that the pages load no script that
draws them."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

LOG = logging.getLogger(__name__)
UNKNOWN = re.compile(r">(\\[a-zA-Z]+|&(?:amp;)?)<")
"""What the converter leaves of a command that it does not know."""


def setup(app) -> dict:
    app.registry.add_html_math_renderer(
        "mathml", (visit_math, None), (visit_math_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def visit_math(translator, node: nodes.math) -> None:
    translator.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_math_block(translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def mathml(node: nodes.Node, display: str) -> str:
    """The formula of a node; a warning, which ends the build, if a part of it is not
    known."""
    formula = convert(node.astext(), display=display)
    if unknown := UNKNOWN.search(formula):
        LOG.warning(
            "formula %s: %s is not known", node.astext(), unknown[1], location=node
        )
    return formula

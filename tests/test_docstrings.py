"""Docstrings of the package name only parameters, fields and other names that exist."""

import ast
import re
from inspect import cleandoc

import pytest

from tests.conftest import ROOT

PACKAGES = ("dynamics", "sims", "analysis")
SOURCES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
NUMPYDOC_ENTRY = re.compile(r"^([*\w]+(?:,\s[*\w]+)*)(?: : .*)?$", re.MULTILINE)
SENTENCE = re.compile(r"(?:^|(?<=[.;]\s)|(?<=\n\n))([a-z_]\w*(?:,\s[a-z_]\w*)*):\s")
"""One or more names in front of a colon, such as "run: index along `run`."."""
CLASSES = {
    node.name: node
    for tree in SOURCES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
}


def arguments(function):
    parts = function.args
    every = [*parts.posonlyargs, *parts.args, *parts.kwonlyargs]
    every += [part for part in (parts.vararg, parts.kwarg) if part]
    return {part.arg for part in every}


def fields(node):
    """Fields of a class and its bases, and what its constructor takes."""
    names = set()
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            names.add(item.target.id)
        elif isinstance(item, ast.FunctionDef) and item.name == "__init__":
            names |= arguments(item)
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in CLASSES:
            names |= fields(CLASSES[base.id])
    return names


def named_parameters(docstring):
    """Names of parameters in a docstring: in its numpydoc section, or in front of a
    colon in its text."""
    text, *sections = SECTION.split(docstring)
    names = SENTENCE.findall(text)
    for heading, section in zip(sections[::2], sections[1::2], strict=True):
        if heading == "Parameters":
            names += NUMPYDOC_ENTRY.findall(section)
    return {name.strip("*") for line in names for name in re.split(r",\s", line)}


@pytest.mark.parametrize("path", SOURCES)
def test_parameters_named_in_docstrings_exist(path):
    stale = []
    for node in ast.walk(SOURCES[path]):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        is_class = isinstance(node, ast.ClassDef)
        known = fields(node) if is_class else arguments(node)
        if not is_class and node.args.kwarg:
            continue  # the docstring names what it takes
        names = named_parameters(ast.get_docstring(node) or "") - known
        stale += [f"line {node.lineno}, {node.name}: {name}" for name in sorted(names)]
    assert not stale


def test_names_that_are_no_parameters_are_seen():
    docstring = """A line. old, new: of before. Of more: no.

    Parameters
    ----------
    gone, *rest : int
        What: a text.
    """
    assert named_parameters(cleandoc(docstring)) == {"old", "new", "gone", "rest"}

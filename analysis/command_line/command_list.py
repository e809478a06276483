"""The list of a package's commands."""

import ast
from pathlib import Path


def print_commands(package: Path) -> None:
    """Print the command of each module of a package, with the first sentences of its
    docstring; nothing is imported."""
    paths = sorted(package.glob("[!_]*.py"))
    width = max(len(path.stem) for path in paths)
    for path in paths:
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        summary = " ".join(docstring.partition("\n\n")[0].split())
        print(f"python -m {package.name}.{path.stem:<{width}}  {summary}")

"""The list of a package's commands."""

import ast
from pathlib import Path


def print_commands(package: Path) -> None:
    """Print the command of each module of a package, with the first sentences of its
    docstring; nothing is imported."""
    for path in sorted(package.glob("[!_]*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        summary = " ".join(docstring.partition("\n\n")[0].split())
        print(f"python -m {package.name}.{path.stem:<14}{summary}")

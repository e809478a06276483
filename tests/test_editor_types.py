"""What an editor shows of the lazy packages: mypy, which reads stubs as editors do, knows
the type of every public name, and every parameter of a public function has a type."""

import importlib
import inspect
import pkgutil
import re
import types
from pathlib import Path

import pytest
from mypy import api

import analysis
import dynamics
import sims

ROOT = Path(__file__).parent.parent


def public_names():
    """The name of each package and those that it exports."""
    for root in (dynamics, analysis, sims):
        modules = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
        for package in (root.__name__, *(item.name for item in modules if item.ispkg)):
            yield (
                package,
                tuple(getattr(importlib.import_module(package), "__all__", ())),
            )


PUBLIC = dict(public_names())


@pytest.mark.parametrize("package", [dynamics, analysis, sims])
def test_packages_are_typed(package):
    assert (Path(package.__path__[0]) / "py.typed").exists()


def test_every_lazy_package_has_a_stub():
    for package in PUBLIC:
        folder = ROOT / package.replace(".", "/")
        if "attach_stub" in (folder / "__init__.py").read_text():
            assert (folder / "__init__.pyi").exists()


def test_parameters_of_public_functions_have_types_and_functions_a_docstring():
    for package, names in PUBLIC.items():
        for name in names:
            value = getattr(importlib.import_module(package), name)
            if not isinstance(value, types.FunctionType):
                continue
            assert inspect.getdoc(value), (package, name)
            signature = inspect.signature(value)
            for parameter in signature.parameters.values():
                assert parameter.annotation is not parameter.empty, (name, parameter)
            assert signature.return_annotation is not signature.empty, name


@pytest.mark.slow
def test_a_type_checker_knows_every_public_name(tmp_path):
    lines = [
        f"reveal_type({package}.{name})"
        for package, names in PUBLIC.items()
        for name in names
    ]
    used = tmp_path / "used.py"
    imports = [f"import {package}" for package, names in PUBLIC.items() if names]
    used.write_text("\n".join([*imports, *lines]))
    out, err, _ = api.run(
        [
            str(used),
            f"--config-file={ROOT}/pyproject.toml",
            f"--cache-dir={ROOT}/.mypy_cache",
        ]
    )
    revealed = re.findall(r'Revealed type is "(.*)"', out)
    assert len(revealed) == len(lines), out + err
    unknown = [
        line for line, kind in zip(lines, revealed, strict=True) if kind == "Any"
    ]
    assert unknown == []
    simulate = revealed[lines.index("reveal_type(dynamics.simulate)")]
    assert "runs: int =" in simulate
    assert simulate.endswith("Dataset")

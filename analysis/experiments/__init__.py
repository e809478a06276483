"""The experiments of the papers, which `python -m analysis.paper NAME` runs: a module
each, with `Options` and `main`."""

import importlib
import sys

from analysis.command_line.parsing import run_command


def run_experiment(name: str) -> None:
    """Run an experiment with the options in `sys.argv`."""
    module = importlib.import_module(f"analysis.experiments.{name}")
    run_command(module.main, module.Options, f"analysis.paper {name}")


def run_former_command(name: str) -> None:
    """Run an experiment as `python -m analysis.NAME`, and print its present command."""
    print(f"analysis.{name} is now: python -m analysis.paper {name}", file=sys.stderr)
    run_experiment(name)

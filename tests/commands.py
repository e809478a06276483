"""The commands of the packages in the process of the tests."""

import importlib
import itertools
from pathlib import Path

import sims
from analysis import Analysis
from analysis.command_line.analysis_command import command_arguments
from analysis.command_line.analysis_command import run as run_analysis
from analysis.command_line.command_list import ANALYSIS_GROUPS, EXPERIMENTS
from analysis.command_line.parsing import run_command

COMMANDS = [
    *(f"sims.{path.stem}" for path in sorted(Path(sims.__path__[0]).glob("[!_]*.py"))),
    *(
        f"analysis.{name}"
        for name in sorted(itertools.chain(*ANALYSIS_GROUPS.values()))
    ),
    *(f"analysis.paper {name}" for name in EXPERIMENTS),
]


def analysis_of(module):
    """The analysis that a module defines as its command, or None."""
    if hasattr(module, "main"):
        return None
    for value in vars(module).values():
        is_analysis = isinstance(value, type) and issubclass(value, Analysis)
        if is_analysis and value.__module__ == module.__name__:
            return value
    return None


def arguments_of(program):
    """The dataclass of the arguments of a command or of an experiment."""
    name = program.replace("analysis.paper ", "analysis.experiments.")
    module = importlib.import_module(name)
    analysis = analysis_of(module)
    return module.Options if analysis is None else command_arguments(analysis)


def run(program, words):
    """Run a command with the arguments in `sys.argv`; `words` are the same."""
    module = importlib.import_module(program)
    analysis = analysis_of(module)
    if program == "sims.sweep":
        module.run_sweep(words)
    elif program == "analysis.paper":
        module.run_paper(words)
    elif analysis is not None:
        run_analysis(analysis)
    else:
        defaults = getattr(module, "DEFAULTS", None)
        run_command(module.main, module.Options, program, defaults)

"""The list of the commands of this package."""

from pathlib import Path

from analysis.command_line.command_list import print_commands

if __name__ == "__main__":
    package = Path(__file__).parent
    names = sorted(path.stem for path in package.glob("[!_]*.py"))
    print_commands(package, names, "python -m sims.")

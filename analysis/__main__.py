"""The list of the commands of this package."""

from pathlib import Path

from analysis.command_line.command_list import ANALYSIS_GROUPS, print_commands

if __name__ == "__main__":
    for number, (title, names) in enumerate(ANALYSIS_GROUPS.items()):
        print("\n" * bool(number) + title)
        print_commands(Path(__file__).parent, names, "python -m analysis.")

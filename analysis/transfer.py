"""The former name of `python -m analysis.paper transfer`."""

from analysis.experiments import run_former_command

if __name__ == "__main__":
    run_former_command("transfer")

"""Time to import the packages, and time until --help answers, each in its own
process."""


def timeraw_import_simulate():
    return "import dynamics.simulation"


def timeraw_import_structures():
    return "import analysis.structures.circles_and_grids"


def timeraw_help():
    return """
import contextlib, io, runpy, sys
sys.argv = ["x", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    runpy.run_module("sims.particles", run_name="__main__")
"""

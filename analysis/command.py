"""What all command lines share: parsing, exit codes, and how errors are told to a person.

Exit codes: 0 done; 1 could not be done; 2 bad arguments; 130 and 143 interrupted by SIGINT and SIGTERM,
and resumable. A command's module imports nothing heavy before its options are parsed, so that --help
answers at once.
"""

import io
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

import tyro

from analysis.files import check_csv
from dynamics.settings import SettingsError

Options = TypeVar("Options")


def command(main: Callable[[Options], None], options: type[Options], program: str) -> None:
    """Parse the command line of `python -m program` into its options and run it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not closed, not replaced, by whoever started this
            stream.reconfigure(errors="backslashreplace")
    try:
        chosen = _parsed(options, program)
        _carry_out(main, chosen)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _fail("interrupted; the same command begins again or goes on", 128 + signal.SIGINT)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _carry_out(main: Callable[[Options], None], chosen: Options) -> None:
    def stop(signum: int, frame: object) -> None:  # the loop has its own way; this is for all that is around it
        _fail("interrupted; the same command begins again or goes on", 128 + signum)

    signal.signal(signal.SIGTERM, stop)
    from dynamics.simulate import Interrupted, MissingPackage
    from dynamics.storage import RecordingError, TrajectoryError

    try:
        check_csv(chosen)
        main(chosen)
    except SettingsError as error:
        _refuse(error)
    except (TrajectoryError, RecordingError, MissingPackage) as error:
        _fail(f"error: {error}", 1)
    except Interrupted as stopped:
        amount = getattr(chosen, "amount", None)
        same = "the same command without --overwrite" if getattr(amount, "overwrite", False) else "the same command"
        where = f"; {stopped.path} can be resumed: {same} goes on from there" if stopped.path else ""
        _fail(f"interrupted at step {stopped.step} of {stopped.steps}{where}", 128 + stopped.signum)
    except BrokenPipeError:
        raise
    except OSError as error:
        _fail(f"error: {error.filename or 'output'}: {error.strerror}", 1)


def _parsed(options: type[Options], program: str) -> Options:
    return tyro.cli(
        options,
        prog=f"python -m {program}",
        description=options.__doc__,
        config=(tyro.conf.OmitArgPrefixes,),
    )


def _refuse(error: SettingsError) -> NoReturn:
    option = " ".join("--" + name.strip().replace("_", "-") for name in error.field.split(","))
    _fail(f"error: {option}: found {error.found}, allowed is {error.allowed}", 2)


def _fail(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)

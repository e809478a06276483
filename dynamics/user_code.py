"""Running Python files of users: imports of the files beside them, and errors with
their line."""

import contextlib
import re
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path

from dynamics.errors import RecordingError, SettingsError


def read_source(path: Path, kind: str, allowed: str) -> str:
    """The text of a Python file of the user. Raises SettingsError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        what = f"{path}: {error}" if path.is_file() else path
        raise SettingsError(kind, what, allowed) from None


def run_source(path: Path, source: str, kind: str, *allowed: str) -> types.ModuleType:
    """The module of a Python file with this text. Errors are those of the field `kind`,
    such as "model". Raises SettingsError."""
    module = types.ModuleType(f"{kind}_{path.stem}")
    module.__file__ = str(path.absolute())
    sys.modules[module.__name__] = module
    code = (source, module.__file__, "exec")
    with neighbours_importable(path), reported_errors(path, "the file", kind, *allowed):
        exec(compile(*code), module.__dict__)
    return module


@contextlib.contextmanager
def neighbours_importable(path: Path) -> Iterator[None]:
    """Let a file import the modules that lie beside it. Afterwards these come last, for
    imports in its functions, so that a `copy.py` among them does not replace that of
    Python in other code and in further processes."""
    folder = str(path.absolute().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)


@contextlib.contextmanager
def reported_errors(
    path: Path | None,
    what: str,
    field: str = "loss",
    allowed: str = "functions that run with the recorded parameters",
) -> Iterator[None]:
    """Report an error of the user's code as SettingsError, with the line of the
    file."""
    try:
        yield
    except (SettingsError, RecordingError):
        raise
    except KeyboardInterrupt as error:
        line = _line_of(error, path)
        if line and not getattr(error, "__notes__", ()):  # not reported yet
            error.add_note(f"{path}{line}: {what} was running")
            print(f"{path}{line}: {what} was running", file=sys.stderr)
        raise
    except (Exception, SystemExit) as error:
        where = f"{path or f'the given {field}'}{_line_of(error, path)}"
        text = " ".join(str(error).split())[:300]
        hint = (
            "; parameters are float64: use .double() for modules, buffers and tensors,"
            " or --precision float32"
        )
        hint = hint if re.search(DTYPE_ERROR, text) else ""
        message = f"{where}: {what} raises {type(error).__name__}: {text}{hint}"
        raise SettingsError(field, message, allowed) from error


DTYPE_ERROR = "dtype|scalar type"
"""What torch's messages about tensors of different types contain."""


def _line_of(error: BaseException, path: Path | None) -> str:
    """The line of the file at which an error occurred, as ", line 3", if it is there."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    name = str(path.absolute()) if path else ""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == name
    ]
    return f", line {lines[-1]}" if lines else ""

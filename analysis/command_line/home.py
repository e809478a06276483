"""The home folder of a command."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from dynamics.folders import absolute_folder


@contextmanager
def home_folder() -> Iterator[None]:
    """Give a user without a home folder a temporary one while a command runs: bokeh and
    matplotlib look for their settings there."""
    if absolute_folder("~") is not None:
        yield
        return
    print(
        "warning: the user has no home folder; compiled kernels are kept in a temporary"
        " one while this command runs. Set the environment variable HOME",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        try:
            yield
        finally:
            del os.environ["HOME"]

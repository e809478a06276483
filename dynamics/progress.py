"""Progress bars: on a terminal and in a notebook, with the time left; none elsewhere."""

import sys
import threading
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


class ThreadBar(tqdm):
    """A bar whose lock is of this process alone. The locks of tqdm's own class are shared
    with other processes, and their semaphores are left behind where a worker of
    `multiprocessing` ends."""


ThreadBar.set_lock(threading.RLock())


def is_notebook() -> bool:
    """Whether this process runs the cells of a Jupyter notebook."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def progress_bar(
    items: Iterable[Any] | None = None, quiet: bool = False, **options: Any
) -> tqdm:
    """A bar of tqdm over items, or over `total` units without them; it disappears at its
    end unless `leave` is True. quiet: show none. options: those of tqdm."""
    is_shown = is_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    return ThreadBar(
        items, disable=quiet or not is_shown, **{"leave": False, **options}
    )

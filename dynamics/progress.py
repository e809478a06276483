"""Progress bars: on a terminal and in a notebook, with the time left; none elsewhere."""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


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
    return tqdm(items, disable=quiet or not is_shown, **{"leave": False, **options})

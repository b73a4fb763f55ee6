"""`error_on_graph_break`: makes graph breaks errors in parts of a program."""

from __future__ import annotations

from typing import Any


def error_on_graph_break(error_on_graph_break: bool) -> Any:
    """Sets whether a graph break is an error within; a context manager, also a decorator.

    If it is, a graph break, or a frame that falls back to plain Python, raises the `Unsupported` of ``fullgraph=True``,
    which has the reason and the line. The setting applies around calls of compiled objects, and in compiled code to the
    lines that it covers; the innermost one decides. Unlike ``fullgraph=True`` it does not require one graph: the code
    before and after it may break. This is torch's own switch, which torch.compile follows as well.
    """
    if not isinstance(error_on_graph_break, bool):
        raise TypeError(f"dynamlir.error_on_graph_break takes True or False, not {error_on_graph_break!r}")
    from torch._dynamo import error_on_graph_break as of_torch  # takes a second, so only on use

    return of_torch(error_on_graph_break)

"""`error_on_graph_break`: where in a program a graph break is an error."""

from __future__ import annotations

from typing import Any


def error_on_graph_break(error_on_graph_break: bool) -> Any:
    """Within, a graph break is an error or is none; a context manager, also a decorator.

    Where it is one, what would end a graph, or leave a frame to plain Python, raises the `Unsupported` of
    ``fullgraph=True``, which has the reason and the line. It holds around calls of what is compiled, and in compiled
    code for the lines that it covers; the innermost decides. Unlike ``fullgraph=True`` it does not ask for one graph:
    what comes before it and after it may break. This is torch's own switch, which torch.compile follows as well.
    """
    if not isinstance(error_on_graph_break, bool):
        raise TypeError(f"dynamlir.error_on_graph_break takes True or False, not {error_on_graph_break!r}")
    from torch._dynamo import error_on_graph_break as of_torch  # takes a second, for those who use it

    return of_torch(error_on_graph_break)

"""Compiles equal graphs once: the grid's programs differ in how a number is read, not in what is computed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

from dynamlir import native

NAMES = re.compile(r'^#loc.*$|loc\(.*?\)+|\{dynamo\.name = ".*?"\}', re.MULTILINE)
"""The text in which graphs that compute the same may differ: locations in Python code, names of inputs."""

_compiled: dict[tuple[str, str], Any] = {}


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Reuses, within the block, the compiled code of graphs that were compiled before."""
    extension = native.module()
    compile_trace = extension.compile_trace

    def remembered(trace: Any, settings: Any) -> Any:
        key = NAMES.sub("", trace.text()), repr(settings)
        if key not in _compiled:
            _compiled[key] = compile_trace(trace, settings)
        return _compiled[key]

    with mock.patch.object(extension, "compile_trace", remembered):
        yield

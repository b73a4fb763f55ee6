"""What torch.compile has around the backends that it calls, so that others' backends find the same behind our door.

A backend on AOTAutograd asks for the fake mode of its graph and for the `TracingContext`. Sizes are numbers in the
graphs that others are given, so the mode, which has a `ShapeEnv` as torch's has, makes no symbols of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode


@contextlib.contextmanager
def as_in_torch_compile() -> Iterator[None]:
    """Within, a backend finds what torch.compile would have around it."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # takes a while to import

    with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True))):
        yield

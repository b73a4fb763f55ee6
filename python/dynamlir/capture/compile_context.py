"""The context that torch.compile provides around backends, so that foreign backends find the same with our front door.

A backend built on AOTAutograd queries the fake mode of its graph and the `TracingContext`. Foreign backends get graphs
with numbers for sizes. The mode has a `ShapeEnv`, as torch's has, but creates no symbols for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode


@contextlib.contextmanager
def as_in_torch_compile() -> Iterator[None]:
    """Provides a backend with the context that torch.compile would set up around it."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # takes a while to import

    with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True))):
        yield

"""Checks the types of a program that uses dynamlir: mypy and pyright check this file, which is never run.

``assert_type`` states the expected type. A line that must be an error has an ignore comment; an ignore comment where no
error occurs is itself an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import dynamlir
import torch
from torch import Tensor


class Net(torch.nn.Module):
    width: int = 3

    def forward(self, x: Tensor) -> Tensor:
        return x * self.width


def plain(x: Tensor, scale: float = 1.0, *, bias: Tensor | None = None) -> tuple[Tensor, int]:
    return x * scale, 1


# A function keeps its parameters and its result, and has `reset`.
fast = dynamlir.compile(plain)
assert_type(fast(torch.ones(3), 2.0, bias=None), tuple[Tensor, int])
assert_type(fast.reset(), None)
fast("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
fast(torch.ones(3), wrong=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
again: Callable[[Tensor], tuple[Tensor, int]] = fast

# A module keeps its class.
net = dynamlir.compile(Net(), fullgraph=True)
assert_type(net, Net)
assert_type(net.width, int)


# Usable as a decorator, with and without arguments, and on methods, too.
@dynamlir.compile
def first(x: Tensor) -> Tensor:
    return x


@dynamlir.compile(fullgraph=True, options={"threads": 1})
def second(x: Tensor) -> int:
    return len(x)


assert_type(first(torch.ones(3)), Tensor)
assert_type(second(torch.ones(3)), int)
assert_type(dynamlir.compile(mode="max-autotune")(Net()), Net)


class Holder:
    @dynamlir.compile
    def method(self, x: Tensor, count: int) -> Tensor:
        return x * count


assert_type(Holder().method(torch.ones(3), 2), Tensor)
Holder().method(torch.ones(3), "two")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Wrong arguments of `compile`.
dynamlir.compile(plain, backend=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
dynamlir.compile(plain, options=[1])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
dynamlir.compile(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]

# Settings.
assert_type(dynamlir.config.recompile_limit, int)
dynamlir.config.on_plain = "error"
dynamlir.config.on_plain = "shout"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
dynamlir.config.threads = "many"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
dynamlir.config.dmup = "x"  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
with dynamlir.config.patch(threads=1):
    pass


@dynamlir.config.patch(threads=1)
def patched(x: int) -> str:
    return str(x)


assert_type(patched(3), str)

# Inspection.
explanation = dynamlir.explain(plain)(torch.ones(3))
assert_type(explanation.graph_count, int)
made = dynamlir.last_compile()
assert made is not None
assert_type(made.kernels, int)
assert_type(made.kernel_seconds, dict[str, float])
with dynamlir.profile() as profile:
    fast(torch.ones(3))
assert_type(profile, dynamlir.Profile)
assert_type(profile.graphs[0].seconds, float)
assert_type(profile.steps[0].bytes, int | None)
assert_type(dynamlir.fallbacks()[0].reason, str)
loaded = dynamlir.load("00-aten.mlir")
assert not isinstance(loaded, dynamlir.ExportedProgram)
assert_type(loaded(torch.ones(3)), list[Tensor])
exported = dynamlir.export(plain, torch.ones(3), scale=2.0)
assert_type(exported, dynamlir.ExportedProgram)
assert_type(exported.signature.graph_inputs, tuple[str, ...])
sized = dynamlir.export(plain, torch.ones(3), scale=2.0, dynamic_shapes=({0: dynamlir.Dim("n")}, None))
assert_type(sized.signature.sizes[0].name, str)
assert_type(dynamlir.load_entries("00-aten.mlir")["main"](torch.ones(3)), list[Tensor])
assert_type(dynamlir.decompile(plain), str)
dynamlir.reset()
dynamlir.reset(fast)

try:
    fast(torch.ones(3))
except (dynamlir.Unsupported, dynamlir.PlainRunWarning) as error:
    print(error)

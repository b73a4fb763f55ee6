"""A loaded text that computes no gradients says so where the original function would return a history or a tangent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import _native
from test_training_node import SINE, leaf
from torch import Tensor
from torch.autograd import forward_ad

STATIC = "tensor<4x8xf32>"
DYNAMIC = "tensor<?x8xf32, #dynamo.sizes<s0, 8>>"
SYMBOLS = ", dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]"


def text(ty: str = STATIC, argument: str = "", function: str = "") -> str:
    """A text that computes the sine, with attributes of its argument and of its entry."""
    return f"""
module {{
  func.func @main(%x: {ty} {{dynamo.name = "x"{argument}}}) -> {ty}
      attributes {{dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]{function}}} {{
    %y = dynamo.sin %x : {ty}
    return %y : {ty}
  }}
}}
"""


TEXTS = {"static": text(), "dynamic": text(DYNAMIC, function=SYMBOLS)}


def load(folder: Path, program: str) -> Callable[..., Any]:
    path = folder / "02-prims.mlir"
    path.write_text(program)
    loaded = dynamlir.load(path)
    assert callable(loaded)
    return loaded


@pytest.mark.parametrize("name", TEXTS)
def test_a_gradient_that_a_text_does_not_compute(name: str, tmp_path: Path) -> None:
    sine, x = load(tmp_path, TEXTS[name]), leaf()
    for wanted in (x, x * 2):
        with pytest.raises(_native.Unfit, match=r"input 0 requires a gradient.*one that does not.*no_grad"):
            sine(wanted)
    # What the message says to do.
    torch.testing.assert_close(sine(x.detach())[0], x.detach().sin())
    with torch.no_grad():
        torch.testing.assert_close(sine(x)[0], x.sin())
    with torch.inference_mode():
        torch.testing.assert_close(sine(x)[0], x.sin())


def test_at_each_stage(tmp_path: Path) -> None:
    path = tmp_path / "02-prims.mlir"
    path.write_text(text())
    dynamlir.load(path, dump=tmp_path / "stages")
    stages = sorted((tmp_path / "stages").glob("*.mlir"))
    assert len(stages) > 3
    for stage in stages:
        with pytest.raises(_native.Unfit, match="input 0 requires a gradient"):
            dynamlir.load(stage)(leaf())


def test_a_text_that_knows_of_the_gradient(tmp_path: Path) -> None:
    """The call that was dumped had such an input as well, and its result had no history."""
    (y,) = load(tmp_path, text(argument=", dynamo.requires_grad"))(leaf())
    assert not y.requires_grad


def test_the_gradients_of_a_text_as_an_entry(tmp_path: Path) -> None:
    (tmp_path / "02-prims.mlir").write_text(SINE)
    vjp = dynamlir.load_entries(tmp_path / "02-prims.mlir")["main_vjp"]
    x, w, tangent = leaf(), leaf(), torch.randn(4, 8)
    with pytest.raises(_native.Unfit, match="input 0 requires a gradient"):
        vjp(x.cos(), x, w, tangent)


@pytest.mark.parametrize("program", [*TEXTS.values(), SINE], ids=[*TEXTS, "trains"])
def test_tangents_of_forward_mode(program: str, tmp_path: Path) -> None:
    loaded = load(tmp_path, program)
    x, tangent = torch.randn(4, 8), torch.randn(4, 8)
    rest = [torch.ones(4, 8)] if program is SINE else []
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        with pytest.raises(_native.Unfit, match=r"input 0 has a tangent of torch\.autograd\.forward_ad"):
            loaded(dual, *rest)
        with torch.no_grad(), pytest.raises(_native.Unfit, match="input 0 has a tangent"):
            loaded(dual, *rest)
        # A level alone changes nothing.
        for plain in (x, forward_ad.unpack_dual(dual).primal):
            torch.testing.assert_close(loaded(plain, *rest)[0], x.sin())
    torch.testing.assert_close(loaded(x, *rest)[0], x.sin())


def test_a_transform_of_a_loaded_text(tmp_path: Path) -> None:
    sine = load(tmp_path, text())

    def first(x: Tensor) -> Tensor:
        return sine(x)[0]

    x = torch.randn(4, 8)
    for transformed in (
        lambda: torch.func.jvp(first, (x,), (x,)),
        lambda: torch.func.grad(lambda x: first(x).sum())(x),
        lambda: torch.func.vmap(first)(x),
    ):
        with pytest.raises((RuntimeError, _native.NativeError)):
            transformed()

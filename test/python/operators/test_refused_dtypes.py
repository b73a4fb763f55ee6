"""Floats of several types: where fakes find a common type and eager's kernels do not, compiled code behaves like eager.

For each of PyTorch's operators, samples are drawn in which one tensor has another type. Only those for which eager and
fakes differ are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

OTHERS = (torch.float64, torch.bfloat16)
SAMPLES = 3
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def told(run: Callable[[], Any]) -> list[torch.dtype] | str:
    """The types of the results, or "raised"."""
    try:
        results = run()
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return "raised"
    return [leaf.dtype for leaf in pytree.tree_leaves(results) if isinstance(leaf, Tensor)]


def mixed(op: Any) -> Iterator[Call]:
    """Samples of an operator; in each sample one tensor has another type."""
    seen = set()
    for _, sample in zip(range(SAMPLES), op.sample_inputs("cpu", torch.float32)):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        floats = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        for at in floats if len(floats) > 1 else ():
            for dtype in OTHERS:
                if (len(floats), at, dtype) in seen:
                    continue
                seen.add((len(floats), at, dtype))
                changed = [leaf.to(dtype) if place == at else leaf for place, leaf in enumerate(leaves)]
                yield cast(Call, pytree.tree_unflatten(changed, spec))


def of(function: Callable[..., Any], call: Call) -> list[torch.dtype] | str:
    return told(lambda: function(call[0], *call[1], **call[2]))


def on_fakes(function: Callable[..., Any], call: Call) -> list[torch.dtype] | str:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return of(function, pytree.tree_map_only(Tensor, mode.from_tensor, call))


# The jiterator exists for GPUs only.
OPERATORS = [op for op in op_db if torch.float32 in op.dtypes and "jiterator" not in op.name]


@pytest.mark.parametrize("part", range(8))
@pytest.mark.filterwarnings("ignore")
def test_as_in_eager(part: int) -> None:
    """At least one operator of each part must differ; otherwise the test would show nothing."""
    wrong, compared = [], 0
    for op in OPERATORS[part::8]:
        for call in mixed(op):
            eager, faked = of(op.op, call), on_fakes(op.op, call)
            if faked in ("raised", eager):
                continue
            compared += 1

            def function(*args: Any, op: Any = op, **kwargs: Any) -> Any:
                return op.op(*args, **kwargs)

            if (ours := of(dynamlir.compile(function), call)) != eager:
                wrong.append((op.name, eager, ours))
    assert not wrong
    assert compared


def test_what_kernels_take_is_compiled() -> None:
    """Norms of a smaller type with float32 parameters, and operators that promote, are still compiled."""
    x, w = torch.randn(2, 3, 4, 4, dtype=torch.bfloat16), torch.randn(3)

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return F.batch_norm(x, None, None, w, w, True), F.group_norm(x, 1, w, w), x * w[:, None, None], x.lerp(x, 0.5)

    before = len(dynamlir.fallbacks())
    for eager, ours in zip(function(x, w), dynamlir.compile(function)(x, w)):
        assert eager.dtype == ours.dtype
        torch.testing.assert_close(ours, eager)
    assert len(dynamlir.fallbacks()) == before


INT32 = torch.tensor([0], dtype=torch.int32)
INDEXED: dict[str, Callable[[Tensor], Tensor]] = {
    "index_fill": lambda x: x.index_fill(0, INT32, 1),
    "index_fill with a tensor": lambda x: x.index_fill(0, INT32, torch.tensor(1.0)),
    "index_fill_": lambda x: x.clone().index_fill_(0, INT32, 1),
    "nothing is indexed": lambda x: x.index_fill(0, INT32[:0], 1),
    "index_copy": lambda x: x.index_copy(0, INT32, torch.ones(1)),
    "put": lambda x: x.put(INT32, torch.ones(1)),
    "take": lambda x: x.take(INT32),
}


@pytest.mark.parametrize(
    "door", [dynamlir.compile, lambda f: torch.compile(f, backend="dynamlir")], ids=["own", "torch"]
)
@pytest.mark.parametrize("name", INDEXED)
def test_an_index_of_32_bits_is_refused_as_in_eager(door: Any, name: str) -> None:
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        INDEXED[name](torch.zeros(3))
    with pytest.raises(type(wanted.value), match=r"(?i)expected .*(int64|long)"):
        door(INDEXED[name])(torch.zeros(3))


@pytest.mark.parametrize("name", ["index_add", "index_select", "gather", "scatter"])
def test_where_eager_takes_such_an_index_it_is_compiled(name: str) -> None:
    more = {"index_add": (torch.ones(1),), "scatter": (1.0,)}.get(name, ())

    def program(x: Tensor) -> Tensor:
        return cast(Tensor, getattr(x, name)(0, INT32, *more))

    assert torch.equal(dynamlir.compile(program)(torch.zeros(3)), program(torch.zeros(3)))
    assert not dynamlir.fallbacks()

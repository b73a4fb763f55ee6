"""Random straight-line programs of views, mutations and reads over inputs that alias: for the program fuzzer.

`make` draws a program from a seed. It is an fx graph, so it can be passed to the backend directly, or as a module to
``torch.compile``. The program is run while it is drawn, so eager accepts almost every operation; the last may be one
that eager refuses.
"""

from __future__ import annotations

import dataclasses
import operator
import random
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import torch
import torch.fx
from harness import clone_tree, differences, run
from torch import Tensor

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
MAX_ELEMENTS = 400

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A function, or a method's name, and its arguments; `Slot`s represent values."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """The result of the program's n-th step; inputs come first."""

    at: int


@dataclasses.dataclass
class Program:
    """A graph, and inputs for it."""

    module: torch.fx.GraphModule
    inputs: list[Tensor]

    def text(self) -> str:
        """The program and its inputs in readable form."""
        lines = []
        for at, tensor in enumerate(self.inputs):
            same = next((other for other in range(at) if self.inputs[other] is tensor), None)
            base = "" if tensor._base is None else f" view of {id(tensor._base) % 9973}"
            storage = tensor.untyped_storage()._cdata % 9973
            what = f"{tensor.dtype} {tuple(tensor.shape)} strides {tensor.stride()} offset {tensor.storage_offset()}"
            lines.append(f"x{at}: {what} in storage {storage}{base}" + ("" if same is None else f" is x{same}"))
        return "\n".join(lines) + self.module.code


def make(seed: int, steps: int = 10) -> Program:
    """The program of this seed."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Maker(seed).program(steps)


def wrong(program: Program, through: str = "backend") -> list[str]:
    """The differences between two calls of the compiled program and eager, as text. ``through`` is "backend", or
    "compile" for ``torch.compile``, whose own differences from eager are not counted.
    """
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = _compiled(program, through, "dynamlir")
        found = [f"call {call}: {text}" for call in range(2) for text in _compared(program, compiled)]
        if found and through == "compile":
            known = _compared(program, _compiled(program, through, "eager"))
            found = [text for text in found if text.split(": ", 1)[1] not in known]
    return found


def _compiled(program: Program, through: str, backend: str) -> Callable[..., Any]:
    if through == "compile":
        torch._dynamo.reset()
        return torch.compile(program.module.forward, backend=backend)
    graph = dynamlir.backend(program.module, clone_tree(program.inputs))
    return lambda *inputs: tuple(graph(*inputs))


def _compared(program: Program, compiled: Callable[..., Any]) -> list[str]:
    theirs, ours = clone_tree(program.inputs), clone_tree(program.inputs)
    return differences(run(program.module.forward, theirs, {}), run(compiled, ours, {}))


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.values: list[Any] = []
        self.calls: list[Call] = []
        self.inputs_count = 0
        self.refused = False

    # -- inputs

    def tensor(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """Small numbers, so that results stay finite and exact for long."""
        low, high = (0, 2) if dtype is torch.int64 and self.random.random() < 0.6 else (-8, 9)  # often indices
        made = torch.randint(low, high, shape, generator=self.generator)
        return (made / 4).to(dtype) if dtype.is_floating_point else made.to(dtype)

    def dtype(self) -> torch.dtype:
        return self.random.choice(self.random.choice([FLOATS, FLOATS, FLOATS, INTS, (torch.bool,)]))

    def shape(self) -> list[int]:
        rank = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        sizes = [0, 1, 1, 2, 2, 3, 3, 4, 5] if self.random.random() < 0.15 else [1, 2, 2, 3, 3, 4, 5]
        return [self.random.choice(sizes) for _ in range(rank)]

    def inputs(self) -> list[Tensor]:
        made: list[Tensor] = []
        for _ in range(self.random.randint(1, 4)):
            if made and self.random.random() < 0.35:
                old = self.random.choice(made)
                kind = self.random.random()
                if kind < 0.3:
                    made.append(old)
                elif kind < 0.6:
                    made.append(self.view_of(old))
                else:
                    made.append(self.view_of(old._base if old._base is not None else old))
            else:
                made.append(self.input())
        return made

    def input(self) -> Tensor:
        draw, shape, dtype = self.random.random(), self.shape(), self.dtype()
        if draw < 0.4 or not shape:
            return self.tensor(dtype, *shape)
        if draw < 0.55:
            return self.tensor(dtype, *shape[::-1]).permute(*reversed(range(len(shape))))
        if draw < 0.7:
            return self.view_of(self.tensor(dtype, *(n + 2 for n in shape)))
        if draw < 0.8:
            at = self.random.randrange(len(shape))
            return self.tensor(dtype, *(1 if i == at else n for i, n in enumerate(shape))).expand(shape)
        if draw < 0.9:
            strides = [self.random.randint(0, 4) for _ in shape]
            reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides) if n)
            offset = self.random.randint(0, 3)
            return self.tensor(dtype, reach + offset + 2).as_strided(shape, strides, offset)
        return torch.stack([self.tensor(dtype, *shape)] * 2, -1)[..., self.random.randint(0, 1)]

    def view_of(self, value: Tensor) -> Tensor:
        for _ in range(self.random.randint(1, 2)):
            for _ in range(5):
                target, args, kwargs = self.view(value)
                try:
                    made = _call(target, args, kwargs, [])
                    value = made[0] if isinstance(made, (tuple, list)) else made
                except Exception:
                    continue
                break
        return value

    # -- drawing arguments

    def dim(self, value: Tensor) -> int:
        return self.random.randrange(-value.dim(), value.dim()) if value.dim() else 0

    def size(self, value: Tensor, dim: int) -> int:
        return value.shape[dim] if value.dim() else 1

    def refactored(self, numel: int) -> list[int]:
        """A shape with that number of elements."""
        shape, left = [], numel
        while left > 1 and len(shape) < 3:
            divisors = [n for n in range(1, left + 1) if left % n == 0]
            shape.append(self.random.choice(divisors))
            left //= shape[-1]
        shape.append(left)
        self.random.shuffle(shape)
        return shape

    def indexed(self, value: Tensor) -> Any:
        """An index expression without tensors."""
        out: list[Any] = []
        for size in value.shape[: self.random.randint(0, value.dim())]:
            draw = self.random.random()
            if draw < 0.3 and size:
                out.append(self.random.randrange(-size, size))
            elif draw < 0.85:
                start, stop = sorted(self.random.randint(0, size) for _ in range(2))
                out.append(
                    slice(
                        start or None,
                        stop + 1 if self.random.random() < 0.7 else None,
                        self.random.choice([None, None, 1, 2, 3]),
                    )
                )
            else:
                out.append(slice(None))
        if self.random.random() < 0.15:
            out.insert(self.random.randint(0, len(out)), None)
        elif self.random.random() < 0.15:
            out.insert(0, ...)
        return tuple(out)

    def pick(self, accept: Callable[[Tensor], bool] = lambda _: True) -> Slot:
        """One of the values, with a preference for later ones."""
        fitting = [at for at, value in enumerate(self.values) if isinstance(value, Tensor) and accept(value)]
        if not fitting:
            raise _NothingFits
        recent = fitting[-4:] if self.random.random() < 0.5 else fitting
        return Slot(self.random.choice(recent))

    def of(self, slot: Slot) -> Tensor:
        return self.values[slot.at]

    def like(self, value: Tensor, exact: bool = False) -> Any:
        """Something that broadcasts to ``value``: another value, or a number."""

        def fits(other: Tensor) -> bool:
            if exact:
                return other.shape == value.shape
            try:
                return torch.broadcast_shapes(other.shape, value.shape) == value.shape
            except RuntimeError:
                return False

        draw = self.random.random()
        if draw < 0.75 or exact:
            return self.pick(fits)
        return self.random.choice([0, 1, 2, -1, True]) if draw < 0.9 else self.random.choice([0.5, -1.25, 2.0])

    # -- operations

    def view(self, value: Tensor, target: Any = None) -> Call:
        """A call that returns a view of ``value``."""
        t: Any = value if target is None else target
        rank, choose = value.dim(), self.random.choice
        dim, other = self.dim(value), self.dim(value)
        size = self.size(value, dim)
        start = self.random.randint(0, size)
        order = self.random.sample(range(rank), rank)
        calls: list[Callable[[], Call]] = [
            lambda: (operator.getitem, (t, self.indexed(value)), {}),
            lambda: (operator.getitem, (t, self.indexed(value)), {}),
            lambda: (operator.getitem, (t, self.indexed(value)), {}),
            lambda: ("view", (t, self.refactored(value.numel())), {}),
            lambda: ("reshape", (t, self.refactored(value.numel())), {}),
            lambda: ("permute", (t, order), {}),
            lambda: ("transpose", (t, dim, other), {}),
            lambda: ("t", (t,), {}),
            lambda: ("select", (t, dim, self.random.randrange(max(size, 1))), {}),
            lambda: ("narrow", (t, dim, start, self.random.randint(0, size - start)), {}),
            lambda: ("unsqueeze", (t, choose([0, -1, dim])), {}),
            lambda: ("squeeze", (t,) if choose([True, False]) else (t, dim), {}),
            lambda: ("expand", (t, [n if n != 1 else choose([1, 2, 3]) for n in value.shape]), {}),
            lambda: ("expand", (t, [choose([1, 2]), *value.shape]), {}),
            lambda: ("diagonal", (t, choose([-1, 0, 1]), dim, other), {}),
            lambda: ("unfold", (t, dim, self.random.randint(1, max(size, 1)), choose([1, 2])), {}),
            lambda: ("flatten", (t,), {}),
            lambda: ("detach", (t,), {}),
            lambda: ("view_as", (t, t), {}),
            lambda: ("view", (t, choose([torch.int32, torch.float32, torch.int16, torch.uint8])), {}),
            lambda: ("chunk", (t, choose([2, 3]), dim), {}),
            lambda: ("split", (t, choose([1, 2]), dim), {}),
            lambda: ("unbind", (t, dim), {}),
            lambda: ("movedim", (t, dim, other), {}),
            lambda: self.strided(value, t),
        ]
        return choose(calls)()

    def strided(self, value: Tensor, target: Any) -> Call:
        sizes = [self.random.choice([1, 2, 3]) for _ in range(self.random.randint(0, 3))]
        strides = [self.random.randint(0, 4) for _ in sizes]
        reach = sum((n - 1) * s for n, s in zip(sizes, strides))
        room = value.untyped_storage().nbytes() // value.element_size() - reach - 1
        if room < 0:
            sizes, strides, room = [], [], 0
        if self.random.random() < 0.3:
            return "as_strided", (target, sizes, strides), {}
        return "as_strided", (target, sizes, strides, self.random.randint(0, room)), {}

    def read(self, t: Slot) -> Call:
        """A call that computes something from ``t``."""
        value, choose = self.of(t), self.random.choice
        dim = self.dim(value)
        calls: list[Callable[[], Call]] = [
            lambda: (
                choose([operator.add, operator.sub, operator.mul, torch.maximum, torch.minimum]),
                (t, self.like(value)),
                {},
            ),
            lambda: (choose([operator.add, operator.mul]), (t, self.like(value)), {}),
            lambda: (choose([torch.eq, torch.lt, torch.ge, torch.ne]), (t, self.like(value)), {}),
            lambda: (torch.where, (self.pick(lambda v: v.dtype == torch.bool), t, self.like(value)), {}),
            lambda: (choose(["clone", "contiguous", "relu", "abs", "neg", "sign", "square", "tanh", "exp2"]), (t,), {}),
            lambda: ("to", (t, self.dtype()), {}),
            lambda: ("sum", (t, dim), {"keepdim": choose([True, False])}),
            lambda: (choose(["sum", "amax", "amin", "any", "all", "prod", "mean"]), (t,), {}),
            lambda: (
                choose(["amax", "amin", "argmax", "cumsum", "prod", "mean", "softmax", "any", "all"]),
                (t, dim),
                {},
            ),
            lambda: (choose([torch.cat, torch.stack]), ([t, self.like(value, True)], dim), {}),
            lambda: ("flip", (t, [dim]), {}),
            lambda: ("roll", (t, choose([-1, 1, 2]), dim), {}),
            lambda: (choose(["tril", "triu"]), (t, choose([-1, 0, 1])), {}),
            lambda: ("repeat", (t, [choose([1, 2]) for _ in value.shape]), {}),
            lambda: ("reshape", (t, [-1]), {}),
            lambda: (torch.zeros_like, (t,), {}),
            lambda: (torch.full_like, (t, choose([0, 1, 2])), {}),
            lambda: (choose(["index_select"]), (t, dim, self.pick(self.is_index)), {}),
            lambda: (torch.gather, (t, dim, self.pick(self.is_index)), {}),
            lambda: (torch.take, (t, self.pick(self.is_index)), {}),
            lambda: (operator.getitem, (t, self.pick(self.is_index)), {}),
            lambda: (operator.getitem, (t, (slice(None), self.pick(self.is_index))), {}),
            lambda: (
                torch.scatter_add,
                (t, dim, self.pick(self.is_index), self.pick(lambda v: v.dtype == value.dtype)),
                {},
            ),
            lambda: (torch.slice_scatter, (t, self.pick(lambda v: v.shape == value.shape), dim), {}),
            lambda: (torch.matmul, (t, self.pick(lambda v: v.dtype == value.dtype)), {}),
            lambda: (torch.arange, (choose([1, 2, 3, 5]),), {}),
            lambda: (torch.sort, (t, dim), {}),
            lambda: (torch.max, (t, dim), {}),
        ]
        return choose(calls)()

    @staticmethod
    def is_index(value: Tensor) -> bool:
        return value.dtype == torch.int64

    def write(self, t: Slot) -> Call:
        """A call that writes to ``t``."""
        value, choose = self.of(t), self.random.choice
        dim = self.dim(value)
        calls: list[Callable[[], Call]] = [
            lambda: (choose(["add_", "sub_", "mul_", "copy_", "copy_", "logical_and_"]), (t, self.like(value)), {}),
            lambda: ("add_", (t, self.like(value)), {"alpha": 2}),
            lambda: (choose(["zero_", "relu_", "abs_", "neg_", "sign_", "square_"]), (t,), {}),
            lambda: ("fill_", (t, choose([1, -1, 0.5, True])), {}),
            lambda: ("fill_", (t, self.pick(lambda v: v.dim() == 0)), {}),
            lambda: ("clamp_", (t, -1, 2), {}),
            lambda: (operator.setitem, (t, self.indexed(value), choose([0, 1, 0.5, self.pick()])), {}),
            lambda: (operator.setitem, (t, self.indexed(value), self.pick()), {}),
            lambda: (operator.setitem, (t, self.indexed(value), self.pick()), {}),
            lambda: (
                operator.setitem,
                (t, self.pick(lambda v: v.dtype == torch.bool and v.shape == value.shape), 1),
                {},
            ),
            lambda: (operator.setitem, (t, self.pick(self.is_index), self.pick(lambda v: v.dtype == value.dtype)), {}),
            lambda: ("masked_fill_", (t, self.pick(lambda v: v.dtype == torch.bool), choose([0, 1, -1])), {}),
            lambda: ("addcmul_", (t, self.like(value), self.like(value)), {}),
            lambda: ("index_fill_", (t, dim, self.pick(self.is_index), 1), {}),
            lambda: ("index_add_", (t, dim, self.pick(self.is_index), self.pick(lambda v: v.dtype == value.dtype)), {}),
            lambda: (
                "index_copy_",
                (t, dim, self.pick(self.is_index), self.pick(lambda v: v.dtype == value.dtype)),
                {},
            ),
            lambda: ("scatter_", (t, dim, self.pick(self.is_index), choose([1, 0])), {}),
            lambda: (
                "scatter_add_",
                (t, dim, self.pick(self.is_index), self.pick(lambda v: v.dtype == value.dtype)),
                {},
            ),
            lambda: (
                "put_",
                (t, self.pick(self.is_index), self.pick(lambda v: v.dtype == value.dtype)),
                {"accumulate": True},
            ),
            lambda: ("cumsum_", (t, dim), {}),
            lambda: (
                choose([torch.add, torch.mul, torch.sub, torch.maximum]),
                (self.pick(), self.like(value)),
                {"out": t},
            ),
            lambda: (choose([torch.neg, torch.abs, torch.tanh, torch.square]), (self.pick(),), {"out": t}),
            lambda: (
                choose([torch.sum, torch.amax, torch.mean, torch.cumsum]),
                (self.pick(), choose([0, -1])),
                {"out": t},
            ),
            lambda: (choose([torch.cat, torch.stack]), ([self.pick()], 0), {"out": t}),
            lambda: (choose([torch.eq, torch.lt]), (self.pick(), self.like(value)), {"out": t}),
            lambda: ("fill_diagonal_", (t, 1), {}),
            lambda: ("tril_", (t,), {}),
            lambda: self.reshaped_in_place(t, dim),
        ]
        return choose(calls)()

    def reshaped_in_place(self, t: Slot, dim: int) -> Call:
        if t.at < self.inputs_count and self.random.random() < 0.9:
            raise _NothingFits  # such graphs run as eager
        name, *args = self.random.choice([("t_",), ("squeeze_",), ("unsqueeze_", 0), ("transpose_", 0, dim)])
        return name, (t, *args), {}

    # -- the program

    def program(self, steps: int) -> Program:
        self.values = list(self.inputs())
        pristine = clone_tree(self.values)
        count = self.inputs_count = len(self.values)
        tries = 0
        while not self.refused and len(self.calls) < steps and tries < 12 * steps:
            tries += 1
            call = self.draw()
            if call is not None:
                self.attempt(call)
        return Program(self.build(count), pristine)

    def draw(self) -> Call | None:
        kind = self.random.random()
        try:
            slot = self.pick()
            if kind < 0.35:
                return self.view(self.of(slot), slot)
            return self.write(slot) if kind < 0.7 else self.read(slot)
        except _NothingFits:
            return None

    def attempt(self, call: Call) -> None:
        """Runs one more step, and undoes it if eager refuses it."""
        before = clone_tree(self.values)
        out = call[2].get("out")
        shape = None if out is None else self.of(out).shape
        try:
            made = _call(*call, self.values)
        except Exception:
            self.values = before
            if self.random.random() < 0.02:
                self.calls.append(call)
                self.refused = True
            return
        too_large = isinstance(made, Tensor) and made.numel() > MAX_ELEMENTS
        if too_large or (out is not None and self.of(out).shape != shape):
            self.values = before
            return
        self.calls.append(call)
        self.values.append(made)
        if isinstance(made, (tuple, list)) and made:
            position = len(self.values) - 1
            for at in self.random.sample(range(len(made)), min(2, len(made))):
                self.calls.append((operator.getitem, (Slot(position), at), {}))
                self.values.append(made[at])

    def build(self, count: int) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        nodes = [graph.placeholder(f"x{at}") for at in range(count)]
        for target, args, kwargs in self.calls:
            args, kwargs = torch.fx.node.map_aggregate(
                (args, kwargs), lambda leaf: nodes[leaf.at] if isinstance(leaf, Slot) else leaf
            )
            nodes.append(
                graph.call_method(target, args, kwargs)
                if isinstance(target, str)
                else graph.call_function(target, args, kwargs)
            )
        shown = [at for at, value in enumerate(self.values) if isinstance(value, Tensor)]
        outputs = self.random.sample(shown, min(len(shown), self.random.randint(2, 6)))
        if self.random.random() < 0.1:
            outputs.append(outputs[0])
        if self.refused:
            outputs.append(len(nodes) - 1)  # otherwise nothing would use it
        graph.output(tuple(nodes[at] for at in outputs))
        return torch.fx.GraphModule(torch.nn.Module(), graph)


class _NothingFits(Exception):
    """Raised if no value meets an operation's requirements."""


def _call(target: Any, args: Any, kwargs: Any, values: list[Any]) -> Any:
    args, kwargs = torch.fx.node.map_aggregate(
        (args, kwargs), lambda leaf: values[leaf.at] if isinstance(leaf, Slot) else leaf
    )
    return getattr(args[0], target)(*args[1:], **kwargs) if isinstance(target, str) else target(*args, **kwargs)

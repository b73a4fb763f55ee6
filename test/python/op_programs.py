"""Random programs of torch's operations over tensors of all layouts and element types: for the operation fuzzer.

`make` draws a program from a seed: a function as Python text, and inputs for it. The program is run while it is drawn,
so eager accepts almost every line. Some results are unused, and the last line may be one that raises. Sizes are drawn
around those at which generated code changes its form. `wrong` compares everything that a program could see: values,
strides of all dimensions, offsets, versions, bases, sharing of memory, writes, exceptions.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from both import DOORS
from harness import Outcome, clone_tree, differences, run
from op_words import (
    ACTIVATIONS,
    ALONG,
    BINARY,
    CHOICES,
    COPIES,
    INDEXED,
    LAST,
    PRODUCTS,
    REDUCTIONS,
    UNARY,
    VIEWS,
    WRITES,
)
from torch import Tensor

F = torch.nn.functional

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Vector widths, rows that are processed in strips, lines that products compute side by side, arguments of a kernel,
# pieces of reductions, work large enough for threads.
THRESHOLDS = (8, 16, 24, 32, 64, 128, 256, 512, 1024, 4096, 32_768)
MOST = 70_000
"""The largest number of elements in a tensor."""


@dataclasses.dataclass
class Program:
    """A function as text, and inputs for it."""

    source: str
    inputs: list[Tensor]

    def function(self) -> Callable[..., Any]:
        made: dict[str, Any] = {"torch": torch, "F": F}
        exec(self.source, made)
        return made["f"]

    def text(self) -> str:
        """The program and its inputs in readable form."""
        lines = []
        for at, tensor in enumerate(self.inputs):
            shared = tensor.untyped_storage()._cdata % 9973
            what = f"{tensor.dtype} {tuple(tensor.shape)} strides {tensor.stride()} offset {tensor.storage_offset()}"
            lines.append(f"# x{at}: {what} memory {shared}")
        return "\n".join([*lines, self.source])


def make(seed: int, lines: int = 8) -> Program:
    """The program of this seed."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Maker(seed).program(lines)


def wrong(program: Program, door: str) -> list[str]:
    """The differences between two calls through a door and eager, as text. Values that change in eager itself when
    inputs change in their last digits are not compared.
    """
    fn = program.function()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._dynamo.reset()
        compiled = DOORS[door](fn)
        for call in range(2):
            eager, ours = _outcome(fn, program.inputs), _outcome(compiled, program.inputs)
            found = differences(eager, ours)
            if found and door == "torch.compile":
                # Differences that stock torch.compile has as well are not counted, nor is the wording of errors.
                stock = _outcome(torch.compile(fn, backend="eager", dynamic=False), program.inputs)
                found = differences(stock, ours) if stock.error is None or ours.error is None else []
            infinite = any("nan" in text or "inf" in text for text in found)
            if any(word in program.source for word in (*_ORDERED, *(_RUNNING if infinite else ()))):
                found = [text for text in found if " values: " not in text and " storage: " not in text]
            if found and all(" values: " in text or " storage: " in text for text in found):
                found = found if _is_stable(fn, program.inputs, eager) else []
            if found:
                return [f"{door}, call {call}: {text}" for text in found]
    return []


# A product of many numbers overflows in one order of evaluation and becomes zero in another.
_ORDERED = ("prod(", "cumprod(")
# Eager's running mean is NaN after an infinity, unless that comes last.
_RUNNING = ("std_mean(", "var_mean(")


def _outcome(fn: Callable[..., Any], inputs: list[Tensor]) -> Outcome:
    return run(fn, clone_tree(inputs), {})


def _is_stable(fn: Callable[..., Any], inputs: list[Tensor], eager: Outcome) -> bool:
    for sign in (-1, 1):
        moved = clone_tree(inputs)
        for tensor in {id(t.untyped_storage()): t for t in moved if t.dtype.is_floating_point}.values():
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
            whole.mul_(1 + sign * 4 * torch.finfo(tensor.dtype).eps).add_(sign * 1e-7)
            torch._C._autograd._unsafe_set_version_counter((tensor,), (0,))
        if differences(eager, run(fn, moved, {}))[:1] != [] and any(
            "input" not in text.split(" values")[0] for text in differences(eager, run(fn, clone_tree(moved), {}))
        ):
            return False
    return True


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.values: dict[str, Tensor] = {}
        self.lines: list[str] = []
        self.made = 0
        self.raised = False

    # -- inputs

    def size(self) -> int:
        draw = self.random.random()
        if draw < 0.55:
            return self.random.choice([1, 1, 2, 3, 4, 5, 7, 9])
        if draw < 0.6:
            return 0 if self.random.random() < 0.3 else 2
        return self.random.choice(THRESHOLDS) + self.random.choice([-1, 0, 0, 1])

    def shape(self) -> list[int]:
        while True:
            shape = [self.size() for _ in range(self.random.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4]))]
            if torch.Size(shape).numel() <= MOST:
                return shape

    def numbers(self, dtype: torch.dtype, *shape: int) -> Tensor:
        whole = torch.randint(-8, 9, shape, generator=self.generator)
        if dtype.is_floating_point:
            return (whole / 4 + torch.rand(shape, generator=self.generator) * self.random.choice([0, 1])).to(dtype)
        return (whole.clamp(0, 2) if dtype is torch.int64 and self.random.random() < 0.7 else whole).to(dtype)

    def input(self) -> Tensor:
        dtype = self.random.choice(self.random.choice([FLOATS, FLOATS, FLOATS, INTS, (torch.bool,)]))
        draw, shape = self.random.random(), self.shape()
        if self.values and draw < 0.12:
            return self.random.choice(list(self.values.values()))
        if draw < 0.5 or not shape:
            return self.numbers(dtype, *shape)
        if draw < 0.65:
            order = self.random.sample(range(len(shape)), len(shape))
            back = [order.index(d) for d in range(len(shape))]
            return self.numbers(dtype, *(shape[d] for d in order)).permute(back)
        if draw < 0.75:
            return self.numbers(dtype, *(n + 2 for n in shape[:-1]), 2 * shape[-1] + 1)[
                (*(slice(1, n + 1) for n in shape[:-1]), slice(0, 2 * shape[-1], 2))
            ]
        if draw < 0.85:
            at = self.random.randrange(len(shape))
            return self.numbers(dtype, *(1 if d == at else n for d, n in enumerate(shape))).expand(shape)
        memory = self.numbers(dtype, torch.Size(shape).numel() + 5)
        return memory[self.random.randint(1, 5) :][: torch.Size(shape).numel()].view(shape)

    # -- lines

    def pick(self, accept: Callable[[Tensor], bool] = lambda _: True) -> str:
        names = [name for name, value in self.values.items() if accept(value)]
        if not names:
            return "torch.arange(3)"
        return self.random.choice(names[-4:] if self.random.random() < 0.5 else names)

    def fill(self, form: str) -> str:
        name = self.pick()
        a = self.values.get(name)
        rank = 1 if a is None else max(a.dim(), 1)
        shape = (3,) if a is None else tuple(a.shape)

        def fits(other: Tensor) -> bool:
            try:
                return torch.broadcast_shapes(other.shape, shape) is not None
            except RuntimeError:
                return False

        number = self.random.choice(["0", "1", "2", "-1", "0.5", "-1.25", "True", "3"])
        other = self.pick(fits) if self.random.random() < 0.75 else number
        holes = {
            "a": name,
            "b": other,
            "n": number,
            "d": str(self.random.randrange(-rank, rank)),
            "e": str(self.random.randrange(-rank, rank)),
            "k": self.random.choice(["1", "2"]),
            "half": str((shape or (1,))[0] // 2),
            "classes": self.random.choice(["2", "3", "5"]),
            "r": str(self.refactored(shape)),
            "i": self.pick(lambda v: v.dtype in (torch.int64, torch.int32) and v.dim() <= 2),
            "m": self.pick(lambda v: v.dtype is torch.bool),
        }
        return form.format_map(holes)

    def refactored(self, shape: tuple[int, ...]) -> list[int]:
        numel = torch.Size(shape).numel()
        first = self.random.choice([n for n in range(1, min(numel, 64) + 1) if numel % n == 0] or [numel])
        return [first, -1]

    def draw(self) -> tuple[str, bool]:
        """A line, and whether it has a result."""
        choose = self.random.choice
        draw = self.random.random()
        if draw < 0.12:
            return self.fill(f"torch.{choose(UNARY)}({{a}})"), True
        if draw < 0.18:
            return self.fill(f"F.{choose(ACTIVATIONS)}({{a}})"), True
        if draw < 0.36:
            name = choose(BINARY)
            reverse = self.random.random() < 0.3
            return self.fill(f"torch.{name}({{b}}, {{a}})" if reverse else f"torch.{name}({{a}}, {{b}})"), True
        if draw < 0.42:
            return self.fill(f"{{a}}.{choose(REDUCTIONS)}()"), True
        if draw < 0.52:
            keep = choose(["", ", keepdim=True"])
            return self.fill(f"torch.{choose(ALONG)}({{a}}, dim={{d}}{keep})"), True
        if draw < 0.54:
            return self.fill(choose(LAST)), True
        if draw < 0.64:
            return self.fill(choose(VIEWS)), True
        if draw < 0.74:
            return self.fill(choose(COPIES)), True
        if draw < 0.82:
            return self.fill(choose(INDEXED)), True
        if draw < 0.85:
            return self.fill(choose(CHOICES)), True
        if draw < 0.92:
            return self.fill(choose(PRODUCTS)), True
        return self.fill(choose(WRITES)), False

    def program(self, lines: int) -> Program:
        for at in range(self.random.randint(1, 4)):
            self.values[f"x{at}"] = self.input()
        names = list(self.values)
        pristine = clone_tree(list(self.values.values()))
        tries = 0
        while len(self.lines) < lines and tries < 10 * lines and not self.raised:
            tries += 1
            self.attempt(*self.draw())
        shown = [name for name, value in self.values.items() if isinstance(value, Tensor) and name not in names]
        shown += [name for name in names if self.random.random() < 0.2]
        outputs = self.random.sample(shown, min(len(shown), self.random.randint(1, 4)))
        body = [*self.lines, f"return {', '.join([*outputs, ''])}" if outputs else "return None"]
        source = "\n".join([f"def f({', '.join(names)}):", *(f"    {line}" for line in body)])
        return Program(source, pristine)

    def attempt(self, line: str, has_result: bool) -> None:
        """Runs one more line, and undoes it if eager refuses it."""
        # Writes cannot be taken back: a line that raises must have left the values unchanged.
        before = list(self.values), clone_tree(list(self.values.values()))
        scope: dict[str, Any] = {"torch": torch, "F": F, **self.values}
        torch.manual_seed(len(self.lines))
        try:
            if has_result:
                made = eval(line, scope)
            else:
                exec(line, scope)
                made = None
        except SyntaxError:
            return
        except Exception:
            self.values = dict(zip(*before))
            if self.random.random() < 0.03:
                self.lines.append(f"dead = {line}" if has_result else line)
                self.raised = True
            return
        if not has_result:
            self.lines.append(line)
            return
        tensors = made if isinstance(made, tuple) and all(isinstance(part, Tensor) for part in made) else (made,)
        if not all(isinstance(part, Tensor) and part.numel() <= MOST for part in tensors) or not tensors:
            self.values = dict(zip(*before))
            return
        names = [f"v{self.made + at}" for at in range(len(tensors))]
        self.made += len(tensors)
        self.values.update(zip(names, tensors))
        self.lines.append(f"{', '.join(names)} = {line}")

"""Random programs with gradients, compiled through either front door and run in eager.

A program is a function of three matrices of doubles, with writes in place, detached and hidden values, grad modes,
autograd Functions, checkpoints, transforms and gradients within it. A caller differentiates what it returns, once or
several times, with hooks. Values, gradients, missing gradients, calls of hooks and errors must agree with eager's.
"""

from __future__ import annotations

import dataclasses
import linecache
import random
import re
from collections.abc import Callable
from typing import Any

import dynamlir
import torch
from torch import Tensor
from torch.autograd import Function

CALLS = 2

HEAD = """
def function(x, y, w):
    v = x * 2
    u = y.sin()
"""

_RULE = re.compile(r"\{(value|other|name|inner|scalar)\}")


class Scale(Function):
    """A linear Function whose backward is not its true gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a * 3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 0.5


class Clip(Function):
    """A Function that is not linear in its gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.clamp(-0.5, 0.5)


class Product(Function):
    """A Function whose own backward can be differentiated any number of times."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, b = ctx.saved_tensors
        return Product.apply(g, b), Product.apply(g, a)


class Once(Function):
    """A Function that can be differentiated only once."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.save_for_backward(a)
        return a.exp()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.saved_tensors[0].exp()


class Modes(Function):
    """A Function that switches grad mode in its backward, and gives no gradient for one of two operands."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (a,) = ctx.saved_tensors
        with torch.no_grad():
            kept = a.cos()
        with torch.enable_grad():
            kept = kept * a
        return g * kept, None


class Noisy(Function):
    """A Function whose forward draws random numbers that only its backward reads."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.save_for_backward(a, torch.rand_like(a))
        return a.sin()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        a, noise = ctx.saved_tensors
        return g * a.cos() * noise


class Both(Function):
    """A Function with two results, one of them without a gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        sign = (a > 0).to(a.dtype)
        ctx.mark_non_differentiable(sign)
        ctx.save_for_backward(sign)
        ctx.set_materialize_grads(False)
        return a * sign, sign

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: Tensor | None) -> Tensor | None:
        return None if g is None else g * ctx.saved_tensors[0]


def checkpointed(function: Callable[..., Tensor], *args: Tensor) -> Tensor:
    result: Tensor = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False)
    return result


WORLD = {
    "torch": torch,
    "F": torch.nn.functional,
    "checkpointed": checkpointed,
    **{each.__name__: each for each in (Scale, Clip, Product, Once, Modes, Noisy, Both)},
    **{name: getattr(torch.func, name) for name in ("grad", "vjp", "jvp", "vmap", "jacrev", "jacfwd")},
}


class Grammar:
    """Generates statements over matrices of one size. With ``several``, more results than one, each of which has a
    loss, hooks, and writes through ``.data``; all of these depend on the identity of autograd's nodes and on what they
    save. With ``drawing``, random numbers, parts of values, and hooks of results as well.
    """

    def __init__(self, seed: int, several: bool, drawing: bool = False) -> None:
        self.random = random.Random(seed)
        self.several = several
        self.drawing = drawing
        self.names = ["x", "y", "w", "u", "v"]
        self.depth = 0

    def pick(self, *choices: str) -> str:
        """One of the choices, with the rules in braces expanded; the first choice if that nests too deep."""
        self.depth += 1
        text = choices[0] if self.depth > 4 else self.random.choice(choices)
        text = _RULE.sub(lambda rule: getattr(self, rule[1])(), text)
        self.depth -= 1
        return text

    def name(self) -> str:
        return self.random.choice(self.names)

    def scalar(self) -> str:
        return self.random.choice(["2", "0.5", "-1", "1"])

    def value(self) -> str:
        """A matrix."""
        return self.pick(
            "{name}",
            "{name}",
            "{other}",
            "{other}",
            "{name} * {name}",
            "({value} + {value})",
            "({value} - {name})",
            "{value} * {scalar}",
            "torch.tanh({value})",
            "({value}).sin()",
            "({value}).sigmoid()",
            "({value}).tanh().exp()",
            "torch.relu({value})",
            "F.gelu({name})",
            "F.softplus({value})",
            "({value}).softmax(1)",
            "F.layer_norm({name}, (3,))",
            "({name} @ {name})",
            "({value}).t().contiguous().t()",
            "torch.where({name} > 0, {value}, {name})",
            "torch.cat([{name}[:1], ({value})[1:]])",
            "({value}).cumsum(0)",
            "({value}).flip(0)",
            "({name} - {name}.mean(1, keepdim=True))",
            "{name}.square().sum().expand(3, 3)",
            "{name}.clone()",
            *(
                [
                    "F.dropout({value}, 0.5)",
                    "({value} * torch.rand_like({name}))",
                    "torch.stack(({value}).unbind())",
                    "torch.cat([{name}, {value}]).chunk(2)[1]",
                ]
                if self.drawing
                else []
            ),
        )

    def other(self) -> str:
        """A matrix with a special history."""
        return self.pick(
            "({value}).detach()",
            "{name}.data",
            "Scale.apply({value})",
            "Clip.apply({value})",
            "Product.apply({name}, {value})",
            "Once.apply({name}.tanh())",
            "Modes.apply({value}, {name})",
            "Both.apply({name})[0]",
            "checkpointed(lambda a, b: torch.tanh(a * b), {name}, {name})",
            "checkpointed(lambda a: Scale.apply(a).sin(), {value})",
            "grad(lambda a: {inner}.sum())({name})",
            "grad(lambda a: grad(lambda a: {inner}.sum())(a).square().sum())({name})",
            "vmap(lambda a: {inner})({name})",
            "vjp(lambda a: {inner}, {name})[1]({name})[0]",
            "jvp(lambda a: {inner}, ({name},), ({name},))[1]",
            "jacrev(lambda a: {inner}.sum(0))({name}).sum(0)",
            "torch.autograd.grad(({value}).sum(), {name}, create_graph=True)[0]",
            "torch.autograd.grad(({value}).square().sum(), [{name}], retain_graph=True)[0]",
            *(
                [
                    "Noisy.apply({value})",
                    "checkpointed(lambda a: F.dropout(a.sin(), 0.3), {value})",
                    "{name} * torch.poisson({name}.detach().abs() * 20).sign()",
                    "F.rrelu({value}, training=True)",
                    "{value} * torch.bernoulli({name}.detach().sigmoid())",
                ]
                if self.drawing
                else []
            ),
        )

    def inner(self) -> str:
        """The body of a transform, an expression in ``a``."""
        return self.random.choice(["(a * a)", "a.sin()", "torch.tanh(a)", "(a * a.sum())", "a.sigmoid()", "(a * 2)"])

    def statement(self) -> str:
        name = self.random.choice("pqst")
        text = self.pick(
            f"{name} = {{value}}",
            f"{name} = {{value}}",
            f"{name} = {{value}}",
            f"{name} = {{other}}",
            f"{name} = {{other}}",
            f"{name} = {{value}} + 0; {name}.mul_({{scalar}})",
            f"{name} = {{value}} * 1; {name}.add_({{name}})",
            f"{name} = {{value}} + 0; {name}[0] = {{name}}[1]",
            f"{name} = ({{value}}).clone(); {name}[1:].mul_({{name}}[1:])",
            f"{name} = {{value}} + 0; {name}.relu_()",
            f"{name} = {{value}} * 1; {name}.detach_()",
            f"with torch.no_grad(): {name} = {{value}}",
            f"with torch.enable_grad(): {name} = {{value}}",
            "u.mul_({scalar})",
            "v.detach_()",
            "u = u * {value}",
            *([f"{name} = {{value}} * 1; {name}.data.mul_(0.5)", "v.data.mul_({scalar})"] if self.several else []),
            *(
                [
                    f"{name}, r = torch.stack([{{value}}, {{name}}]).unbind()",
                    f"r, {name} = torch.cat([{{value}}, {{value}}], 1).chunk(2, 1)",
                    f"r, {name}, _ = ({{value}}).repeat(1, 3).split(3, 1)",
                    f"{name} = torch.empty_like(x).uniform_(-1, 1); {name} = {name} * {{value}}",
                ]
                if self.drawing
                else []
            ),
        )
        if " r" in text.split("=")[0] or text.startswith("r,"):
            self.names += [part for part in ("r", name) if part not in self.names]
        if name not in self.names and text.startswith((f"{name} =", "with")):
            self.names.append(name)
        return text

    def program(self) -> str:
        """The text of a function."""
        lines = [f"    {self.statement()}" for _ in range(self.random.randint(1, 6))]
        count = self.random.randint(1, 3) if self.several else 1
        results = ", ".join(self.value() for _ in range(count))
        return HEAD + "\n".join(lines) + f"\n    return {results},\n"

    def caller(self) -> dict[str, Any]:
        """The way in which the function is called and differentiated."""
        draw = self.random
        return {
            "order": draw.choice([1, 1, 1, 2, 2, 3]),
            "made": draw.random() < 0.3,
            "hooks": self.several and draw.random() < 0.25,
            "frozen": draw.choice([None, None, None, "x", "y", "w"]),
            "grad": draw.random() < 0.95,
            "losses": draw.choice(["sum", "each", "kept"]) if self.several else "sum",
            "drawing": self.drawing,
            "hooks of results": self.drawing and draw.random() < 0.3,
        }


def use(function: Callable[..., Any], how: dict[str, Any]) -> list[Any]:
    """Everything observable about a call and its derivatives."""
    draw = torch.Generator().manual_seed(0)
    leaves = {
        name: torch.randn(3, 3, generator=draw, dtype=torch.float64).requires_grad_(how["frozen"] != name)
        for name in "xyw"
    }
    told: list[Any] = []
    called: list[Any] = []
    given = dict(leaves)
    if how["made"]:
        given["y"] = leaves["y"] * leaves["x"]
    if how["hooks"] and given["x"].requires_grad:
        given["x"].register_hook(lambda gradient: told.append(("hook", shown(gradient))))
    try:
        torch.manual_seed(7)
        with torch.set_grad_enabled(how["grad"]), dynamlir.config.patch(eager_random=how["drawing"]):
            results = function(*given.values())
        told += [(shown(result), result.requires_grad) for result in results]
        wanting = [result for result in results if result.requires_grad]
        if how["drawing"]:
            told.append((shown(torch.rand(1)), False))
        if how["hooks of results"] and how["order"] == 1:
            for at, result in enumerate(wanting):
                result.register_hook(lambda gradient, at=at: called.append(("hook", at, shown(gradient))))
        if how["losses"] == "sum":
            differentiate(sum(result.square().sum() for result in wanting), leaves, how["order"], told)
        else:
            for result in wanting:
                result.square().sum().backward(retain_graph=how["losses"] == "kept")
                told.append("a loss")
                # Autograd may give two leaves the memory of one gradient, one of them as a view, and then adds the next
                # loss to both.
                for leaf in leaves.values():
                    leaf.grad = None if leaf.grad is None else leaf.grad.clone()
        # The order among results is that of autograd's nodes, and a compiled function has fewer of them.
        told += sorted(called, key=lambda call: call[1])
    except Exception as error:
        # The number of hooks that run before a backward fails depends on the number of nodes.
        while told and told[-1][0] == "hook":
            told.pop()
        told.append((type(error).__name__, str(error).split("\n")[0][:60]))
        return told
    told += [None if leaf.grad is None else shown(leaf.grad) for leaf in leaves.values()]
    return told


def differentiate(loss: Any, leaves: dict[str, Tensor], order: int, told: list[Any]) -> None:
    """Appends the gradients of the loss, of their squares, and so on."""
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
    total = loss
    for _ in range(order - 1):
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            break
        found = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
        told.append([None if one is None else (shown(one), one.requires_grad) for one in found])
        loss = sum(one.square().sum() for one in found if one is not None)
        total = total + 0.5 * loss
    if isinstance(total, Tensor) and total.requires_grad:
        total.backward()


def shown(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    if tensor._is_zerotensor():  # without memory
        tensor = torch.zeros(tensor.shape)
    return tuple(tensor.shape), tensor.detach().flatten().tolist()


def alike(one: Any, other: Any) -> bool:
    """Returns true if two such descriptions are equal up to rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or one != one != other != other or abs(one - other) <= 1e-7 * max(1.0, abs(one))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def is_finite(told: Any) -> bool:
    """Returns true if no number in a description is too large for rounding errors to be told apart from real
    differences.
    """
    if isinstance(told, float):
        return abs(told) < 1e6
    return not isinstance(told, (list, tuple)) or all(map(is_finite, told))


def made(text: str, seed: int) -> Callable[..., Any]:
    """The function of a text; tracebacks can show its lines."""
    file = f"<gradients {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    world = {"__name__": "gradients", **WORLD}
    exec(compile(text, file, "exec"), world)
    function: Callable[..., Any] = world["function"]
    return function


DOORS: dict[str, Callable[..., Any]] = {
    "dynamlir.compile": dynamlir.compile,
    "torch.compile": lambda function: torch.compile(function, backend="dynamlir"),
}


OF_TORCH = ("RuntimeError", "ZeroTensors are immutable. Please use the materialized zero tensor ob"[:60])
"""Torch's error for a zero tangent of forward mode when it writes gradients in place."""

NOT_SHOWN = "trying to differentiate twice a torch.autograd.Function, of which torch.compile does not show"[:60]


ZEROS = "ZeroTensors are immutable"


def without_gradients(told: Any) -> Any:
    """A description without the numbers of gradients. When a later piece writes to values, it is the compiler's choice
    which of them are saved and which are recomputed.
    """

    def without(one: Any) -> Any:
        if isinstance(one, (list, tuple)):
            return [*map(without, one)]
        return 0.0 if isinstance(one, float) else one

    # The descriptions of results come first, and not in a list.
    return [one if isinstance(one, tuple) and type(one[-1]) is bool else without(one) for one in told]


def unwritten(text: str, seed: int, how: dict[str, Any]) -> Any:
    """The outcome of a program if writes through ``.data`` do not reach any saved tensor; None for a program without
    such writes. Eager does not notice these writes and uses the current contents, so its gradient is not that of the
    computed values. Which values a piece before a graph break saves is a compiler's choice.
    """
    other = re.sub(r"(\w+)\.data\.mul_\((.*)\)", r"\1 = \1 + (\2 - 1) * \1.detach()", text)
    return None if other == text else use(made(other, seed), how)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference in the outcome of a program."""

    text: str
    cause: str | None = None
    """The cause, if it is not the compiler."""


def without_compiler(text: str, seed: int, how: dict[str, Any], calls: int) -> list[Any]:
    """The outcome of a program with Dynamo alone, in the last of so many calls."""
    torch._dynamo.reset()
    function = torch.compile(made(text, seed), backend="eager")
    return [use(function, how) for _ in range(calls)][-1]


def differs(
    seed: int, door: str = "dynamlir.compile", several: bool = False, drawing: bool = False
) -> Difference | None:
    """The difference in the outcome of the program of a seed; None if there is none."""
    grammar = Grammar(seed, several, drawing)
    text, how = grammar.program(), grammar.caller()
    expected = use(made(text, seed), how)
    if not is_finite(expected) or expected[-1] == OF_TORCH:
        return None
    compiled = DOORS[door](made(text, seed))
    for call in range(CALLS):
        found = use(compiled, how)
        other = unwritten(text, seed, how)
        if not alike(expected, found) and not alike(other, found):
            said = f"{text}{how}\ncall {call} through {door}\neager {expected}\nours  {found}"
            if door == "torch.compile":
                alone = without_compiler(text, seed, how, call + 1)
                refuses = isinstance(found[-1], tuple) and found[-1][-1] == NOT_SHOWN
                if alike(found, alone) or (refuses and not alike(expected, alone)):
                    return Difference(said, "Dynamo alone differs as well")
            if ZEROS in repr(expected) and ZEROS not in repr(found):
                return Difference(said, "torch fails at zeros without memory, which its formulas for jvp make")
            if other is not None and dynamlir.fallbacks() and alike(*map(without_gradients, (expected, found))):
                return Difference(said, "what a piece before a graph break has kept is written through .data")
            return Difference(said)
    return None

"""Python numbers that become known when a graph is called: a learning rate, ``step.item()``.

Such a number is a value of the graph, a 0-d ``f64`` tensor, and to the program a ``torch.SymFloat``: arithmetic on it
is recorded as operations on those tensors, in doubles, as in Python. If an operator takes one, it is recorded with a
tensor instead, rounded as eager's kernel rounds a number, so that later stages need no notion of numbers. A conversion
into a Python value ends the recording, and so does an operator that is not listed here.

Python raises where a tensor would be infinite or NaN (``1 / x`` of zero, powers): an assertion is recorded with these.
If it fails, the call is left to eager, which raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import torch
from torch._ops import OpOverload

from .reasons import Fallback

if TYPE_CHECKING:
    from .recorder import OpRecorder

aten = torch.ops.aten

_FLOATS = (torch.float32, torch.float64)


class Node:
    """The payload of a `Number` in torch's C++ code: the part of the protocol for symbolic numbers that it uses."""

    def __init__(self, recorder: OpRecorder, value: torch.Tensor, origins: frozenset[str] = frozenset()) -> None:
        self.recorder = recorder
        self.origins = origins
        """The sources of the floats from which it is computed."""
        self.location = recorder.location
        self.value = value
        """A 0-d ``f64`` tensor with its own memory."""
        self.positive = False
        """True if it is known to be above zero."""
        self._rounded: dict[torch.dtype, torch.Tensor] = {torch.float64: value}

    def rounded(self, dtype: torch.dtype) -> torch.Tensor:
        """Returns the number in another type, as a 0-d tensor."""
        if dtype not in self._rounded:
            self._rounded[dtype] = aten._to_copy.default(self.value, dtype=dtype)
        return self._rounded[dtype]

    def is_float(self) -> bool:
        return True

    def _no(self) -> bool:
        return False

    is_int = is_bool = is_constant = is_nested_int = _no

    def is_symbolic(self) -> bool:
        return True

    def _none(self) -> None:
        return None

    constant_int = constant_bool = maybe_as_int = maybe_as_float = nested_int = _none

    def has_hint(self) -> bool:
        return False

    def _refuse(self, *unused: Any) -> NoReturn:
        self.recorder.blamed |= self.origins
        raise self.recorder._fail(Fallback("data-dependent", "a number that is known at the call only"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse


def _lifted(
    forward: Callable[[Any, Any], torch.Tensor],
    check: Callable[[Any, Any, torch.Tensor], Any] | None = None,
    sure: Callable[[Any, Any], bool] = lambda left, right: False,
) -> tuple[Callable[[Number, Any], Any], Callable[[Number, Any], Any]]:
    """Returns the method of a binary operator and its reflection. ``check`` returns a 0-d tensor that has to be true;
    it is skipped where the result is ``sure``."""

    def make(left: Any, right: Any, node: Node) -> Any:
        a, b = _operand(left), _operand(right)
        if a is None or b is None:
            return NotImplemented
        origins = node.origins.union(*(value.node.origins for value in (left, right) if _is_number(value)))
        try:
            with torch.no_grad():
                out = forward(a, b)
                condition = check(a, b, out) if check is not None and not sure(left, right) else None
                if condition is not None:
                    aten._assert_async.default(condition)
        except Fallback:
            node.recorder.blamed |= origins
            raise
        return Number(Node(node.recorder, out, origins))

    return (lambda self, other: make(self, other, self.node)), (lambda self, other: make(other, self, self.node))


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.SymFloat) and isinstance(value.node, Node)


def _operand(value: Any) -> torch.Tensor | float | None:
    """Returns the tensor of a number, or a constant; None for others, such as a tensor, which has own operators."""
    if _is_number(value):
        return value.node.value
    if type(value) is float or (type(value) is int and abs(value) <= 2**53):
        return float(value)
    return None


def _add(a: Any, b: Any) -> torch.Tensor:
    return aten.add.Tensor(a, b) if isinstance(a, torch.Tensor) else aten.add.Tensor(b, a)


def _mul(a: Any, b: Any) -> torch.Tensor:
    return aten.mul.Tensor(a, b) if isinstance(a, torch.Tensor) else aten.mul.Tensor(b, a)


def _sub(a: Any, b: Any) -> torch.Tensor:
    return aten.sub.Tensor(a, b) if isinstance(a, torch.Tensor) else aten.rsub.Scalar(b, a)


def _div(a: Any, b: Any) -> torch.Tensor:
    return aten.div.Tensor(a if isinstance(a, torch.Tensor) else _full(a), b)


def _divides(a: Any, b: Any, out: torch.Tensor) -> Any:
    if isinstance(b, torch.Tensor):
        return aten.ne.Scalar(b, 0.0)
    if b == 0.0:
        raise Fallback("data-dependent", "a division by zero")
    return None


def _pow(a: Any, b: Any) -> torch.Tensor:
    return aten.pow.Tensor_Tensor(*(value if isinstance(value, torch.Tensor) else _full(value) for value in (a, b)))


def _is_power(a: Any, b: Any, out: torch.Tensor) -> torch.Tensor:
    """Python's power of a positive base is C's, unless it overflows."""
    finite = aten.lt.Scalar(aten.abs.default(out), float("inf"))
    if isinstance(a, torch.Tensor):
        return aten.logical_and.default(finite, aten.gt.Scalar(a, 0.0))
    if not a > 0.0:
        raise Fallback("data-dependent", "a power of a base that is not above zero")
    return finite


def _is_positive(value: Any) -> bool:
    return _is_number(value) and bool(value.node.positive)


def _divides_surely(left: Any, right: Any) -> bool:
    return _is_positive(right)


def _is_root(left: Any, right: Any) -> bool:
    return _is_positive(left) and type(right) is float and 0.0 < right <= 1.0


def _full(value: float) -> torch.Tensor:
    return aten.full.default([], value, dtype=torch.float64)


class Number(torch.SymFloat):
    """A number of the program: Python's operators, recorded."""

    node: Any

    def __init__(self, node: Node) -> None:
        super().__init__(cast(Any, node))

    __add__, __radd__ = _lifted(_add)
    __sub__, __rsub__ = _lifted(_sub)
    __mul__, __rmul__ = _lifted(_mul)
    __truediv__, __rtruediv__ = _lifted(_div, _divides, _divides_surely)
    __pow__, __rpow__ = _lifted(_pow, _is_power, _is_root)

    def __neg__(self) -> Number:
        return Number(Node(self.node.recorder, aten.neg.default(self.node.value), self.node.origins))

    def __pos__(self) -> Number:
        return self

    def _refuse(self, *unused: Any) -> Any:
        return self.node._refuse()

    __bool__ = __float__ = __int__ = __hash__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __abs__ = __floor__ = __ceil__ = _refuse
    __trunc__ = __divmod__ = __rdivmod__ = __sym_sqrt__ = is_integer = as_integer_ratio = hex = _refuse
    __repr__ = __str__ = __format__ = _refuse
    __round__ = _refuse  # type: ignore[assignment]


def of_size(recorder: OpRecorder, origins: Sequence[str], positive: bool, size: torch.SymInt) -> Number:
    """Returns a dynamic size as a float, which may be known to be ``positive``."""
    value = aten.full.default([], size, dtype=torch.float64, device=torch.device("cpu"))
    recorder.has_numbers = True
    made = Number(Node(recorder, value, frozenset(origins)))
    made.node.positive = positive
    return made


def root(number: Number) -> Number:
    """Returns ``math.sqrt(number)`` for a positive number."""
    node = number.node
    if not node.positive:
        return cast(Number, node._refuse())
    made = Number(Node(node.recorder, aten.sqrt.default(node.value), node.origins))
    made.node.positive = True
    return made


def may_read(tensor: torch.Tensor) -> bool:
    """Returns true if `read` accepts a tensor."""
    return tensor.dtype in _FLOATS and tensor.numel() == 1


def read(recorder: OpRecorder, tensor: torch.Tensor) -> Number:
    """Returns ``tensor.item()`` of a one-element tensor: its current value, regardless of later writes."""
    if not may_read(tensor):
        raise Fallback("data-dependent", "aten._local_scalar_dense.default")
    with torch.no_grad(), recorder:
        value = aten.detach.default(tensor) if tensor.requires_grad else tensor
        value = aten.view.default(value, []) if value.dim() else value
        copy = value.dtype == torch.float64
        value = aten.clone.default(value) if copy else aten._to_copy.default(value, dtype=torch.float64)
    return Number(Node(recorder, value))


def as_number(value: Any) -> Any:
    """Converts what torch's C++ code returns for a `Number` back into one; returns anything else unchanged."""
    is_one = type(value) is torch.SymFloat and isinstance(value.node, Node)
    return Number(value.node) if is_one else value


def has_any(values: Sequence[Any]) -> bool:
    """Returns true if there is a number among arguments, which may be lists."""
    return any(
        isinstance(value, torch.SymFloat) or (isinstance(value, (list, tuple)) and has_any(value)) for value in values
    )


def call(recorder: OpRecorder, func: OpOverload, full: list[Any]) -> Any:
    """Records a call with numbers among its arguments, given in schema order."""
    try:
        return _call(recorder, func, full)
    except Fallback:
        recorder.blamed.update(*(value.node.origins for value in _opened(full) if _is_number(value)))
        raise


def _opened(values: Sequence[Any]) -> list[Any]:
    """Returns arguments with lists among them flattened."""
    return [
        element for value in values for element in (_opened(value) if isinstance(value, (list, tuple)) else [value])
    ]


def _call(recorder: OpRecorder, func: OpOverload, full: list[Any]) -> Any:
    name = str(func)
    if name.startswith("aten._foreach_"):
        return _each(recorder, func, full)
    base, _, overload = name.removeprefix("aten.").partition(".")
    if base in _MAKERS and overload != "out":
        return _made(recorder, name, base, full)
    inplace = base.endswith("_")
    rewrite = _REWRITES.get(base.removesuffix("_"))
    if rewrite is None or overload == "out":
        raise Fallback("data-dependent", f"{name} takes a number that is known at the call only")
    masks = 1 if base.startswith("masked_fill") else 0
    tensors = [value for value in full if isinstance(value, torch.Tensor)][: -masks or None]
    dtype = tensors[0].dtype
    if dtype not in _FLOATS or any(tensor.dtype != dtype for tensor in tensors):
        raise Fallback("data-dependent", f"{name} of {dtype} takes a number that is known at the call only")

    def rounded(value: Any) -> Any:
        if not _is_number(value):
            return value
        return _fitting(value, dtype) if base.removesuffix("_") in _FITTING else value.node.rounded(dtype)

    with recorder:
        out = rewrite(*(rounded(value) for value in full))
        return full[0].copy_(out) if inplace else out


def _add_alpha(x: Any, y: Any, alpha: Any = 1) -> Any:
    """Eager rounds ``x + alpha * y`` once."""
    return aten.addcmul.default(x, y, alpha) if isinstance(alpha, torch.Tensor) else aten.add.Tensor(x, y, alpha=alpha)


def _sub_alpha(x: Any, y: Any, alpha: Any = 1) -> Any:
    if isinstance(alpha, torch.Tensor):
        return aten.addcmul.default(x, y, aten.neg.default(alpha))
    return aten.sub.Tensor(x, y, alpha=alpha)


def _addcmul(x: Any, a: Any, b: Any, value: Any) -> Any:
    return aten.addcmul.default(x, aten.mul.Tensor(a, value), b)


def _addcdiv(x: Any, a: Any, b: Any, value: Any) -> Any:
    return aten.add.Tensor(x, aten.div.Tensor(aten.mul.Tensor(a, value), b))


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(base, torch.Tensor):
        base = aten.full.default([], base, dtype=exponent.dtype)
    return aten.pow.Tensor_Tensor(base, exponent)


def _clamp(x: Any, least: Any = None, most: Any = None) -> Any:
    """Eager rounds both bounds to the type of the clamped tensor. Bounds that are tensors have different gradients."""
    if x.requires_grad and torch.is_grad_enabled():
        raise Fallback("data-dependent", "a gradient of bounds that are known at the call only")

    def bound(value: Any) -> Any:
        is_constant = value is not None and not isinstance(value, torch.Tensor)
        return aten.full.default([], value, dtype=x.dtype, device=x.device) if is_constant else value

    return aten.clamp.Tensor(x, bound(least), bound(most))


def _fitting(number: Number, dtype: torch.dtype) -> torch.Tensor:
    """Returns a number rounded by an operator that raises if it is finite, and too large for the type."""
    value, rounded = number.node.value, number.node.rounded(dtype)
    if dtype != torch.float64:
        is_finite = (aten.lt.Scalar(aten.abs.default(one), float("inf")) for one in (rounded, value))
        first, second = is_finite
        aten._assert_async.default(aten.logical_or.default(first, aten.logical_not.default(second)))
    return rounded


_FITTING = frozenset(["clamp", "clamp_min", "clamp_max", "fill", "masked_fill"])

_REWRITES: dict[str, Callable[..., Any]] = {
    "add": _add_alpha,
    "sub": _sub_alpha,
    "rsub": lambda x, y, alpha=1: _sub_alpha(y, x, alpha),
    "mul": aten.mul.Tensor,
    "div": aten.div.Tensor,
    "lerp": aten.lerp.Tensor,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "pow": _power,
    "clamp": _clamp,
    "clamp_min": lambda x, least: _clamp(x, least),
    "clamp_max": lambda x, most: _clamp(x, None, most),
    "fill": aten.fill.Tensor,
    "masked_fill": aten.masked_fill.Tensor,
}
"""Records each operator after its numbers have become tensors of the other operands' type. Takes all arguments, in
schema order."""


_MAKERS: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    "full": (lambda size, *options: aten.empty.memory_format(size, **_options(options)), 1),
    "full_like": (lambda like, *options: aten.empty_like.default(like, **_options(options, "memory_format")), 1),
    "new_full": (lambda like, size, *options: aten.new_empty.default(like, size, **_options(options)), 2),
}
"""Operators that fill a new tensor with a number: the function that creates it, and the index of the number."""


def _options(given: Sequence[Any], *more: str) -> dict[str, Any]:
    return dict(zip(("dtype", "layout", "device", "pin_memory", *more), given))


def _made(recorder: OpRecorder, name: str, base: str, full: list[Any]) -> torch.Tensor:
    """Creates a tensor and then fills it with a number, as eager does."""
    make, place = _MAKERS[base]
    with recorder:
        made = make(*full[:place], *full[place + 1 :])
        if made.dtype not in _FLOATS or not _is_number(full[place]):
            raise Fallback("data-dependent", f"{name} of {made.dtype} takes a number that is known at the call only")
        return aten.fill.Tensor(made, _fitting(full[place], made.dtype))


def _each(recorder: OpRecorder, func: OpOverload, full: list[Any]) -> Any:
    """Records a call on lists of tensors as one on each, as eager's own CPU kernels do."""
    from .aten import schema  # which records with this module

    base = func._schema.name.removeprefix("aten::_foreach_")
    count = next(len(value) for value in full if isinstance(value, (list, tuple)) and _is_tensors(value))
    known = schema.info(func)
    before = {id(value): value._version for value in _flat(full)}
    results = []
    for at in range(count):
        arguments = [
            value[at] if isinstance(value, (list, tuple)) and argument.type.startswith("List") else value
            for argument, value in zip(known.arguments, full)
        ]
        packet = getattr(aten, base, None)
        if base.removesuffix("_") not in _REWRITES or packet is None:
            raise Fallback("data-dependent", f"{func} takes a number that is known at the call only")
        results.append(_call(recorder, getattr(packet, packet.overloads()[0]), arguments))
    if not known.has_written:
        return results
    for tensor in full[0]:
        version = before[id(tensor)] + 1
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
    return None if not func._schema.returns else full[0]


def _flat(values: Sequence[Any]) -> list[torch.Tensor]:
    listed = [element for value in values if isinstance(value, (list, tuple)) for element in value]
    return [value for value in listed if isinstance(value, torch.Tensor)]


def _is_tensors(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, torch.Tensor) for value in values)

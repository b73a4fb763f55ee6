"""Each primitive operator against its meaning in torch, on random and on special values of every type it takes.

A case is an operator's text and a torch expression. All cases of one operator become one module at stage prims that is
compiled and called. Integers, bool and operations that IEEE 754 rounds correctly must be equal; other floats may be off
by a few units in the last place. A float32 reference is computed in float64 and rounded if that is more exact.
"""

from __future__ import annotations

import fractions
import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import numpy as np
import philox
import pytest
import torch
from prim_products import Case, Cases, attention, convolution, matmul, max_pool

ROOT = Path(__file__).resolve().parents[3]
FLOATS = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
ALL = (*FLOATS, *HALVES, *INTS, torch.bool)
NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "ui8",
    torch.bool: "i1",
}


def special(dtype: torch.dtype) -> torch.Tensor:
    """The values at which an implementation may be wrong."""
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if not dtype.is_floating_point:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        return torch.tensor([*{low, low + 1, -1 if low else 2, 0, 1, 7, high - 1, high}], dtype=dtype)
    facts = torch.finfo(dtype)
    positive = [
        0.0,
        facts.smallest_normal / 4,
        facts.smallest_normal,
        facts.eps / 2,
        0.5,
        1.0,
        1.5,
        2.5,
        3.0,
        facts.max,
    ]
    values = [*positive, float("inf")]
    return torch.tensor([*values, *(-value for value in values), float("nan")], dtype=dtype)


def random(dtype: torch.dtype, count: int) -> torch.Tensor:
    """Ordinary values."""
    if dtype is torch.bool:
        return torch.rand(count) < 0.5
    if dtype.is_floating_point:
        return (torch.randn(count) * torch.tensor([1.0, 10.0])[torch.arange(count) % 2]).to(dtype)
    facts = torch.iinfo(dtype)
    return torch.randint(facts.min // 2, facts.max // 2, (count,)).to(dtype)


def values(dtype: torch.dtype, arity: int = 1) -> tuple[torch.Tensor, ...]:
    """For each operand: special values, in all combinations, then random ones."""
    grid = torch.cartesian_prod(*[special(dtype)] * arity).reshape(-1, arity)
    return tuple(torch.cat([grid[:, at], random(dtype, 100)]) for at in range(arity))


def exact(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The function computed in double precision."""
    return lambda *inputs: function(*(value.double() for value in inputs)).to(inputs[0].dtype)


def pointwise(
    name: str,
    function: Callable[..., torch.Tensor],
    dtypes: tuple[torch.dtype, ...] = FLOATS,
    arity: int = 1,
    wide: bool = False,
    **tolerance: Any,
) -> tuple[str, Callable[[], Cases]]:
    """An operator whose operands and result are of one type; ``wide`` computes the reference in double precision."""
    text = f"dynamo.{name} " + ", ".join(f"{{{at}}}" for at in range(arity)) + " : {r}"
    reference = exact(function) if wide else function
    return name, lambda: (Case(text, reference, values(dtype, arity), **tolerance) for dtype in dtypes)


def library(name: str, function: Callable[..., torch.Tensor], arity: int = 1, **tolerance: Any) -> Any:
    """A function that is approximated."""
    return pointwise(name, function, FLOATS, arity, wide=True, **{"ulps": 4, **tolerance})


def square_root(x: torch.Tensor) -> torch.Tensor:
    """The square root rounded as IEEE 754 requires. Torch's comes from a library that is off by one unit in the last
    place on some processors.
    """
    with np.errstate(invalid="ignore"):
        # With at least twice the digits plus two, rounding twice gives the same result as rounding once.
        return torch.from_numpy(np.sqrt(x.double().numpy())).to(x.dtype)


def division(name: str, function: Callable[..., torch.Tensor]) -> tuple[str, Callable[[], Cases]]:
    """Division and remainder: integer divisors are constants other than 0; the quotient that overflows is left out."""

    def cases() -> Cases:
        for dtype in FLOATS:
            yield Case(f"dynamo.{name} {{0}}, {{1}} : {{r}}", function, values(dtype, 2))
        for dtype in INTS:
            for divisor in filter(None, special(dtype).tolist()):
                (x,) = values(dtype)
                x = x[(x != torch.iinfo(dtype).min) | (divisor != -1)]
                y = torch.full_like(x, divisor)
                constant = f"dynamo.full {divisor} : {NAMES[dtype]} -> {{r}}"
                reference = lambda x, y=y: function(x, y)  # noqa: E731
                yield Case(f"dynamo.{name} {{0}}, {{c}} : {{r}}", reference, (x,), constant=constant)

    return name, cases


def shift(name: str, function: Callable[..., torch.Tensor]) -> tuple[str, Callable[[], Cases]]:
    """Shifts, by amounts in and out of range."""

    def cases() -> Cases:
        for dtype in INTS:
            bits = torch.iinfo(dtype).bits
            amounts = [0, 1, 3, bits - 1, bits, bits + 1, torch.iinfo(dtype).max, *([-1] if dtype.is_signed else [])]
            pairs = torch.cartesian_prod(special(dtype), torch.tensor(amounts).to(dtype))
            yield Case(f"dynamo.{name} {{0}}, {{1}} : {{r}}", function, (pairs[:, 0].clone(), pairs[:, 1].clone()))

    return name, cases


def remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The remainder as in C: torch.fmod gives NaN where the quotient overflows."""
    if not x.is_floating_point():
        return torch.fmod(x, y)
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.fmod(x.numpy(), y.numpy()))


def divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def fused(x: float, y: float, z: float) -> float:
    """x * y + z, rounded once."""
    if not math.isfinite(x * 0 + y * 0):
        return x * y + z
    if not math.isfinite(z):
        return z
    exact = fractions.Fraction(x) * fractions.Fraction(y) + fractions.Fraction(z)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fma() -> Cases:
    """Double precision is computed by exact fractions, single precision through double; an exact zero may have any
    sign.
    """
    text = "dynamo.fma {0}, {1}, {2} : {r}"
    for dtype in FLOATS:
        inputs = values(dtype, 3)
        exact = [fused(*point) for point in zip(*(value.tolist() for value in inputs))]
        wanted = torch.tensor(exact, dtype=torch.float64).to(dtype)
        yield Case(text, lambda *_, wanted=wanted: wanted, inputs, ulps=int(dtype is torch.float32), any_zero=True)


def compare() -> Cases:
    for predicate, dtype in itertools.product(("eq", "ne", "lt", "le", "gt", "ge"), (*FLOATS, *INTS, torch.bool)):
        yield Case(
            f"dynamo.compare {predicate} {{0}}, {{1}} : {{t0}} -> {{r}}", getattr(torch, predicate), values(dtype, 2)
        )


def select() -> Cases:
    for dtype in ALL:
        x, y = values(dtype, 2)
        yield Case("dynamo.select {0}, {1}, {2} : {t0}, {r}", torch.where, (random(torch.bool, len(x)), x, y))


def convert() -> Cases:
    for old, new in itertools.product(ALL, ALL):
        (x,) = values(old)
        if old.is_floating_point and not new.is_floating_point and new is not torch.bool:
            low, high = torch.iinfo(new).min, torch.iinfo(new).max
            x = x[x.isfinite() & (x.double() > low) & (x.double() < high)]
        yield Case("dynamo.convert {0} : {t0} -> {r}", lambda x, new=new: x.to(new), (x,))


def bitcast() -> Cases:
    widths = [(torch.float32, torch.int32), (torch.float64, torch.int64), (torch.int8, torch.uint8)]
    widths += [(half, torch.int16) for half in HALVES]
    for pair in widths:
        for old, new in (pair, pair[::-1]):
            yield Case("dynamo.bitcast {0} : {t0} -> {r}", lambda x, new=new: x.view(new), values(old))


def full() -> Cases:
    for dtype in ALL:
        for value in special(dtype):
            text = literal(value)
            yield Case(f"dynamo.full {text} -> {{r}}", lambda value=value: value.expand(2, 3).contiguous(), ())


def literal(value: torch.Tensor) -> str:
    """A scalar as MLIR writes it, with its type."""
    name = NAMES[value.dtype]
    if value.dtype is torch.bool:
        return str(value.item()).lower()
    if value.is_floating_point():
        bits = value.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[value.itemsize]).item()
        return f"0x{bits % (1 << 8 * value.itemsize):0{2 * value.itemsize}X} : {name}"
    return f"{value.item()} : {name}"


def iota() -> Cases:
    yield Case("dynamo.iota 1 : {r}", lambda: torch.arange(3).expand(2, 3).contiguous(), ())
    yield Case("dynamo.iota 0 : {r}", lambda: torch.arange(5), ())


def random_bits() -> Cases:
    """Keys and counters with bits in either half, among them the published test vectors."""
    pairs = [(0, 0), (-1, -1), (0, 1), (1, 0), (0x13198A2E03707344, 0x243F6A8885A308D3), (7, 1 << 32), (1 << 40, 5)]
    keys, counters = (torch.tensor(numbers) for numbers in zip(*pairs, strict=True))
    for half in (0, 1):
        expected = torch.tensor([philox.half(key, counter, half) for key, counter in pairs])
        yield Case(f"dynamo.random {{0}}, {{1}} half {half} : {{r}}", lambda *_, made=expected: made, (keys, counters))


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Special values, then random ones, in this shape."""
    count = int(torch.tensor(shape).prod()) if shape else 1
    return torch.cat([special(dtype), random(dtype, count)])[:count].reshape(shape)


def shape_op(text: str, reference: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> Callable[[], Cases]:
    """An operator that moves elements, for every type."""
    return lambda: (Case(text, reference, tuple(sample(dtype, *shape) for shape in shapes)) for dtype in ALL)


def pad() -> Cases:
    for dtype in ALL:
        value = special(dtype)[-1]
        yield Case(
            f"dynamo.pad {{0}} low [1, 0] high [2, 3] value {literal(value)} : {{t0}} -> {{r}}",
            lambda x, value=value: torch.nn.functional.pad(x, (0, 3, 1, 2), value=value.item()),
            (sample(dtype, 3, 4),),
        )


def gather() -> Cases:
    i, j = torch.randint(0, 5, (3, 4)), torch.randint(0, 7, (3, 4))
    for dtype in ALL:
        text = "dynamo.gather {0}[{1}, {2}] : {t0}, {t1}, {t2} -> {r}"
        yield Case(text, lambda x, i, j: x[i, j], (sample(dtype, 5, 7), i, j))


def running(kind: str, x: torch.Tensor, dim: int) -> Iterator[torch.Tensor]:
    """The running combination of the slices along ``dim``, one by one, in the type itself."""
    combine = {
        "sum": lambda a, b: a ^ b if x.dtype is torch.bool else a + b,
        "prod": lambda a, b: a & b if x.dtype is torch.bool else a * b,
        "max": torch.maximum,
        "min": torch.minimum,
        "and": torch.bitwise_and,
        "or": torch.bitwise_or,
        "xor": torch.bitwise_xor,
    }[kind]
    return itertools.accumulate(x.unbind(dim), combine)


KINDS = {"sum": (*FLOATS, *INTS), "prod": (*FLOATS, *INTS), "max": (*FLOATS, *INTS, torch.bool)}
KINDS["min"] = KINDS["max"]
KINDS |= {kind: (*INTS, torch.bool) for kind in ("and", "or", "xor")}


def rows(dtype: torch.dtype) -> torch.Tensor:
    """A matrix with ordinary rows, and for floats rows with NaN and infinities."""
    x = random(dtype, 40 * 33).reshape(40, 33)
    if dtype.is_floating_point:
        x /= 8
        x[3, 5], x[4, 0], x[5, 32], x[6, 7] = float("nan"), float("inf"), -float("inf"), -0.0
    return x


def reduce() -> Cases:
    for kind, dtypes in KINDS.items():
        for dtype in dtypes:
            near = {"ulps": 64, "absolute": 1e-5} if dtype.is_floating_point and kind in ("sum", "prod") else {}
            for dim in (1, 0):
                text = f"dynamo.reduce {kind} {{0}} dims [{dim}] : {{t0}} -> {{r}}"

                def last(x: torch.Tensor, kind: str = kind, dim: int = dim) -> torch.Tensor:
                    return [*running(kind, x.double() if x.is_floating_point() else x, dim)][-1].to(x.dtype)

                yield Case(text, last, (rows(dtype),), any_zero=True, **near)


def scan() -> Cases:
    for kind, dtypes in KINDS.items():
        for dtype in dtypes:
            near = {"ulps": 64, "absolute": 1e-5} if dtype.is_floating_point and kind in ("sum", "prod") else {}
            text = f"dynamo.scan {kind} {{0}} dim 1 : {{r}}"

            def all_of(x: torch.Tensor, kind: str = kind) -> torch.Tensor:
                wide = x.double() if x.is_floating_point() else x
                return torch.stack([*running(kind, wide, 1)], 1).to(x.dtype)

            yield Case(text, all_of, (rows(dtype),), any_zero=True, **near)


def arg_reduce() -> Cases:
    for kind, function in (("max", torch.argmax), ("min", torch.argmin)):
        for dtype in (*FLOATS, *INTS):
            x = rows(dtype)
            x[7] = x[7, 0]
            text = f"dynamo.arg_reduce {kind} {{0}} dim 1 : {{t0}} -> {{r}}"
            yield Case(text, lambda x, function=function: function(x, 1), (x,))


def scatter(base: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return torch.as_strided_scatter(base, source, (3,), (4,), 1)


def scatter_by_index() -> Cases:
    place = torch.tensor([3, 0, 3, 1, 0])
    for dtype in (*FLOATS, *INTS, torch.bool):
        base, source = torch.zeros(4, 6).to(dtype), torch.arange(30).reshape(5, 6).to(dtype)
        index = place[:, None].expand(5, 6).contiguous()
        text = "dynamo.scatter {2} into {0}[{1}] dims [-1, 1]%s : {t0}, {t1}, {t2} -> {r}"
        yield Case(text % "", lambda x, i, s: x.index_copy(0, i[:, 0], s), (base, index, source))
        if dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
            for kind, name in (("sum", "sum"), ("prod", "prod"), ("max", "amax"), ("min", "amin")):
                reduce = lambda x, i, s, name=name: torch.scatter_reduce(x, 0, i, s, name)  # noqa: E731
                yield Case(text % f" by {kind}", reduce, (base + 2, index, source))


TABLE: dict[str, Callable[[], Cases]] = dict(
    [
        pointwise("neg", torch.neg, (*FLOATS, *INTS)),
        pointwise("abs", torch.abs, (*FLOATS, *INTS)),
        pointwise("not", torch.bitwise_not, (*INTS, torch.bool)),
        library("exp", torch.exp),
        library("exp2", torch.exp2),
        library("expm1", torch.expm1),
        library("log", torch.log),
        library("log2", torch.log2),
        library("log10", torch.log10),
        library("log1p", torch.log1p),
        pointwise("sqrt", square_root),
        library("rsqrt", torch.rsqrt),
        library("sin", torch.sin),
        library("cos", torch.cos),
        library("tan", torch.tan),
        library("asin", torch.asin),
        library("acos", torch.acos),
        library("atan", torch.atan),
        library("sinh", torch.sinh),
        library("cosh", torch.cosh),
        library("tanh", torch.tanh),
        library("asinh", torch.asinh),
        library("acosh", torch.acosh),
        library("atanh", torch.atanh),
        library("erf", torch.erf),
        library("erfc", torch.erfc),
        library("lgamma", torch.lgamma, absolute=1e-6),
        pointwise("floor", torch.floor),
        pointwise("ceil", torch.ceil),
        pointwise("round", torch.round),
        pointwise("trunc", torch.trunc),
        pointwise("add", torch.add, (*FLOATS, *INTS), 2),
        pointwise("sub", torch.sub, (*FLOATS, *INTS), 2),
        pointwise("mul", torch.mul, (*FLOATS, *INTS), 2),
        division("div", divide),
        division("rem", remainder),
        library("pow", torch.pow, 2),
        library("atan2", torch.atan2, 2),
        library("hypot", torch.hypot, 2),
        pointwise("copysign", torch.copysign, FLOATS, 2),
        pointwise("nextafter", torch.nextafter, FLOATS, 2),
        pointwise("max", torch.maximum, (*FLOATS, *INTS, torch.bool), 2, any_zero=True),
        pointwise("min", torch.minimum, (*FLOATS, *INTS, torch.bool), 2, any_zero=True),
        pointwise("and", torch.bitwise_and, (*INTS, torch.bool), 2),
        pointwise("or", torch.bitwise_or, (*INTS, torch.bool), 2),
        pointwise("xor", torch.bitwise_xor, (*INTS, torch.bool), 2),
        shift("shl", torch.bitwise_left_shift),
        shift("shr", torch.bitwise_right_shift),
        ("fma", fma),
        ("compare", compare),
        ("select", select),
        ("convert", convert),
        ("bitcast", bitcast),
        ("full", full),
        ("iota", iota),
        ("random", random_bits),
        (
            "broadcast",
            shape_op(
                "dynamo.broadcast {0} dims [0, 2] : {t0} -> {r}",
                lambda x: x[:, None].expand(4, 2, 3).contiguous(),
                (4, 1),
            ),
        ),
        ("reshape", shape_op("dynamo.reshape {0} : {t0} -> {r}", lambda x: x.reshape(6, 4), (4, 2, 3))),
        (
            "permute",
            shape_op(
                "dynamo.permute {0} dims [2, 0, 1] : {t0} -> {r}",
                lambda x: x.permute(2, 0, 1).contiguous(),
                (4, 2, 3),
            ),
        ),
        (
            "slice",
            shape_op(
                "dynamo.slice {0} starts [1, 0] steps [2, 3] : {t0} -> {r}",
                lambda x: x[1::2, ::3].contiguous(),
                (6, 7),
            ),
        ),
        ("reverse", shape_op("dynamo.reverse {0} dims [0] : {t0} -> {r}", lambda x: x.flip(0), (5, 3))),
        (
            "concatenate",
            shape_op(
                "dynamo.concatenate {0}, {1} dim 1 : ({t0}, {t1}) -> {r}",
                lambda x, y: torch.cat([x, y], 1),
                (3, 2),
                (3, 5),
            ),
        ),
        ("pad", pad),
        (
            "as_strided",
            shape_op(
                "dynamo.as_strided {0} strides [2, 1] offset 1 : {t0} -> {r}",
                lambda x: x.as_strided((3, 4), (2, 1), 1).contiguous(),
                (3, 4),
            ),
        ),
        (
            "as_strided_scatter",
            shape_op(
                "dynamo.as_strided_scatter {0}, {1} strides [4] offset 1 : {t0}, {t1} -> {r}", scatter, (3, 4), (3,)
            ),
        ),
        ("gather", gather),
        ("matmul", matmul),
        ("convolution", convolution),
        ("max_pool", max_pool),
        ("attention", attention),
        ("scatter", scatter_by_index),
        ("reduce", reduce),
        ("arg_reduce", arg_reduce),
        ("scan", scan),
    ]
)


def test_every_primitive_is_in_the_table() -> None:
    text = (ROOT / "dialects" / "dynamo" / "include" / "dynamo" / "DynamoPrims.td").read_text()
    defined = re.findall(r'^def Dynamo_\w+Op : \w*Prim<"(\w+)"', text, re.MULTILINE)
    assert len(defined) > 50
    assert sorted(defined) == sorted(TABLE)


def tensor_type(value: torch.Tensor) -> str:
    """The tensor's type in MLIR."""
    return f"tensor<{''.join(f'{size}x' for size in value.shape)}{NAMES[value.dtype]}>"


def strides(value: torch.Tensor) -> str:
    """The attribute for the tensor's strides."""
    return f"dynamo.strides = array<i64{':' if value.dim() else ''} {', '.join(map(str, value.stride()))}>"


def module(cases: list[Case], wanted: list[torch.Tensor]) -> str:
    """A graph at stage prims that computes all cases."""
    arguments, lines, at = [], [], 0
    for number, (case, result) in enumerate(zip(cases, wanted)):
        names = [f"%arg{at + i}" for i in range(len(case.inputs))]
        at += len(names)
        types = [tensor_type(value) for value in case.inputs]
        arguments += [
            f'{name}: {type_} {{dynamo.name = "{name[1:]}", dynamo.offset = 0 : i64, {strides(value)}}}'
            for name, type_, value in zip(names, types, case.inputs)
        ]
        if case.constant:
            lines.append(f"    %c{number} = {case.constant.format(r=tensor_type(result))}")
        given = {"r": tensor_type(result), "c": f"%c{number}", **{f"t{i}": type_ for i, type_ in enumerate(types)}}
        filled = case.text.format(*names, **given)
        lines.append(f"    %{number} = {filled}")
    types = [tensor_type(result) for result in wanted]
    results = ", ".join(f"{type_} {{{strides(result)}}}" for type_, result in zip(types, wanted))
    outputs = ", ".join(f"#dynamo.output<result {number}>" for number in range(len(cases)))
    returned = ", ".join(f"%{number}" for number in range(len(cases)))
    return "\n".join(
        [
            "module {",
            f"  func.func @main({', '.join(arguments)}) -> ({results})",
            f"      attributes {{dynamo.entry, dynamo.outputs = [{outputs}]}} {{",
            *lines,
            f"    return {returned} : {', '.join(types)}",
            "  }",
            "}",
        ]
    )


def ordered(value: torch.Tensor) -> torch.Tensor:
    """Floats as integers that count representable numbers; both zeros are 0."""
    bits = value.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[value.itemsize]).long()
    top = -(1 << (8 * value.itemsize - 1))
    return torch.where(bits < 0, top - bits, bits)


def wrong(case: Case, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The places at which the result is not acceptable."""
    if not wanted.is_floating_point():
        return found != wanted
    near = (ordered(found).double() - ordered(wanted).double()).abs() <= case.ulps
    near |= (found.double() - wanted.double()).abs() <= case.absolute
    if not case.any_zero and case.ulps == 0:
        near &= (wanted != 0) | (found.signbit() == wanted.signbit())
    return ~torch.where(wanted.isnan(), found.isnan(), near & ~found.isnan())


@pytest.mark.parametrize("name", TABLE)
def test_primitive(name: str, tmp_path: Path) -> None:
    cases = list(TABLE[name]())
    wanted = [case.reference(*case.inputs) for case in cases]
    path = tmp_path / f"{name}.mlir"
    path.write_text(module(cases, wanted))
    executable = dynamlir.load(str(path), stage="prims")
    found = executable(*(value for case in cases for value in case.inputs))
    problems = []
    for case, got, want in zip(cases, found, wanted):
        assert got.shape == want.shape and got.dtype == want.dtype and got.stride() == want.stride(), case.text
        bad = wrong(case, got, want)
        if bool(bad.any()):
            shown = [value[bad][:4].tolist() for value in case.inputs if value.shape == want.shape]
            text = f"{case.text} on {[NAMES[value.dtype] for value in case.inputs]}: {int(bad.sum())} wrong"
            problems.append(f"{text}; at {shown}: {got[bad][:4].tolist()} instead of {want[bad][:4].tolist()}")
    assert not problems, "\n".join(problems)

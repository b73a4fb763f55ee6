"""`dynamlir.export` with ``dynamic_shapes``: one program for all declared sizes, errors for all others."""

from __future__ import annotations

import copy
import json
import math
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError
from torch.utils import _pytree as pytree

S, T = Dim("s", max=5000), Dim("t")
SIZES = (2, 3, 5, 16, 97, 1021)
"""The smallest size, primes, a power of two, and large sizes."""


def rows(*shape: int) -> torch.Tensor:
    """Numbers whose sums are exact in any order."""
    count = math.prod(shape)
    return (torch.arange(count) % 7 - 3.0).reshape(shape)


def follow(program: Callable[..., Any], fn: Callable[..., Any], *args: Any) -> None:
    """Compares a call of a program with eager, including its writes."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    (found, found_spec), (expected, expected_spec) = map(pytree.tree_flatten, (program(*ours), fn(*theirs)))
    assert found_spec == expected_spec
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(ours, theirs)


def exported(
    fn: Callable[..., Any], make: Callable[[int], tuple[Any, ...]], dynamic_shapes: Any, folder: Path, at: int = 7
) -> dynamlir.ExportedProgram:
    """Exports a call and compares it with eager for all sizes: as created, as read back, and from its text."""
    program = dynamlir.export(fn, *make(at), dynamic_shapes=dynamic_shapes)
    for size in SIZES:
        follow(program, fn, *make(size))
    assert dynamlir.counters()["graphs"] == 1
    program.save(folder / "net")
    read = dynamlir.load(folder / "net")
    assert isinstance(read, dynamlir.ExportedProgram)
    assert (str(read), read.mlir) == (str(program), program.mlir)
    follow(read, fn, *make(11))
    replayed = dynamlir.load(folder / "net" / "00-aten.mlir")
    results = [source.at for source in program.signature.outputs if source.kind == "result"]
    for size in SIZES:
        given = copy.deepcopy(make(size))
        outputs = replayed(*program.entry_arguments(*given))  # type: ignore[operator]
        expected = pytree.tree_leaves(fn(*make(size)), is_leaf=lambda node: type(node) is torch.Size)
        for at_, source in enumerate(program.signature.outputs):
            if source.kind == "result":
                torch.testing.assert_close(outputs[results.index(source.at)], expected[at_])
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    return program


def views(x: torch.Tensor) -> Any:
    n = x.shape[0]
    return x.view(n * 2, -1).softmax(-1), x[1:].sum(0), n * 2 + 1, x.shape, x.mean(0) * n


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return ((q @ k.transpose(-1, -2)) / math.sqrt(k.shape[-2])).softmax(-1) @ k


def counted(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[0]) + x.shape[0] // 2 * x.shape[0] % 3 + torch.zeros(x.shape[0])


def written(x: torch.Tensor) -> torch.Tensor:
    x[0] += 1
    return x.add_(x.shape[0]).sum(0)


def gap(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + x.chunk(2, 1)[0].sum()


WEIGHT = rows(4, 3, 2, 2)

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Any]] = {
    "views": (views, lambda n: (rows(n, 6),), {"x": {0: S}}),
    "two numbers": (scores, lambda n: (rows(2, n, 8), rows(2, n + 3, 8)), {"q": {1: S}, "k": (None, T, 8)}),
    "one for two": (lambda x, y: x + y, lambda n: (rows(n, 3), rows(n, 1)), ({0: S}, {-2: S})),
    "sizes as values": (counted, lambda n: (rows(n),), ({0: Dim.DYNAMIC},)),
    "writes": (written, lambda n: (rows(n, 3),), {"x": {0: S}}),
    "strides over a gap": (gap, lambda n: (rows(n, 8)[:, :6],), {"x": {0: S}}),
    "transposed": (lambda x: x.sum(0) * 2, lambda n: (rows(n + 1, n).t(),), {"x": {0: S, 1: T}}),
    "equal by the program": (lambda x, y: x * y, lambda n: (rows(n), rows(n)), ({0: Dim.AUTO}, (Dim.AUTO,))),
    "derived": (lambda x, y: x[: y.shape[0]] + y, lambda n: (rows(2 * n + 1), rows(n)), ({0: 2 * S + 1}, {0: S})),
    "derived alone": (lambda x: x.view(2, -1).sum(0), lambda n: (rows(2 * n),), ({0: 2 * S},)),
    "derived from nothing": (
        lambda x, y: torch.cat([x, y]).sum() + x.shape[0],
        lambda n: (rows(3 * n + 1), rows(n + 2)),
        ({0: 3 * S + 1}, {0: S + 2}),
    ),
    "a convolution": (lambda x: F.conv2d(x, WEIGHT).relu(), lambda n: (rows(n % 41, 3, 5, 7),), ({0: S},)),
    "not used": (lambda x, y: x * 2, lambda n: (rows(n), rows(n + 1, 2)), {"x": {0: S}, "y": {0: T}}),
    "an int": (lambda x, n: x[:n] * n, lambda n: (rows(1100), n), (None, Dim.DYNAMIC)),
    "an int with a name": (lambda x, n: x.view(n, -1) + n / 2, lambda n: (rows(n, 6), n), {"x": {0: S}, "n": S}),
    "ints in a list": (lambda x, n: x.view(*n), lambda n: (rows(6 * n), [n, 6]), ({0: 6 * S}, [S, None])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_is_for_all_sizes(name: str, tmp_path: Path) -> None:
    fn, make, dynamic_shapes = PROGRAMS[name]
    exported(fn, make, dynamic_shapes, tmp_path)


class Pair(NamedTuple):
    """A container type that torch knows."""

    left: Any
    right: Any


def test_sizes_of_nested_arguments(tmp_path: Path) -> None:
    def fn(pair: Any, *rest: Any, options: Any = None, **others: Any) -> Any:
        return OrderedDict(a=pair.left[0] + rest[1], b=options["m"] * 2, c=others["z"] + pair.right["q"])

    def make(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = Pair([rows(n, 3)], {"q": rows(n + 1)}), rows(2), rows(n, 1)
        return given, {"z": rows(n + 1), "options": {"m": rows(4, n)}}

    shapes = {
        "pair": Pair([{0: S}], {"q": {0: T}}),
        "rest": (None, {0: S}),
        "options": {"m": {1: S}},
        "others": {"z": {0: T}},
    }
    for dynamic_shapes in (shapes, {**{k: v for k, v in shapes.items() if k != "others"}, "z": (T,)}):
        args, kwargs = make(4)
        program = dynamlir.export(fn, *args, dynamic_shapes=dynamic_shapes, **kwargs)
        assert {one.name for one in program.signature.sizes} == {"s", "t"}
        for n in SIZES:
            args, kwargs = make(n)
            torch.testing.assert_close(program(*args, **kwargs), fn(*args, **kwargs))
    assert not dynamlir.counters()["fallbacks"]


class Net(nn.Module):
    """Parameters and statistics with static sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 4), nn.BatchNorm1d(4)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, *, scale: int = 2) -> torch.Tensor:
        self.count += x.shape[0]
        return self.norm(self.linear(x)).relu() * scale


def test_a_module_trains_at_all_sizes() -> None:
    ours, theirs = (Net() for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    program = dynamlir.export(ours, rows(5, 6), dynamic_shapes={"x": {0: Dim("batch", min=3)}})
    module = program.module()
    for n in (3, 4, 17, 64):
        x = torch.randn(n, 6)
        for model in (module, theirs):
            model.zero_grad()
            model(x).square().sum().backward()
        for (name, one), other in zip(module.named_parameters(), theirs.parameters()):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3, msg=name)
    torch.testing.assert_close(dict(module.named_buffers()), dict(theirs.named_buffers()))
    assert all(type(size) is int for parameter in module.parameters() for size in parameter.shape)
    assert not dynamlir.counters()["fallbacks"]
    assert dynamlir.counters()["graphs"] == 1


def test_text_and_signature_say_sizes() -> None:
    program = dynamlir.export(views, rows(4, 6), dynamic_shapes={"x": {0: Dim("batch", min=3, max=512), 1: Dim.STATIC}})
    (size,) = program.signature.sizes
    assert (size.name, size.input, size.dim, size.least, size.most, size.symbol) == ("batch", 0, 0, 3, 512, "s0")
    assert "!dynamo.tensor<[s0, 6]xf32, [6, 1]>" in program.mlir
    assert "#dynamo.symbol<s0, argument = 0, dim = 0, min = 3, max = 512, hint = 4>" in program.mlir
    facts = program.signature.user_inputs[0].tensor
    assert facts is not None and (facts.shape, facts.strides) == (("batch", 6), (6, 1))
    told = str(program.signature)
    for line in (
        "input args[0]: float32[batch, 6] as L_x_",
        "size batch: 3 to 512 as s0",
        "output result[2]: size batch*2 + 1",
    ):
        assert line in told
    assert "size = l_x_.size(0)" in program.graph_module.code
    (result, *_) = program.graph_module(rows(9, 6))
    torch.testing.assert_close(result, views(rows(9, 6))[0])


def test_what_is_found_out_of_sizes_without_names() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x[3:].view(-1, 2).sum() + y.view(3, 4) + (z if z.shape[0] == 5 else z * 2).sum()

    shapes = {"x": {0: Dim.DYNAMIC}, "y": {0: Dim.AUTO}, "z": (Dim.DYNAMIC(max=50),)}
    program = dynamlir.export(fn, rows(9), rows(12), rows(6), dynamic_shapes=shapes)
    assert [one.name for one in program.signature.sizes] == ["x_0", "z_0"]  # y turned out to have a single size
    assert "z_0 != 5" in program.signature.assumed
    for n, m in ((7, 2), (91, 50), (33, 4)):
        follow(program, fn, rows(n), rows(12), rows(m))
    for args, message in [
        ((rows(8), rows(12), rows(6)), r"the program is right only where .*: x_0 is 8 by args\[0\]\.size\(0\)"),
        ((rows(9), rows(12), rows(5)), r"the program is right only where z_0 != 5: z_0 is 5 by args\[2\]\.size\(0\)"),
        ((rows(9), rows(12), rows(51)), r"args\[2\]\.size\(0\) is 51, and the program takes z_0 there: 2 to 50"),
        ((rows(9), rows(24), rows(6)), r"args\[1\]\.size\(0\) is 24, and the program takes 12"),
    ]:
        with pytest.raises(ValueError, match=message):
            program(*args)


CALLS: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    (
        (rows(513, 3), rows(513)),
        ValueError,
        r"^args\[0\]\.size\(0\) is 513, and the program takes batch there: 2 to 512$",
    ),
    ((rows(1, 3), rows(1)), ValueError, r"args\[0\]\.size\(0\) is 1, and the program takes batch there: 2 to 512"),
    ((rows(0, 3), rows(0)), ValueError, r"args\[0\]\.size\(0\) is 0, and the program takes batch there"),
    ((rows(5, 4), rows(5)), ValueError, r"args\[0\]\.size\(1\) is 4, and the program takes 3$"),
    (
        (rows(5, 3), rows(6)),
        ValueError,
        r"args\[1\]\.size\(0\) is 6, and the program takes batch, which is 5: batch is 5 by args\[0\]\.size\(0\)",
    ),
    ((rows(5, 3, 1), rows(5)), ValueError, r"args\[0\] has the shape \(5, 3, 1\), and the program takes \(batch, 3\)"),
    ((rows(5, 3).double(), rows(5)), TypeError, r"args\[0\] is of torch.float64, and the program takes torch.float32"),
    ((rows(3, 5).t(), rows(5)), ValueError, r"args\[0\] has the strides \(1, 5\), and the program takes \(3, 1\)"),
    ((5, rows(5)), TypeError, r"args\[0\] is a int, and the program takes a tensor: float32\[batch, 3\]"),
]


@pytest.mark.parametrize("at", range(len(CALLS)))
def test_calls_with_other_sizes_are_errors(at: int) -> None:
    batch = Dim("batch", min=2, max=512)
    program = dynamlir.export(
        lambda x, y: x * y.unsqueeze(1), rows(4, 3), rows(4), dynamic_shapes=({0: batch}, {0: batch})
    )
    args, kind, message = CALLS[at]
    with pytest.raises(kind, match=message):
        program(*args)
    with pytest.raises(kind, match=message):
        program.entry_arguments(*args)


def test_calls_with_other_ints_are_errors() -> None:
    program = dynamlir.export(lambda x, n: x[:n], rows(10), 4, dynamic_shapes=(None, Dim.DYNAMIC(max=8)))
    assert program(rows(10), 8).shape == (8,)
    for given, kind, message in [
        (9, ValueError, r"args\[1\] is 9, and the program takes n there: 2 to 8"),
        (1, ValueError, r"args\[1\] is 1"),
        (-3, ValueError, r"args\[1\] is -3"),
        (3.0, TypeError, r"args\[1\] is a float, and the program takes an int"),
        (True, TypeError, r"args\[1\] is a bool"),
    ]:
        with pytest.raises(kind, match=message):
            program(rows(10), given)


def test_a_size_that_is_derived_is_checked() -> None:
    program = dynamlir.export(lambda x: x.view(2, -1), rows(8), dynamic_shapes=({0: 2 * Dim("half", max=10)},))
    for given, message in [
        (7, r"args\[0\]\.size\(0\) is 7, and the program takes 2\*half there: 2 to 20 for a whole half"),
        (22, r"args\[0\]\.size\(0\) is 22"),
    ]:
        with pytest.raises(ValueError, match=message):
            program(rows(given))


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 10:
        return x * 2
    return x


def loops(x: torch.Tensor) -> torch.Tensor:
    for _ in range(x.shape[0]):
        x = x + 1
    return x


def alike(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(7, 6)


def apart(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1, 14)


VIOLATED: list[tuple[Callable[..., Any], Any, str]] = [
    (
        branches,
        {0: Dim("b")},
        r"only where b <= 10, not for b = 11 at .*test_export_sizes\.py:\d+(.|\n)*b = Dim\('b', max=10\)",
    ),
    (
        loops,
        {0: Dim("b")},
        r"declared as b, but the program takes it for 7 at .*test_export_sizes\.py:\d+(.|\n)*  b = 7$",
    ),
    (
        loops,
        {0: Dim.DYNAMIC},
        r"as Dim.DYNAMIC, but the program takes it for 7(.|\n)*Dim.STATIC or Dim.AUTO for args",
    ),
    (alike, {0: Dim("b")}, r"takes it for 7"),
    (apart, {0: Dim("b")}, r"right only where .*, not for b = "),
    (lambda x: x[2:].add_(1), {0: Dim("b")}, r"only where b - 2 != 1, not for b = 3(.|\n)*b = Dim\('b', min=4\)"),
    (
        lambda x: x.sum() if x.shape[0] == x.shape[1] + 1 else x,
        {0: Dim("b"), 1: Dim("c")},
        r"Constraints violated \(b, c\)!",
    ),
]


@pytest.mark.parametrize("at", range(len(VIOLATED)))
def test_what_the_program_assumes_and_nobody_declared_is_an_error(at: int) -> None:
    fn, dims, message = VIOLATED[at]
    with pytest.raises(ConstraintViolationError, match=message):
        dynamlir.export(fn, rows(7, 6), dynamic_shapes={"x": dims})


def test_two_names_for_one_size_are_an_error() -> None:
    with pytest.raises(ConstraintViolationError, match=r"Constraints violated(.|\n)*(s = t|t = s)"):
        dynamlir.export(lambda x, y: x + y, rows(5), rows(5), dynamic_shapes=({0: S}, {0: T}))


def test_a_suggestion_fits() -> None:
    program = dynamlir.export(branches, rows(7, 6), dynamic_shapes={"x": {0: Dim("b", max=10)}})
    follow(program, branches, rows(10, 6))
    follow(dynamlir.export(loops, rows(7, 6), dynamic_shapes={"x": {0: Dim.AUTO}}), loops, rows(7, 6))


WRONG: list[tuple[Any, type[Exception], str]] = [
    ({"z": {0: S}}, ValueError, r"something of z: the arguments are x, y"),
    (({0: S},), ValueError, r"of 1 arguments, and there are 2"),
    ("s", TypeError, r"a dict, tuple or list"),
    (({5: S}, None), ValueError, r"args\[0\]\.size\(5\), and it has 2 sizes"),
    (((S,), None), ValueError, r"says 1 sizes of args\[0\], which has 2"),
    (("s", None), TypeError, r"says 's' of args\[0\]"),
    (({0: "s"}, None), TypeError, r"says 's' of args\[0\]\.size\(0\)"),
    (({0: 5}, None), ValueError, r"args\[0\]\.size\(0\) is 4, and dynamic_shapes says that it is 5"),
    (
        ({1: S}, None),
        ValueError,
        r"args\[0\]\.size\(1\) is 1, and dynamic_shapes says that it is s\. Sizes that vary are at least 2",
    ),
    (({1: Dim.DYNAMIC}, None), ValueError, r"args\[0\]\.size\(1\) is 1\. Sizes that vary are at least 2"),
    (({0: Dim("u", max=3)}, None), ValueError, r"is 4: u is 4, and dynamic_shapes allows 2 to 3"),
    (({0: Dim("u", min=5)}, None), ValueError, r"u is 4, and dynamic_shapes allows 5 or more"),
    (
        ({0: S}, [{0: S}]),
        ValueError,
        r"args\[1\]\[0\]\.size\(0\) is 6, and dynamic_shapes says that it is s, which is 4: s is 4 by",
    ),
    (({0: S}, [{0: 3 * S}]), ValueError, r"says that it is 3\*s, which is 12"),
    (({0: 3 * S}, None), ValueError, r"is 4, which is 3\*s for no whole s"),
    (({0: Dim("u")}, [{0: Dim("u", max=9)}]), ValueError, r"two Dims with the name u and other bounds"),
    (({0: Dim("min")}, None), ValueError, r"min cannot be the name of a size"),
    ((None, [{0: S}, None]), ValueError, r"of y, which has 1 parts"),
    ((None, {"a": None}), ValueError, r"something of y\['a'\], which is not there"),
]


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_wrong_declarations(at: int) -> None:
    dynamic_shapes, kind, message = WRONG[at]
    with pytest.raises(kind, match=message):
        dynamlir.export(lambda x, y: x + y[0].sum(), rows(4, 1), [rows(6)], dynamic_shapes=dynamic_shapes)


def test_sizes_of_one_may_be_left_to_themselves() -> None:
    program = dynamlir.export(lambda x: x + 1, rows(4, 1), dynamic_shapes=({0: S, 1: Dim.AUTO},))
    facts = program.signature.user_inputs[0].tensor
    assert facts is not None and facts.shape == ("s", 1)


def test_constants_cannot_vary() -> None:
    with pytest.raises(TypeError, match=r"says .* of args\[1\], which is a float"):
        dynamlir.export(lambda x, n: x * n, rows(4), 2.0, dynamic_shapes=(None, S))
    with pytest.raises(ValueError, match=r"args\[1\] is 1\. Sizes that vary are at least 2"):
        dynamlir.export(lambda x, n: x * n, rows(4), 1, dynamic_shapes=(None, Dim.DYNAMIC))
    with pytest.raises(TypeError, match=r"may be a Dim, and not one that is derived: 2\*s"):
        dynamlir.export(lambda x, n: x * n, rows(4), 4, dynamic_shapes=(None, 2 * S))


def test_ints_that_are_not_read_stay_constants() -> None:
    program = dynamlir.export(lambda x, n: x + 1, rows(4), [5], dynamic_shapes=({0: S}, [Dim.DYNAMIC]))
    follow(program, lambda x, n: x + 1, rows(7), [5])
    with pytest.raises(ValueError, match="the program was made for the constant 5"):
        program(rows(7), [6])


def test_numbers_are_read_where_the_program_reads_something() -> None:
    """The text could not derive the size from an input that the program does not read."""
    for given, its in (([4], S), ([rows(4)], {0: S})):
        shapes = ({0: 2 * S}, [its])
        program = dynamlir.export(lambda x, y: x.sum() + x.shape[0], rows(8), given, dynamic_shapes=shapes)
        assert [(one.name, one.input, one.factor) for one in program.signature.sizes] == [("s", 0, 2)]
        assert "#dynamo.symbol<s0, argument = 0, dim = 0" in program.mlir
    follow(program, lambda x, y: x.sum() + x.shape[0], rows(10), [rows(5)])
    with pytest.raises(ValueError, match=r"args\[1\]\[0\]\.size\(0\) is 6, and the program takes s, which is 5"):
        program(rows(10), [rows(6)])


def test_what_is_marked_and_not_declared_is_a_number() -> None:
    x = rows(4, 3)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    program = dynamlir.export(lambda x: x + 1, x, dynamic_shapes={"x": {1: S}})
    facts = program.signature.user_inputs[0].tensor
    assert facts is not None and facts.shape == (4, "s")


def test_a_collection_of_shapes_is_taken() -> None:
    x, y = rows(4, 3), rows(4)
    shapes = torch.export.ShapesCollection()
    shapes[x] = (S, None)
    shapes[y] = {0: S}
    program = dynamlir.export(lambda x, y: x * y.unsqueeze(1), x, y, dynamic_shapes=shapes)
    follow(program, lambda x, y: x * y.unsqueeze(1), rows(6, 3), rows(6))


def test_nothing_that_varies_is_as_before() -> None:
    given: list[Any] = [None, {"x": None}, {"x": {0: Dim.STATIC, 1: 6}}, ((None, None),), {}]
    texts = {dynamlir.export(views, rows(4, 6), dynamic_shapes=one).mlir for one in given}
    assert len(texts) == 1 and "s0" not in texts.pop()


HOSTILE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "code": (lambda w: w["user_inputs"][0]["tensor"]["shape"].__setitem__(0, "__import__('os')"), "no expression"),
    "power": (lambda w: w["user_inputs"][0]["tensor"]["shape"].__setitem__(0, "s**99"), "no expression"),
    "depth": (lambda w: w["user_inputs"][0]["tensor"]["strides"].__setitem__(0, "-" * 900 + "s"), "no expression"),
    "length": (lambda w: w["user_inputs"][0]["tensor"]["shape"].__setitem__(0, "s+" * 9000 + "s"), "no expression"),
    "unknown": (lambda w: w["user_inputs"][0]["tensor"]["shape"].__setitem__(0, "u"), "about u, which is no size"),
    "function": (lambda w: w["user_inputs"][0]["tensor"]["shape"].__setitem__(0, "min"), "about min, which is no size"),
    "relation": (lambda w: w["user_inputs"][0]["tensor"]["shape"].__setitem__(0, "s < 2"), "no expression of sizes"),
    "rule": (lambda w: w.update(assumed=["s + 1"]), "no relation of sizes"),
    "rules": (lambda w: w.update(assumed=[1]), "assumed are no names"),
    "name": (lambda w: w["sizes"][0].update(name="a b"), "its sizes have no names"),
    "twice": (lambda w: w["sizes"].append(w["sizes"][0]), "its sizes have no names"),
    "input": (lambda w: w["sizes"][0].update(input=7), "there is no argument that s is read from"),
    "dim": (lambda w: w["sizes"][0].update(dim=2), "read where there is no size"),
    "no dim": (lambda w: w["sizes"][0].update(dim=None), "read where there is no size"),
    "range": (lambda w: w["sizes"][0].update(least=9, most=3), "of no range"),
    "small": (lambda w: w["sizes"][0].update(least=0), "of no range"),
    "factor": (lambda w: w["sizes"][0].update(factor=0), "of no range"),
    "type": (lambda w: w["sizes"][0].update(least="2"), "a size is none"),
    "parts": (lambda w: w["sizes"][0].pop("symbol"), "a size is none"),
    "output": (lambda w: w["outputs"][1].update(value="print(s)"), "no expression"),
    "int": (lambda w: w["user_inputs"][1].update(size="u"), "n is read where there is no size"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs(name: str, tmp_path: Path) -> None:
    program = dynamlir.export(lambda x, n: (x[:n], x.shape[0] * 2), rows(9, 3), 4, dynamic_shapes=({0: S}, Dim.DYNAMIC))
    program.save(tmp_path / "net")
    file, (change, words) = tmp_path / "net" / "program.json", HOSTILE[name]
    written = json.loads(file.read_text())
    change(written["signature"])
    file.write_text(json.dumps(written))
    with pytest.raises(ValueError, match=words):
        dynamlir.load(tmp_path / "net")

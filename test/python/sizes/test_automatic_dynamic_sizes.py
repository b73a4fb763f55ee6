"""Sizes that change from call to call: when they become symbols, which assumptions are recorded, and that one entry is
right for all.
"""

from __future__ import annotations

import logging
import math
import numbers
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from dynamlir import native
from dynamlir.capture import graphs_by_size
from dynamlir.compilation import written
from dynamlir.program import Program
from dynamlir.reasons import Fallback
from dynamlir.tracing import fresh_fake_mode
from torch import nn

LENGTHS = [2, 3, 5, 7, 8, 16, 17]

torch.manual_seed(0)
LINEAR = nn.Linear(8, 8)
NORM = nn.LayerNorm(8)
EMBEDDING = nn.Embedding(50, 8)
LAYER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).eval()

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "pointwise": lambda x: (x * 2 + x.sin()).relu(),
    "layers": lambda x: F.gelu(NORM(LINEAR(x))),
    "products": lambda x: torch.softmax(x, 0) @ x.t(),
    "views": lambda x: x.view(-1, 4, 2).transpose(0, 1).reshape(4, -1),
    "parts": lambda x: torch.cat([x, x[1:], x[: x.shape[0] - 1]], 0),
    "statistics": lambda x: x.mean(0) - x.var(0),
    "a number of rows": lambda x: x.sum(0) / x.shape[0] + len(x),
    "positions": lambda x: x + torch.arange(x.shape[0], device=x.device)[:, None],
    "made like": lambda x: torch.zeros(x.shape[0], 3) + x[:, :3] + x.new_ones(x.size(0), 1),
    "embedding": lambda x: EMBEDDING((x[:, 0].abs() * 3).long()),
    "mask": lambda x: torch.full((len(x), len(x)), -math.inf).triu(1) + x[:, :1],
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 2, -1, 4)] * 3, is_causal=True),
    "transformer": lambda x: LAYER(x[None]),
    "halves": lambda x: torch.chunk(x, 2, 0)[0] + 1,
    "in place": lambda x: x.clone().mul_(2).add_(x)[x.shape[0] // 2 :],
    "turned": lambda x: x.flip(0).t().contiguous(),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long)),
    "repeated": lambda x: x.repeat(2, 1).repeat_interleave(2, 0).unflatten(0, (2, -1)),
    "found": lambda x: x.sort(0)[0].topk(2, 0)[1],
    "padded": lambda x: F.pad(F.pad(x, (0, 0, 1, 2)), (1, 1), value=3.0),
    "padded by a size": lambda x: F.pad(x, (0, 0, 0, x.shape[0])),
    "windows": lambda x: F.max_pool1d(x.t(), 3, 2, 1),
    "twice as long": lambda x: F.interpolate(x.t()[None], scale_factor=2.0),
    "larger": lambda x: F.interpolate(x[None, None], scale_factor=(1.5, 2), mode="bilinear"),
    "as large": lambda x: F.interpolate(x[None, None, :2], size=x.shape, mode="bicubic", align_corners=True),
    "a size as a tensor": lambda x: x + torch.tensor(x.shape[0]),
    "sizes as a tensor": lambda x: x + torch._shape_as_tensor(x)[0] * torch._shape_as_tensor(x).sum(),
    "columns of windows": lambda x: F.unfold(x[None, None], 2),
    "rolled": lambda x: torch.roll(x, 1, 0),
    "a number of elements": lambda x: x.reshape(x.shape.numel()) + x[:, :2].shape.numel(),
    "open strides": lambda x: x[:, :1].t() * 2 + x.t()[:1],
    "norm": lambda x: F.batch_norm(x, torch.zeros(8), torch.ones(8), training=True),
    "sum of products": lambda x: torch.einsum("id,jd->ij", x, x),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    dynamlir.reset()
    yield
    dynamlir.reset()


def text(recording: Any) -> str:
    return written(recording, fresh_fake_mode()).text()


@pytest.mark.parametrize("length", [5, 16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_recorded_is_what_numbers_give(name: str, length: int) -> None:
    program = PROGRAMS[name]
    compared = 0
    with torch.no_grad():
        captured = native.module().capture(program, (torch.randn(length, 8),), dynamic=True)
        session = captured.session
        for other in LENGTHS:
            values = [other if (at, d) == (0, 0) else captured.inputs[at].shape[d] for at, d in session.bound]
            if not session.sizes.holds(values):
                continue
            by_numbers = native.module().capture(program, (torch.randn(other, 8),))
            symbolic = Program(session.recording.emit(native.module().TraceBuilder))
            numeric = symbolic.with_values(dict(enumerate(values))).recording()
            assert text(numeric) == text(by_numbers.session.recording)
            compared += 1
    # With two rows, some programs have only one window or part.
    assert compared >= (2 if name in ("attention", "halves") else len(LENGTHS) - 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_entry_is_right_for_all(name: str) -> None:
    program = PROGRAMS[name]
    compiled = dynamlir.compile(program, fullgraph=True)
    with torch.no_grad():
        for length in [*LENGTHS, 33, 4, 9, 3, 21]:
            x = torch.randn(length, 8)
            torch.testing.assert_close(compiled(x), program(x))
    # The first one, the symbolic one, and perhaps those on the other sides of its guards.
    assert len(compiled._cache) <= (5 if name in ("attention", "halves", "found") else 2)
    assert not dynamlir.counters()["fallbacks"]


def test_sizes_are_numbers_until_they_change() -> None:
    compiled = dynamlir.compile(lambda x: x * x.shape[0])
    for length in [4, 4, 5, 6, 7, 8]:
        compiled(torch.ones(length, 3))
    assert len(compiled._cache) == 2
    first, second = (entry.guards.code_parts for entry in compiled._cache)
    assert "L['x'].shape == (4, 3)" in first
    assert "(s0 := L['x'].size()[0])" in second
    assert "s0 >= 2" in second


def test_all_sizes_vary_if_asked_for_and_none_if_not() -> None:
    every = dynamlir.compile(lambda x: x + 1, dynamic=True)
    never = dynamlir.compile(lambda x: x + 1, dynamic=False)
    for length in [4, 5, 6]:
        for compiled in (every, never):
            assert torch.equal(compiled(torch.ones(length, 3, 1)), torch.full((length, 3, 1), 2.0))
    assert (len(every._cache), len(never._cache)) == (1, 3)
    assert "(s1 := L['x'].size()[1])" in every._cache[0].guards.code_parts


def test_zero_and_one_are_numbers() -> None:
    program = lambda x, y: (x + y, x.shape)  # noqa: E731
    compiled = dynamlir.compile(program, dynamic=True)
    for rows, others in [(3, 3), (1, 3), (3, 1), (0, 0), (0, 1), (1, 1), (5, 5), (1, 7), (7, 1)]:
        x, y = torch.randn(rows, 2), torch.randn(others, 2)
        result, shape = compiled(x, y)
        assert torch.equal(result, x + y)
        assert shape == x.shape and type(shape) is torch.Size
    assert len(compiled._cache) == 6


def test_parameters_and_buffers_have_numbers() -> None:
    module = nn.BatchNorm1d(8).eval()
    compiled = dynamlir.compile(module, dynamic=True)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x), module(x))
    assert len(compiled._cache) == 1


def test_what_is_made_of_sizes_is_that_of_the_call() -> None:
    class Held:
        rows = 0

    held = Held()

    def program(x: torch.Tensor, seen: list[int]) -> Any:
        rows, columns = x.shape
        held.rows = rows + 1
        seen.append(2 * rows)
        return {
            "n": rows,
            "all": [rows, (columns, rows // 2)],
            "part": slice(0, rows),
            "shape": x.t().shape,
            "x": x + 1,
        }

    compiled = dynamlir.compile(program, fullgraph=True, dynamic=True)
    for rows in (3, 4, 9, 10):
        x, seen, expected = torch.randn(rows, 5), [0], [0]
        found, other = compiled(x, seen), program(x, expected)
        assert torch.equal(found.pop("x"), other.pop("x"))
        assert found == other and repr(found) == repr(other)
        assert seen == expected and type(seen[1]) is int
        assert held.rows == rows + 1 and type(held.rows) is int
    assert len(compiled._cache) == 1


def test_what_needs_a_number_settles() -> None:
    names = {3: "three", 4: "four"}

    def program(x: torch.Tensor) -> Any:
        n = x.shape[0]
        assert isinstance(n, int) and type(n) is int and not isinstance(n, bool)
        return x + 1, f"{n:>3}", names.get(n, "?"), {n: 1}, "%d" % n, math.gcd(n, 6), n in (3, 5), [n] * n, n is None  # noqa: UP031

    compiled = dynamlir.compile(program, fullgraph=True)
    for rows in (3, 4, 5, 6, 3, 4):
        x = torch.randn(rows, 2)
        found, expected = compiled(x), program(x)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
    assert len(compiled._cache) == 4
    assert not dynamlir.counters()["fallbacks"]


def test_what_is_decided_by_sizes_is_guarded() -> None:
    def program(x: torch.Tensor) -> Any:
        if x.shape[0] % 4 == 0:
            return x * 2
        return x * 3 if x.shape[0] > 10 else x * 4

    compiled = dynamlir.compile(program, fullgraph=True, dynamic=True)
    for rows in (8, 12, 11, 13, 3, 4, 5, 16):
        assert torch.equal(compiled(torch.ones(rows, 2)), program(torch.ones(rows, 2)))
    assert len(compiled._cache) == 3
    parts = [part for entry in compiled._cache for part in entry.guards.code_parts]
    assert "s0 mod 4 == 0" in parts and "s0 > 10" in parts
    failure = compiled._cache[0].guards.failing_guards(torch.ones(5, 2))[0]
    assert failure.guard == "s0 mod 4 == 0" and failure.seen == "s0 = 5"


def test_equal_sizes_are_one_symbol_until_they_differ() -> None:
    compiled = dynamlir.compile(lambda x, y: (x.sum(0), y.sum(0)), dynamic=True)
    for rows, others in [(4, 4), (5, 5), (5, 6), (9, 8)]:
        x, y = torch.randn(rows, 3), torch.randn(others, 3)
        for found, expected in zip(compiled(x, y), (x.sum(0), y.sum(0))):
            torch.testing.assert_close(found, expected)
    assert len(compiled._cache) == 2
    assert "L['y'].size()[0] == s0" in compiled._cache[0].guards.code_parts


def test_strides_follow_sizes_or_are_guarded() -> None:
    program = lambda x: (x.t().reshape(-1), x.stride(), x.is_contiguous())  # noqa: E731
    compiled = dynamlir.compile(program, dynamic=True)
    layouts: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x,
        lambda x: x.t().contiguous().t(),
        lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
        lambda x: x[:1].expand(x.shape),
        lambda x: torch.cat([x, x])[x.shape[0] :],
    ]
    for layout in layouts:
        for rows in (3, 5, 6):
            x = layout(torch.randn(rows, 4))
            found, expected = compiled(x), program(x)
            assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]


def test_inputs_that_share_memory_have_numbers() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.sum() + y.sum()

    compiled = dynamlir.compile(program, dynamic=True)
    for rows in (4, 6):
        a, b = torch.ones(rows, 2), torch.ones(rows, 2)
        assert compiled(a, a[1:]) == program(b, b[1:])
        assert torch.equal(a, b)


def test_gradients_of_each_size() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    compiled = dynamlir.compile(module)
    for rows in (3, 5, 2, 1, 7):
        x = torch.randn(rows, 4, requires_grad=True)
        weights = [x, *module.parameters()]
        found = torch.autograd.grad(compiled(x).square().sum(), weights)
        expected = torch.autograd.grad(module(x).square().sum(), weights)
        for left, right in zip(found, expected):
            torch.testing.assert_close(left, right)
    assert len(compiled._cache) == 3
    assert not dynamlir.counters()["fallbacks"]


def test_a_graph_break_between_sizes() -> None:
    def program(x: torch.Tensor) -> Any:
        n = x.shape[0]
        y = x[: n - 1] * 2
        print(end="")
        return y + n, n

    compiled = dynamlir.compile(program)
    for rows in (3, 4, 5, 9, 2, 1):
        x = torch.randn(rows, 2)
        found, expected = compiled(x), program(x)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1] and type(found[1]) is int


def test_few_graphs_are_kept() -> None:
    compiled = dynamlir.compile(lambda x: x + 1, dynamic=True, fullgraph=True)
    for rows in range(2, 30):
        assert torch.equal(compiled(torch.ones(rows)), torch.full((rows,), 2.0))
    assert len(compiled._cache) == 1
    graph = compiled._cache[0].compiled
    assert graph.instances == [[rows] for rows in range(29, 13, -1)]
    compiled(torch.ones(20))
    assert graph.instances[0] == [20] and len(graph.instances) == 16


def test_marked_sizes_vary_at_once_within_their_range() -> None:
    compiled = dynamlir.compile(lambda x: x + 1)
    for rows in (4, 5, 6):
        x = torch.ones(rows, 3)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=100)
        assert torch.equal(compiled(x), torch.full((rows, 3), 2.0))
    assert len(compiled._cache) == 1
    assert "2 <= s0 <= 100" in compiled._cache[0].guards.code_parts
    assert not dynamlir.counters()["fallbacks"]


def test_marked_sizes_must_not_be_one_number() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 4:
            return x + 1
        return x

    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(Exception, match=r"Constraints violated \(L\['x'\].size\(\)\[0\]\).*s0 == 4 at .*test_autom"):
        dynamlir.compile(program)(x)


def test_convolutions_have_one_graph_for_all_batches() -> None:
    """Torch's choice of a convolution routine depends on the batch, but nothing visible in the graph does."""
    weight, bias = torch.randn(4, 3, 3, 3), torch.randn(4)
    for layout in (torch.contiguous_format, torch.channels_last):
        dynamlir.reset()
        compiled = dynamlir.compile(lambda x: F.conv2d(x, weight, bias, padding=1).relu())
        for batch in (3, 4, 15, 16, 17, 64, 2):
            x = torch.randn(batch, 3, 6, 5).to(memory_format=layout)
            found, expected = compiled(x), F.conv2d(x, weight, bias, padding=1).relu()
            torch.testing.assert_close(found, expected)
            assert found.stride() == expected.stride()
        assert len(compiled._cache) == (2 if layout is torch.contiguous_format else 3)
    with pytest.raises(RuntimeError, match="expected input"):
        compiled(torch.randn(5, 2, 6, 5))


def test_marked_sizes_around_a_graph_break() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y * 2 if y.sum().item() < 1e9 else y

    compiled = dynamlir.compile(program)
    with dynamlir.config.patch(on_plain="ignore"):
        for length in (5, 6, 7, 9):
            x = torch.ones(length, 4)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(compiled(x), program(x))
    assert set(dynamlir.counters()["fallbacks"]) == {"data-dependent"}
    assert len(compiled._cache) == 1


def test_other_marks() -> None:
    program = lambda x: (x + 1, str(x.shape[0]))  # noqa: E731
    static, weak = dynamlir.compile(program, dynamic=True), dynamlir.compile(program)
    for rows in (4, 5):
        x = torch.ones(rows, 3)
        torch._dynamo.mark_static(x, 0)
        assert static(x)[1] == str(rows)
        y = torch.ones(rows, 3)
        torch._dynamo.maybe_mark_dynamic(y, 0)
        assert weak(y)[1] == str(rows)
    assert not any("L['x'].size()[0]" in part for entry in static._cache for part in entry.guards.code_parts)
    assert not dynamlir.counters()["fallbacks"]


def test_logs_say_which_sizes_vary(caplog: pytest.LogCaptureFixture) -> None:
    compiled = dynamlir.compile(lambda x: x[1:] * (2 if x.shape[0] > 4 else 3))
    with caplog.at_level(logging.INFO, "dynamlir.recompiles"):
        logging.getLogger("dynamlir").propagate = True
        for rows in (5, 6):
            compiled(torch.ones(rows))
        dynamlir.compile(lambda x: x.prod(0), dynamic=True)(torch.ones(7, requires_grad=True))
    assert "sizes that vary: L['x'].size()[0]" in caplog.text
    assert "assumes s0 > 4 at" in caplog.text
    assert "the graph for sizes (7,)" in caplog.text


def test_one_graph_is_for_all_sizes() -> None:
    compiled = dynamlir.compile(lambda x: (x * 2).sin().sum(-1))
    for length in range(3, 40):
        torch.testing.assert_close(compiled(torch.ones(length, 4)), (torch.ones(length, 4) * 2).sin().sum(-1))
    # The first was for constant sizes.
    assert dynamlir.counters()["graphs"] == 2 and not dynamlir.counters()["fallbacks"]


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "all but two": lambda x: (x[2:].zero_(), x + 1),
    "columns": lambda x: (x[:, 1:].mul_(2), x.sum(0)),
    "a half": lambda x: (x[x.shape[0] // 2 :].add_(3), x * 2),
    "within": lambda x: (x[2:-1].fill_(7), x + 1),
    "of all elements": lambda x: (x.view(-1)[3:].add_(1), x + 1),
    "twice": lambda x: (x[1:].add_(1), x[:-1].mul_(2), x + 1),
    "of a copy": lambda x: (y := x * 2, y[2:].copy_(y[:-2] * 3)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_a_part_are_one_graph(name: str) -> None:
    """Also if the part may be empty."""
    compiled = dynamlir.compile(WRITES[name])
    for length in (5, 6, 7, 97, 8, 64, 16, 2, 3):
        ours, theirs = (torch.arange(length * 4.0).reshape(length, 4) for _ in range(2))
        torch.testing.assert_close(compiled(ours), WRITES[name](theirs))
        torch.testing.assert_close(ours, theirs)
    # One for constant sizes, one for all others, and some more if the smallest sizes take another path.
    assert dynamlir.counters()["graphs"] <= 4 and not dynamlir.counters()["fallbacks"]


def learned(length: int) -> torch.Tensor:
    return torch.ones(length, 4, requires_grad=True)


def product(x: torch.Tensor) -> torch.Tensor:
    """The computation of its gradient depends on sizes, so each graph is for constant sizes."""
    return (x * 2).sin().prod(0)


def test_sizes_that_never_come_back_are_plain_pythons() -> None:
    """Compiling a graph takes as long as some hundred calls: after the first ones, a size is compiled only when seen
    again.
    """
    compiled = dynamlir.compile(product)
    compiled(learned(2))
    with dynamlir.config.patch(on_plain="ignore"):
        for length in range(3, 40):
            torch.testing.assert_close(compiled(learned(length)), product(learned(length)))
    graphs = dynamlir.counters()["graphs"]
    assert graphs == 1 + graphs_by_size.AT_ONCE
    assert dict(dynamlir.counters()["fallbacks"]) == {"new-size": 37 - graphs_by_size.AT_ONCE}
    assert dynamlir.fallbacks()[-1].message.endswith(" for 39; 16 graphs were made for other sizes")
    # A size seen a second time gets a graph; the first graphs are still kept.
    for _ in range(3):
        compiled(learned(39))
    compiled(learned(18))
    assert dynamlir.counters()["graphs"] == graphs + 1


def test_whole_graphs_are_compiled_for_each_size() -> None:
    compiled = dynamlir.compile(product, fullgraph=True, dynamic=True)
    for length in range(2, 40):
        compiled(learned(length))
    assert dynamlir.counters()["graphs"] == 38 and not dynamlir.counters()["fallbacks"]


def test_why_there_is_no_graph_for_a_size_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = dynamlir.compile(product, dynamic=True)
    compiled(learned(5))
    tried: list[Any] = []

    def fails(*args: Any, **kwargs: Any) -> Any:
        tried.append(args)
        raise Fallback("internal-error", "for this size")

    monkeypatch.setattr(sys.modules["dynamlir.capture.graphs_by_size"], "compile_recording", fails)
    with dynamlir.config.patch(on_plain="ignore"):
        for _ in range(2):
            torch.testing.assert_close(compiled(learned(7)), product(learned(7)))
            compiled(learned(5))
    assert len(tried) == 1
    assert dict(dynamlir.counters()["fallbacks"]) == {"internal-error": 2}


class Small(type):
    """A metaclass whose `isinstance` depends on the value."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, int) and value < 6


class Few(metaclass=Small):
    pass


def test_what_a_size_is_an_instance_of() -> None:
    classes = (int, torch.Tensor, nn.Parameter, numbers.Number, Iterator, (str, (float, torch.Tensor)))

    def program(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x + 1, [isinstance(n, kinds) for kinds in classes], isinstance(n, int | None), isinstance(n, str | None)

    compiled = dynamlir.compile(program, fullgraph=True)
    for rows in (4, 5, 6):
        assert compiled(torch.ones(rows, 3))[1:] == ([True, False, False, True, False, False], True, False)
    assert len(compiled._cache) == 2
    by_value = dynamlir.compile(lambda x: (x + 1, isinstance(x.shape[0], str | Few)), fullgraph=True, dynamic=True)
    assert [by_value(torch.ones(rows, 3))[1] for rows in (4, 5, 6, 7)] == [True, True, False, False]


def test_layouts_are_told_apart_with_as_few_guards_as_that_takes() -> None:
    """Torch checks the row-major layout for all dimensions at once: one dimension that is not row-major decides it."""
    compiled = dynamlir.compile(lambda x: x.transpose(1, 2)[..., :16] * 2, dynamic=True)
    for rows, columns in [(5, 3), (5, 2), (2, 9)]:
        x = torch.randn(rows, columns, 2, 32)
        assert torch.equal(compiled(x), x.transpose(1, 2)[..., :16] * 2)
    assert len(compiled._cache) == 1

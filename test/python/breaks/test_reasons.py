"""Reasons for plain Python: each names the cause, the user's own line, and the remedy; none is mistaken for another."""

from __future__ import annotations

import functools
import io
import itertools
import logging
import math
import operator
import os
import re
import sys
import typing
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import native, reasons, source_lines
from torch import Tensor

pytestmark = pytest.mark.whole


X = torch.tensor([0.5, -1.0, 2.0])
KEPT = {1, 2, 3}


class Options:
    level = 1


@pytest.fixture(autouse=True)
def counted_anew() -> Any:
    dynamlir.reset()
    with torch.no_grad():
        yield


def plain(function: Callable[..., Any], *args: Any, **options: Any) -> reasons.Event:
    """The only reason for which a call ran plain. Checks that the result is that of plain Python."""
    expected = function(*args)
    compiled = dynamlir.compile(function, **options)
    found = compiled(*args)
    if isinstance(expected, str):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    (event,) = dynamlir.fallbacks()
    assert event.reason in str(event) and event.explanation in str(event) and event.hint in str(event)
    return event


def check_line(event: reasons.Event, function: Callable[..., Any], below: int = 1) -> None:
    """Checks that the event names the user's own line, by its distance from the function's first."""
    assert event.line is not None
    assert event.line[:2] == (__file__, function.__code__.co_firstlineno + below), event


def test_each_reason_has_a_kind() -> None:
    kinds = typing.get_args(reasons.Kind)
    assert {reason.kind for reason in reasons.REASONS.values()} == set(kinds)
    # A branch on a tensor's value breaks the graph; a write may be replayed in the future; a profiler must see
    # everything.
    expected = {"data-dependent-branch": "must-break", "side-effect": "may-capture", "observed": "refuse"}
    assert {name: reasons.REASONS[name].kind for name in expected} == expected


# -- branches on contents, and values read from them


def if_(x: Tensor) -> Tensor:
    return x + 1 if x.sum() > 0 else x


def while_(x: Tensor) -> Tensor:
    while x.sum() > 1: x = x / 2  # fmt: skip  # noqa: E701
    return x


def and_(x: Tensor) -> Tensor:
    return x.sum() and x


def not_(x: Tensor) -> bool:
    return not x.sum()


def asserts(x: Tensor) -> Tensor:
    assert x.sum() > 0
    return x


def chained(x: Tensor) -> Tensor:
    return 0 < x.sum() < 5


def bool_(x: Tensor) -> bool:
    return bool(x.sum())


def max_(x: Tensor) -> Tensor:
    return x + max(x.sum(), 0)


def min_by_key(x: Tensor) -> Tensor:
    return min([x[0], x[1]], key=lambda value: value * 2)


def sorted_(x: Tensor) -> list[Tensor]:
    return sorted([x[0], x[1], x[2]])


def sorts(x: Tensor) -> list[Tensor]:
    rows = [x[0], x[1]]; rows.sort()  # fmt: skip  # noqa: E702
    return rows


def any_(x: Tensor) -> Tensor:
    return x + 1 if any([x[0], x[1]]) else x


def any_of_generated(x: Tensor) -> Tensor:
    return x + 1 if any(row > 0 for row in x) else x


def all_of_rows(x: Tensor) -> Tensor:
    return x + 1 if all(x) else x


def index(x: Tensor) -> int:
    return [x[0], x[1]].index(x[1])


def equal_lists(x: Tensor) -> bool:
    return [x[0]] == [x[1]]


def in_list(x: Tensor) -> bool:
    return x[1] in [x[0], x[1]]


def in_tensor(x: Tensor) -> bool:
    return 2.0 in x


def truth(x: Tensor) -> bool:
    return operator.truth(x.sum())


BRANCHES = [
    if_, and_, not_, asserts, chained, bool_, max_, min_by_key, sorted_, sorts, any_, any_of_generated, all_of_rows,
    index, equal_lists, in_list, in_tensor, truth, while_,
]  # fmt: skip


@pytest.mark.parametrize("function", BRANCHES)
def test_what_branches_on_contents_says_so(function: Callable[..., Any]) -> None:
    """C code that compares fakes ran torch's Python code, in which another C function ended the capture."""
    event = plain(function, X)
    assert event.reason == "data-dependent-branch" and "torch.where" in event.hint
    check_line(event, function)


READS: list[tuple[Callable[..., Any], str]] = [
    (lambda x: x.sum().item(), "data-dependent"),
    (lambda x: x.tolist(), "data-dependent"),
    (lambda x: float(x.sum()), "data-dependent"),
    (lambda x: math.sqrt(x.sum()), "data-dependent"),
    (lambda x: math.isclose(x[0], x[1]), "data-dependent"),
    (lambda x: [x + n for n in range(x.sum().long())], "data-dependent"),
    (lambda x: [1, 2, 3][x[2].long()], "data-dependent"),
    (lambda x: x[: x[2].long()], "data-dependent"),
    (lambda x: torch.equal(x, x + 1), "data-dependent"),
    (lambda x: x.nonzero(), "data-dependent-size"),
    (lambda x: x[x > 0], "data-dependent-size"),
    (lambda x: torch.unique(x), "data-dependent-size"),
    (lambda x: x.masked_select(x > 0), "data-dependent-size"),
    (lambda x: f"{x.sum()}", "data-dependent-text"),
    (lambda x: str(x), "data-dependent-text"),
    (lambda x: f"{[x]!r}", "data-dependent-text"),
]


@pytest.mark.parametrize(("function", "reason"), READS)
def test_what_reads_contents_says_what_for(function: Callable[..., Any], reason: str) -> None:
    event = plain(function, X)
    assert event.reason == reason and event.hint
    check_line(event, function, below=0)


def test_dynamo_finds_the_same_size() -> None:
    """Through torch.compile the operation reaches the backend: `bincount` with weights is not captured."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(lambda x: torch.bincount(x.flatten().abs().long(), x.flatten()), backend="dynamlir")(X)
    assert set(reasons.counts()) <= {"data-dependent-size", "dynamic-shape", "no-fake"} and reasons.counts()
    reasons.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(lambda x: x.nonzero() + 1, backend="dynamlir")(X)
    assert not reasons.counts()


# -- writes


def writes_set(x: Tensor) -> Tensor:
    KEPT.intersection_update({1, 2})
    return x + 1


def writes_class(x: Tensor) -> Tensor:
    Options.level = 2
    return x + 1


@pytest.mark.parametrize("function", [writes_set, writes_class])
def test_writes_to_what_existed_say_where(function: Callable[..., Any]) -> None:
    event = plain(function, X)
    assert event.reason == "side-effect" and "Return the new value" in event.hint
    check_line(event, function)


@pytest.mark.parametrize("seed", [torch.manual_seed, torch.random.manual_seed, torch.random.set_rng_state])
def test_seeding_is_its_own_reason(seed: Callable[[Any], Any]) -> None:
    value = torch.random.get_rng_state() if seed is torch.random.set_rng_state else 3

    def seeds(x: Tensor) -> Tensor:
        seed(value)
        return x + torch.rand(3)

    event = plain(seeds, X)
    assert event.reason == "random-state"
    check_line(event, seeds)


# -- output


def logs_warning(x: Tensor) -> Tensor:
    logging.getLogger("a test's own").warning("hi")
    return x + 1


def logs_by_root(x: Tensor) -> Tensor:
    logging.error("hi")
    return x + 1


def warns(x: Tensor) -> Tensor:
    warnings.warn("hi", stacklevel=1)
    return x + 1


def prints(x: Tensor) -> Tensor:
    print(x.shape)
    return x + 1


def writes_stderr(x: Tensor) -> Tensor:
    sys.__stderr__.write("")
    return x + 1


@pytest.mark.filterwarnings("ignore:hi")
@pytest.mark.parametrize("function", [prints, logs_warning, logs_by_root, warns, writes_stderr])
def test_output_is_called_output(function: Callable[..., Any]) -> None:
    event = plain(function, X)
    assert event.reason == "print" and "is_compiling" in event.hint
    check_line(event, function)


def test_a_stream_of_the_users_is_output() -> None:
    stream = io.StringIO()

    def writes(x: Tensor) -> Tensor:
        stream.write("a")
        return x + 1

    assert plain(writes, X).reason == "print" and stream.getvalue() == "aa"


def test_what_wraps_print_is_not_print() -> None:
    @functools.wraps(print)
    def doubles(x: Tensor) -> Tensor:
        return x * 2

    torch.testing.assert_close(dynamlir.compile(lambda x: doubles(x))(X), X * 2)
    assert not reasons.counts()


# -- other C code


def test_c_code_that_adds_tensors_is_named() -> None:
    def adds(x: Tensor) -> list[Tensor]:
        return list(itertools.accumulate(x, initial=x[0]))

    event = plain(adds, X)
    assert event.reason == "hidden-operation" and "list()" in event.message and "add" in event.message


def test_a_function_of_c_that_is_not_known_is_named() -> None:
    import zlib

    event = plain(lambda x: x + zlib.crc32(b"a") % 2, X)
    assert (event.reason, event.message) == ("c-function", "zlib.crc32")


# -- what comes from the recorder and from passes, through both doors


def overlaps(x: Tensor) -> Tensor:
    return x[2::2].add_(x[:-2:2])


def as_integers(x: Tensor) -> Tensor:
    return x.view(torch.int32)


def written_twice(x: Tensor) -> Tensor:
    return x.t().mul_(2)


def of_two_types(x: Tensor, y: Tensor) -> Tensor:
    return x.add_(1) + y


def through_both_doors(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> list[reasons.Event]:
    events = []
    for compile_ in (dynamlir.compile, functools.partial(torch.compile, backend="dynamlir")):
        dynamlir.reset()
        expected = function(*make())
        torch.testing.assert_close(compile_(function)(*make()), expected, rtol=0, atol=0)
        (event,) = dynamlir.fallbacks()
        events.append(event)
    return events


def windows() -> tuple[Tensor, Tensor]:
    memory = torch.arange(8.0)
    return memory, memory.view(torch.int32)


@pytest.mark.parametrize(
    ("function", "make", "reason"),
    [
        (overlaps, lambda: (torch.arange(8.0),), "overlap"),
        (as_integers, lambda: (torch.arange(8.0),), "aliasing"),
        (of_two_types, windows, "aliasing"),
        (lambda x: x * 1j, lambda: (X,), "complex"),
    ],
)
def test_reasons_of_the_recorder_and_of_passes_stay_what_they_are(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], reason: str
) -> None:
    """They once became ``unsupported`` on the way through Rust, which had a list of IDs maintained by hand."""
    for event in through_both_doors(function, make):
        assert event.reason == reason and "report" not in event.hint
        assert event.line is not None and event.line[0] == __file__


def test_a_tensor_that_shows_an_element_twice() -> None:
    def window() -> tuple[Tensor]:
        return (torch.zeros(8).as_strided((2, 3), (1, 1)),)

    event = through_both_doors(written_twice, window)[0]
    assert (event.reason, event.message) == ("aliasing", "a tensor that shows an element twice is written")


def test_a_folder_that_cannot_be_written_is_said() -> None:
    event = plain(lambda x: x.exp() + 1, X, options={"dump": "/proc/no/such"})
    assert event.reason == "unwritable" and "/proc/no/such" in event.message and "DYNAMLIR_DUMP" in event.hint


def test_a_backend_that_returns_nonsense_is_said() -> None:
    event = plain(lambda x: x + 1, X, backend=lambda module, inputs: 3)
    assert (event.reason, event.message) == ("bad-backend", "int, not a callable")
    assert "graph_module" in event.hint


@pytest.mark.parametrize("returned", [5, None, X, iter([X])])
def test_a_backend_whose_code_returns_nonsense_raises(returned: Any) -> None:
    """The rows of a tensor were once mistaken for the graph's outputs."""
    compiled = dynamlir.compile(lambda x: x + 1, backend=lambda module, inputs: lambda *args: returned)
    with pytest.raises(TypeError, match=f"in a list or tuple, and returned {type(returned).__name__}"):
        compiled(X)


# -- lines


def test_torchs_frames_are_a_detail() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = torch.nn.FractionalMaxPool2d(2, output_size=(2, 2), return_indices=True)

        def forward(self, x: Tensor) -> Any:
            return float(self.pool(x)[0].sum())

    event = plain(Model(), torch.ones(1, 1, 4, 4))
    check_line(event, Model.forward)

    def hooked(x: Tensor) -> Tensor:
        return torch.nn.Sequential(torch.nn.Identity()).register_forward_hook(print) and x

    dynamlir.reset()
    dynamlir.compile(hooked)(X)
    (event,) = dynamlir.fallbacks()
    check_line(event, hooked)
    assert event.location[0][0].startswith(source_lines.TORCH) and "(within " in str(event)


def test_a_call_is_named_where_no_line_is_the_users() -> None:
    event = plain(torch.nn.Sequential(torch.nn.Identity()), X.to_sparse())
    assert event.line is not None and event.line[0] == __file__ and "in the call at" in str(event)


def test_extern_calls_are_placed_in_the_users_code() -> None:
    """torch.nn.EmbeddingBag calls the operator; the user looks for the line that calls the layer."""
    layer = torch.nn.EmbeddingBag(5, 4)

    def calls(x: Tensor) -> Tensor:
        return layer(x) + 1

    for compile_ in (dynamlir.compile, functools.partial(torch.compile, backend="dynamlir")):
        dynamlir.reset()
        compile_(calls)(torch.tensor([[1, 2]]))
        made = dynamlir.last_compile()
        assert made is not None and made.eager is None
        lines = [extern.location for extern in made.externs]
        assert lines == [f"{__file__}:{calls.__code__.co_firstlineno + 1}"]


@pytest.mark.parametrize(
    ("file", "users"),
    [
        (__file__, True),
        (torch.nn.__file__, False),
        (dynamlir.__file__, False),
        (logging.__file__, False),
        (os.__file__, False),
        (pytest.__file__, True),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", True),
        ("/somewhere/model.py", True),
    ],
)
def test_whose_file_it_is(file: str, users: bool) -> None:
    assert source_lines.is_users(file) is users


# -- one registry


def test_an_unknown_reason_is_an_error() -> None:
    with pytest.raises(LookupError, match="no reason 'overlaps'"):
        reasons.Fallback("overlaps")
    with pytest.raises(LookupError, match="no reason"):
        reasons.note("overlaps")
    assert not reasons.counts()


def test_an_unknown_reason_from_the_extension_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted as an internal error, with the ID in the message, and eager runs."""

    def refuse(*_: object) -> None:
        raise native.module().Unsupported("no-such-reason", "on purpose", None)

    monkeypatch.setattr(native.module(), "compile_trace", refuse)
    event = plain(lambda x: x + 1, X)
    assert event.reason == "internal-error" and "'no-such-reason'" in event.message


def test_every_reason_is_used_and_every_use_is_registered() -> None:
    root = Path(__file__).parents[3]
    constants = {name.upper().replace("-", "_"): name for name in reasons.REASONS}
    rust = "\n".join(
        path.read_text() for path in (root / "crates").glob("*/src/**/*.rs") if path.parts[-3] != "reasons"
    )
    used = {constants[name] for name in re.findall(r"\b[A-Z][A-Z_]+\b", rust) if name in constants}
    python = "\n".join(path.read_text() for path in (root / "python").rglob("*.py"))
    named = set(re.findall(r'(?:Fallback|note)\(\s*"([a-z-]+)"', python))
    assert named <= set(reasons.REASONS)
    used |= {name for name in reasons.REASONS if f'"{name}"' in python + rust}
    assert used == set(reasons.REASONS)
    assert all(entry.explanation.endswith(".") for entry in reasons.REASONS.values())


def test_a_number_of_more_than_64_bits_is_named() -> None:
    event = plain(lambda x: x + 2**63, torch.arange(3))
    assert event.reason == "opaque-argument" and str(2**63) in event.message

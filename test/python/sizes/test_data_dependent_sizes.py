"""Unbacked sizes: captured in one entry where requested, a graph break elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch
import torch._dynamo
import torch.utils.checkpoint
from data_dependent_programs import COUNTS, LENGTH, PROGRAMS, Program, count, ones, same
from dynamlir import reports

pytestmark = [pytest.mark.usefixtures("quiet")]


def repeated() -> int:
    """The number of calls that were rerun as plain Python; resets it."""
    count = reports.counters().get("calls_repeated_eagerly", 0)
    reports.reset()
    return count


@pytest.fixture(autouse=True)
def none_repeated() -> Iterator[None]:
    """Checks that no call is rerun as plain Python, unless a test says otherwise."""
    dynamlir.reset()
    yield
    assert repeated() == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_entry_for_all_counts(name: str) -> None:
    program = PROGRAMS[name]
    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in COUNTS:
        same(compiled(ones(number)), program(ones(number)))
    assert len(compiled._cache) == 1


@pytest.mark.parametrize("name", ["a mask", "a chain", "an int as a size"])
def test_twenty_counts_are_no_reason_to_capture_again(name: str) -> None:
    compiled = dynamlir.compile(PROGRAMS[name], dynamic=True, fullgraph=True)
    compiled(ones(5))
    with torch.compiler.set_stance("fail_on_recompile"):
        for number in range(20):
            same(compiled(ones(number)), PROGRAMS[name](ones(number)))


@pytest.mark.parametrize(
    "name", ["a mask", "masked_select", "unique", "an int as a size", "an int as a number", "nonzero"]
)
def test_behind_torch_compile(name: str) -> None:
    program = PROGRAMS[name]
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(program, backend="dynamlir", fullgraph=True)
        for number in COUNTS:
            found, wanted = compiled(ones(number)), program(ones(number))
            torch.testing.assert_close(found, wanted)
    assert not dynamlir.fallbacks()


def test_a_number_that_is_given_behind_torch_compile() -> None:
    def program(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        n = number.item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return x[:n] * 2

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(program, backend="dynamlir", fullgraph=True)
        for number in (3, 0, 1, 2, LENGTH):
            same(compiled(ones(5), torch.tensor(number)), program(ones(5), torch.tensor(number)))
    assert not dynamlir.fallbacks()


@pytest.mark.parametrize("name", ["a mask", "unique", "an int as a number", "repeat_interleave"])
@pytest.mark.parametrize("dynamic", [None, False])
def test_a_static_graph_breaks(name: str, dynamic: bool | None) -> None:
    program = PROGRAMS[name]
    compiled = dynamlir.compile(program, dynamic=dynamic)
    for number in COUNTS[:3]:
        same(compiled(ones(number)), program(ones(number)))
    with pytest.raises(dynamlir.Unsupported, match="data-dependent"):
        dynamlir.compile(program, dynamic=dynamic, fullgraph=True)(ones(3))


def test_the_switches_of_torch_are_those() -> None:
    masked, number = PROGRAMS["a mask"], PROGRAMS["an int as a number"]
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        same(dynamlir.compile(number, fullgraph=True)(ones(3)), number(ones(3)))
        with pytest.raises(dynamlir.Unsupported, match="data-dependent-size"):
            dynamlir.compile(masked, fullgraph=True)(ones(3))
    dynamlir.reset()  # the next compile would reuse the entries
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        same(dynamlir.compile(masked, fullgraph=True)(ones(3)), masked(ones(3)))
        with pytest.raises(dynamlir.Unsupported, match="data-dependent"):
            dynamlir.compile(number, fullgraph=True)(ones(3))


def branches(x: torch.Tensor) -> torch.Tensor:
    n = count(x).item()
    y = x + 1
    if n > 3:
        return y * 2
    return y * 3


def caught(x: torch.Tensor) -> torch.Tensor:
    n = count(x).item()
    try:
        return x + 1 if n == 3 else x - 1
    except Exception:
        return x * 100


def loops(x: torch.Tensor) -> torch.Tensor:
    for step in range(count(x).item()):
        x = x + step
    return x


def tells(x: torch.Tensor) -> Any:
    n = count(x).item()
    return f"{n}", {n: 1}, n == 3, (n > 2) + 1, isinstance(n > 2, bool), str(n > 1), min(n, 4), x + n


def broadcasts(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] + x[x > 0.0001]


def transposes(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(5.0 * LENGTH).reshape(LENGTH, 5)[x > 0].t().contiguous() + 1


NEEDED = {
    "a branch": branches,
    "a branch in a handler": caught,
    "a loop": loops,
    "values": tells,
    "a copy that is none without elements": transposes,
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_python_has_to_know_breaks_the_graph(name: str) -> None:
    program = NEEDED[name]
    compiled = dynamlir.compile(program, dynamic=True)
    for number in COUNTS:
        same(compiled(ones(number)), program(ones(number)))
    with pytest.raises(dynamlir.Unsupported, match=r"data-dependent at .*torch\._check can state"):
        dynamlir.compile(program, dynamic=True, fullgraph=True)(ones(3))


def test_equal_sizes_are_counted_on() -> None:
    compiled = dynamlir.compile(broadcasts, dynamic=True, fullgraph=True)
    for number in COUNTS:
        same(compiled(ones(number)), broadcasts(ones(number)))
    assert len(compiled._cache) == 1


@pytest.mark.parametrize("kind", [torch._check, torch._check_value, torch._check_index, torch._check_is_size])
def test_checks_raise_what_eager_raises(kind: Any) -> None:
    def program(x: torch.Tensor, log: list[str]) -> torch.Tensor:
        log.append("before")
        n = count(x).item()
        if kind is torch._check_is_size:
            kind(n, max=4)
        else:
            kind(n < 5, lambda: "too many of them")
        log.append("after")
        return torch.ones(n) * 2

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in (3, 4, 7, 0, 2, 1):
        ours: list[str] = []
        theirs: list[str] = []
        outcomes = []
        for function, log in ((compiled, ours), (program, theirs)):
            try:
                outcomes.append(function(ones(number), log).tolist())
            except (RuntimeError, ValueError, IndexError) as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1] and ours == theirs
    assert len(compiled._cache) == 1
    assert repeated() == 1


def test_numbers_may_be_negative() -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> Any:
        n = t.item()
        return x * n + n, x.clamp(max=n), n + 1

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in (5, 0, 1, -1, -7, 2, 1 << 40):
        x, t = torch.arange(6), torch.tensor(number)
        same(compiled(x, t), program(x, t))
    assert len(compiled._cache) == 1


def test_training() -> None:
    def selected(x: torch.Tensor, w: torch.Tensor) -> Any:
        h = torch.tanh(x * w)
        return (torch.masked_select(h, x > 0) ** 2).sum() + h.sum()

    def indexed(x: torch.Tensor, w: torch.Tensor) -> Any:
        return ((x * w)[x > 0] ** 2).sum() * w.sum()

    def viewed(x: torch.Tensor, w: torch.Tensor) -> Any:
        h = (x * w).view(2, -1)
        return h.reshape(-1)[(x > 0).nonzero()[:, 0]].sum() * h.exp().mean()

    def returned(x: torch.Tensor, w: torch.Tensor) -> Any:
        return (w * 2)[x > 0].sin()

    for program in (selected, indexed, viewed, returned):
        compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
        for number in COUNTS:
            ours = torch.linspace(-1, 1, LENGTH).requires_grad_()
            theirs = ours.detach().clone().requires_grad_()
            found, wanted = compiled(ones(number), ours), program(ones(number), theirs)
            torch.testing.assert_close(found, wanted)
            assert found.requires_grad
            found.sum().backward()
            wanted.sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad)
        assert len(compiled._cache) == 1


def test_a_step_of_training_within() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        loss = (torch.masked_select(x * w, x > 0) ** 2).sum()
        loss.backward()
        return loss.detach()

    compiled = dynamlir.compile(program, dynamic=True)
    for number in COUNTS:
        ours = torch.linspace(-1, 1, LENGTH).requires_grad_()
        theirs = ours.detach().clone().requires_grad_()
        torch.testing.assert_close(compiled(ones(number), ours), program(ones(number), theirs))
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_gradients_of_gradients() -> None:
    """The graph of a part is differentiated again; its sizes are some of those of the whole graph."""

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cat([(w**3)[x > 0], torch.masked_select(w.exp(), x > 1)])

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in COUNTS:
        w = torch.linspace(-1, 1, LENGTH).requires_grad_()
        second = []
        for fn in (compiled, program):
            (first,) = torch.autograd.grad(fn(ones(number), w).sum(), w, create_graph=True)
            second.append(torch.autograd.grad((first * w).sum(), w)[0])
        torch.testing.assert_close(*second)


def test_hooks_that_raise() -> None:
    """The caller gets the exception of a hook: torch ends the second run of a checkpointed region this way."""

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.sin(w)[x > 0]

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in (3, 5):
        gradients = []
        for fn in (compiled, program):
            w = torch.linspace(-1, 1, LENGTH).requires_grad_()
            torch.utils.checkpoint.checkpoint(fn, ones(number), w, use_reentrant=False).sum().backward()
            gradients.append(w.grad)
        torch.testing.assert_close(*gradients)

    calls = []

    def pack(saved: torch.Tensor) -> torch.Tensor:
        calls.append(saved)
        raise KeyError("packed")

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved), pytest.raises(KeyError, match="packed"):
        compiled(ones(3), torch.linspace(-1, 1, LENGTH).requires_grad_())
    assert len(calls) == 1


def later(x: torch.Tensor) -> Any:
    t = torch.zeros(LENGTH)
    u = t[2:4]
    t[0] = 1
    taken = x[x > 0]
    u.add_(taken.sum())
    return t, u, taken


def earlier(x: torch.Tensor) -> Any:
    v = (x * 2).view(2, -1)
    v[0] += 1
    n = count(x).item()
    return v.mul_(n), x, x[1:]


def inputs(x: torch.Tensor) -> Any:
    v = x.view(2, -1)
    total = x[x > 0].sum()
    v[0] = 5
    return total, x * 1


def detached(x: torch.Tensor) -> Any:
    t = (x * 2).detach()
    a, b = (x * 3).split(LENGTH // 2)
    return t, t[x > 0].detach(), a, b + 1


def within(x: torch.Tensor) -> Any:
    some = x[x > 0]
    more = some[some > 1]
    return some, some, more, more[more > 2].nonzero(), (more * 2).sum()


@pytest.mark.parametrize("program", [later, earlier, inputs, detached, within])
def test_memory_that_is_shared_and_written(program: Program) -> None:
    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in COUNTS:
        ours, theirs = ones(number), ones(number)
        found, wanted = compiled(ours), program(theirs)
        same(found, wanted)
        same(ours, theirs)
        assert [each._version for each in (ours, *found)] == [each._version for each in (theirs, *wanted)]
        assert [each is found[0] for each in found] == [each is wanted[0] for each in wanted]


def test_inputs_that_share_memory() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        taken = x[x > 1]
        return taken.sum() + y

    compiled = dynamlir.compile(program, dynamic=True)
    for number in COUNTS[:3]:
        ours, theirs = ones(number), ones(number)
        same(compiled(ours, ours[2:]), program(theirs, theirs[2:]))
        same(compiled(ours, ours.clone()), program(theirs, theirs.clone()))
        same(ours, theirs)
    repeated()


class Box:
    """An object to write to."""


def test_writes_come_in_order() -> None:
    def program(x: torch.Tensor, box: Any) -> torch.Tensor:
        box.first = x + 1
        x.add_(1)
        taken = x[x > 1]
        box.count = int((x > 1).sum())
        x.mul_(2)
        taken.mul_(3)
        box.last = taken
        return taken + box.count

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in COUNTS:
        ours, theirs = ones(number), ones(number)
        mine, other = Box(), Box()
        same(compiled(ours, mine), program(theirs, other))
        same(ours, theirs)
        assert ours._version == theirs._version
        for name in ("first", "count", "last"):
            same(getattr(mine, name), getattr(other, name))
    assert len(compiled._cache) == 1


def test_nothing_is_written_where_a_check_fails_later() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        n = (x > 1).sum().item()
        torch._check(n != 5)
        x.mul_(2)
        return x * n

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for number in (3, 5, 2):
        ours, theirs = ones(number), ones(number)
        if number == 5:
            with pytest.raises(RuntimeError):
                compiled(ours)
            with pytest.raises(RuntimeError):
                program(theirs)
        else:
            same(compiled(ours), program(theirs))
        same(ours, theirs)
        assert ours._version == theirs._version
    assert repeated() == 1


def test_random_numbers_are_drawn_in_order() -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.rand(4)
        taken = x[x > 0]
        return before, taken + torch.rand(1), torch.rand(3)

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True, options={"eager_random": True})
    for number in COUNTS:
        torch.manual_seed(number)
        found = compiled(ones(number))
        torch.manual_seed(number)
        same(found, program(ones(number)))


def test_modules_with_such_sizes_are_not_repeated() -> None:
    class Selects(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(LENGTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x * self.weight > 0].sum() + x

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Selects() for _ in range(3)))
    compiled = dynamlir.compile(model, dynamic=True, fullgraph=True)
    for number in COUNTS:
        torch.testing.assert_close(compiled(ones(number)), model(ones(number)))


def test_sizes_of_inputs_vary_beside() -> None:
    def program(x: torch.Tensor) -> Any:
        taken = x[x > 0]
        return taken.sum() + x, torch.cat([taken, x]), taken.shape[0] + x.shape[0]

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for length in (5, 8, 3, 12):
        for number in (0, 1, 2, length):
            x = torch.tensor([1.0] * number + [0.0] * (length - number))
            same(compiled(x), program(x))
    assert len(compiled._cache) == 1

"""One process of `test_collectives`: runs programs that exchange tensors, plain and through both doors.

Arguments: rank, number of processes, the file for their rendezvous. Prints a line of JSON for each program and door.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP

DOORS: dict[str, Callable[[Any], Any]] = {
    "own": dynamlir.compile,
    "torch": lambda function: torch.compile(function, backend="dynamlir"),
}
Program = Callable[[Tensor], Any]
CALLS = 3


def of_two() -> Iterator[tuple[str, Program]]:
    """Every kind of exchange, with work for kernels around each."""
    world: Any = dist.group.WORLD
    low = torch.ops._c10d_functional

    def of_each_kind(x: Tensor) -> Tensor:
        found = functional.all_reduce(x.sin(), "sum", world) * 2 + functional.all_reduce(x * 3, "max", world)
        found = found + functional.all_gather_single(found + x, 0, world).view(2, 8)[0]
        found = found - functional.all_gather_single(found.view(2, 4), 1, world).sum(0)
        found = found + functional.reduce_scatter_single(found.cos().repeat(2), "sum", 0, world)
        found = found * functional.all_to_all_single(found + 1, None, None, world)
        found = found + functional.all_to_all_single_autograd(found.tanh() * x, [4, 4], [4, 4], world)
        found = found - functional.all_gather_single_autograd(found / 2, 0, world)[8:]
        first, second = functional.all_reduce_coalesced([found + 1, x * 2], "sum", world)
        return functional.broadcast(x.detach() * 2, 1, world) + first * 2 - second

    def in_another_order(x: Tensor) -> Tensor:
        pending = low.all_reduce(x + 1, "sum", world.group_name)
        meanwhile = x.sin() * 3
        low.wait_tensor(low.all_reduce(x.detach() + 5, "sum", world.group_name))  # unused
        found = low.wait_tensor(pending) * 2 + meanwhile
        for _ in range(2):
            found = functional.all_reduce(found.tanh(), "sum", world) / 2
        return found

    yield "of each kind", of_each_kind
    yield "in another order", in_another_order


def in_place_of_two() -> Iterator[tuple[str, Program]]:
    """Exchanges that write their arguments. Dynamo rewrites some of them to functional ones, which have gradients."""
    world: Any = dist.group.WORLD
    low = torch.ops._c10d_functional

    def in_place(x: Tensor) -> Tensor:
        y = x + 1
        dist.all_reduce(y)
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x.exp() * y)
        out = torch.zeros(16)
        dist.all_gather_single(out, x + parts[0] - parts[1] * 2)
        low.wait_tensor(low.all_reduce_(y, "sum", world.group_name))
        low.wait_tensor(low.broadcast_(out, 1, world.group_name))
        return out.add_(1)[:8] * y

    def asynchronous(x: Tensor) -> Tensor:
        y = x + 1
        work = dist.all_reduce(y, async_op=True)
        meanwhile = x * 3
        work.wait()
        return y * 2 + meanwhile

    yield "in place", in_place
    yield "asynchronous", asynchronous


def of_four() -> Iterator[tuple[str, Program]]:
    """Programs over process groups of every kind."""
    halves = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    mine = halves[dist.get_rank() // 2]
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    columns, ranks = mesh["columns"], list(range(4))

    def by_all(x: Tensor) -> Tensor:
        found = functional.all_reduce(x + 1, "sum", dist.group.WORLD) * 2
        found = functional.all_reduce(found + x, "sum", mine) * 2
        found = functional.all_gather_single(found - x, 0, mine.group_name)[:8] * x
        found = functional.all_reduce(found + 1, "sum", ranks) / 4
        found = functional.all_reduce(found.sin(), "sum", columns) * 2
        found = functional.reduce_scatter_single(found.repeat(2), "sum", 0, (mesh, 0)) * x
        return functional.all_reduce(found + x, "sum", (mesh, 1)) + found

    def in_a_part(x: Tensor) -> Tensor:
        y = x.detach() + 1
        dist.all_reduce(y, group=mine)
        return y * 2

    yield "by all kinds of groups", by_all
    yield "in a part", in_a_part


def outcome(program: Program, x: Tensor) -> Any:
    """The result of a call, and the gradient if it has one."""
    x = x.detach().requires_grad_(x.requires_grad)
    result = program(x)
    result = result.wait() if hasattr(result, "wait") else result
    found = [result.detach()]
    if result.requires_grad:
        (gradient,) = torch.autograd.grad(result.square().sum(), x)
        found.append(gradient.wait() if hasattr(gradient, "wait") else gradient)
    return found


def same(expected: list[Tensor], found: list[Tensor]) -> bool:
    return len(expected) == len(found) and all(
        torch.allclose(one, other, rtol=1e-5, atol=1e-6) for one, other in zip(expected, found)
    )


def told(case: str, door: str, is_same: bool) -> None:
    """Prints the outcome of a case. All processes continue with the next case together."""
    compiled = [report.graph for report in dynamlir.compiles() if report.eager is None]
    reasons = sorted({event.reason for event in dynamlir.fallbacks()})
    print(
        json.dumps({"case": case, "door": door, "same": is_same, "graphs": len(compiled), "why": reasons}), flush=True
    )
    dynamlir.reset()
    torch.compiler.reset()
    dist.barrier()


def compared(programs: Iterator[tuple[str, Program]], x: Tensor) -> None:
    for case, program in programs:
        expected = outcome(program, x)
        for door, compile in DOORS.items():
            compiled = compile(program)
            told(case, door, all([same(expected, outcome(compiled, x)) for _ in range(CALLS)]))


class Shared(nn.Module):
    """A layer whose processes sum their results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return functional.all_reduce(self.layer(x).tanh(), "sum", dist.group.WORLD) * 2


def trained(x: Tensor) -> None:
    """Trains a `DistributedDataParallel`."""

    def step(compile: Callable[[Any], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        module = compile(DDP(Shared()))
        module(x).square().sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    expected = step(lambda module: module)
    for door, compile in DOORS.items():
        told("in a DistributedDataParallel", door, same(expected, step(compile)))


def raised(x: Tensor, rank: int) -> None:
    """An error in one process after an exchange. That process does not repeat the exchange, so the next one finds its
    partner.
    """
    table = torch.arange(8.0)

    def program(x: Tensor) -> Tensor:
        total = functional.all_reduce(torch.ones_like(x), "sum", dist.group.WORLD)
        return table[total.long() + rank * 100] * 2

    def next_one(function: Program) -> tuple[str, list[float]]:
        error = ""
        try:
            function(x)
        except Exception as caught:
            error = type(caught).__name__
        total = x.clone()
        dist.all_reduce(total)
        return error, total.tolist()

    expected = next_one(program)
    for door, compile in DOORS.items():
        compiled = compile(program)
        told("an error after an exchange", door, all([next_one(compiled) == expected for _ in range(CALLS)]))


def left(x: Tensor, rank: int) -> None:
    """A process has left: the other ones get plain Python's exception."""
    world: Any = dist.group.WORLD

    def program(x: Tensor) -> Tensor:
        return functional.all_reduce(x + 1, "sum", world) * 2

    def error(function: Program) -> str:
        try:
            result = function(x)
            return str(result.wait() if hasattr(result, "wait") else result)
        except Exception as raised:
            return type(raised).__name__

    compiled = {door: compile(program) for door, compile in DOORS.items()}
    for function in compiled.values():
        function(x)
    dist.barrier()
    if rank:
        return
    expected = error(program)
    for door, function in compiled.items():
        print(json.dumps({"case": "a process has left", "door": door, "same": error(function) == expected}), flush=True)


def main(rank: int, count: int, place: str) -> None:
    """Runs the programs."""
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=count, timeout=timeout)
    x = torch.linspace(-1.0, 2.0, 8) + rank
    if count == 4:
        compared(of_four(), x.requires_grad_())
    else:
        compared(in_place_of_two(), x)
        trained(x)
        raised(x, rank)
        compared(of_two(), x.clone().requires_grad_())
        left(x, rank)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])

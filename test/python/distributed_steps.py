"""One process of `test_training_distributed`: trains with eager's DistributedDataParallel and with a compiled one.

Arguments: rank, number of processes, the file for their rendezvous. Prints a line of JSON for each case.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable
from typing import Any

import dynamlir
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 3


class Net(nn.Module):
    """Has enough parameters for several buckets of a megabyte, which is the smallest size that Dynamo accepts."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(320, 320) for _ in range(6))
        self.norm, self.head = nn.LayerNorm(320), nn.Linear(320, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x).tanh()
        return self.head(self.norm(x))


def make() -> Net:
    torch.manual_seed(0)
    return Net()


def distributed(module: nn.Module, **options: Any) -> DDP:
    return DDP(module, bucket_cap_mb=1, **options)


def torchs_door(module: Any) -> Any:
    return torch.compile(module, backend="dynamlir", dynamic=False)


CASES: dict[str, Callable[[nn.Module], Any]] = {
    "torch.compile(ddp)": lambda module: torchs_door(distributed(module)),
    "dynamlir.compile(ddp)": lambda module: dynamlir.compile(distributed(module)),
    "ddp(torch.compile)": lambda module: distributed(torchs_door(module)),
    "ddp(dynamlir.compile)": lambda module: distributed(_own(module)),
    "static graph": lambda module: distributed(_own(module), static_graph=True),
    "views of buckets": lambda module: distributed(_own(module), gradient_as_bucket_view=True),
    "no sync": lambda module: distributed(_own(module)),
}


def _own(module: nn.Module) -> nn.Module:
    """A module whose forward is compiled by `dynamlir.compile`."""
    module.forward = dynamlir.compile(module.forward)  # type: ignore[method-assign]
    return module


def step(call: Any, optimizer: torch.optim.Optimizer, batch: torch.Tensor, accumulate: bool) -> list[torch.Tensor]:
    """Runs a step, with two backwards if gradients are accumulated without being sent, and returns the gradients."""
    optimizer.zero_grad()
    if accumulate:
        with call.no_sync():
            call(batch * 0.5).square().sum().backward()
    call(batch).square().sum().backward()
    found = [p.grad.clone() for group in optimizer.param_groups for p in group["params"]]
    optimizer.step()
    return found


def trained(case: str, rank: int, count: int) -> dict[str, Any]:
    """Trains both models, and returns how far apart they are."""
    torch._dynamo.reset()
    dynamlir.reset()
    eager, ours = make(), make()
    calls = (distributed(eager), CASES[case](ours))
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.01) for module in (eager, ours)]
    batch = torch.randn(2, 320, generator=torch.Generator().manual_seed(10 + rank))
    worst = 0.0
    for _ in range(STEPS):
        wanted, found = (step(call, opt, batch, case == "no sync") for call, opt in zip(calls, optimizers))
        for one, other in zip(wanted, found, strict=True):
            worst = max(worst, float((one - other).abs().max() / one.abs().max()))
    # The gradients of this process alone are different, so gradients were exchanged.
    local = torch.autograd.grad(eager(batch).square().sum(), list(eager.parameters()))
    exchanged = step(calls[1], optimizers[1], batch, False)
    alone = max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(local, exchanged))
    sums = torch.stack([p.detach().double().sum() for p in ours.parameters()])
    others = [torch.empty_like(sums) for _ in range(count)]
    dist.all_gather(others, sums)
    node = calls[1](batch).grad_fn
    return {
        "case": case,
        "worst": worst,
        "alone": alone,
        "same": all(torch.equal(sums, other) for other in others),
        "compiled": [report.graph for report in dynamlir.compiles() if report.eager is None],
        "node": node.name() if node is not None else "",
        "fallbacks": dynamlir.counters()["fallbacks"],
    }


def main(rank: int, count: int, place: str) -> None:
    """Runs the cases."""
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=120)
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=count, timeout=timeout)
    try:
        for case in CASES:
            print(json.dumps(trained(case, rank, count)), flush=True)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])

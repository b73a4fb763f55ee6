"""Programs with sizes and numbers that depend on data, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

LENGTH = 24
COUNTS = (3, 0, 1, 2, LENGTH, 5, 7)
Program = Callable[..., Any]


def ones(count: int) -> torch.Tensor:
    """A tensor with this number of elements above zero, scattered."""
    found = torch.zeros(LENGTH)
    found[torch.randperm(LENGTH, generator=torch.Generator().manual_seed(count))[:count]] = 1.0
    return found * torch.linspace(0.5, 2.5, LENGTH)


def count(x: torch.Tensor) -> torch.Tensor:
    return (x > 0).sum()


def promised(x: torch.Tensor) -> int:
    """The number of elements above zero, with checks that bound it by the length."""
    n = int(count(x))
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return n


def chain(x: torch.Tensor) -> Any:
    found = (x > 0).nonzero()
    taken = x[found[:, 0]] * 2
    total = taken.sum()
    return taken + total, (taken > 2).nonzero() + 1, total


def matrix(x: torch.Tensor) -> Any:
    rows = torch.arange(5.0 * LENGTH).reshape(LENGTH, 5)[x > 0]
    return rows @ torch.ones(5, 3), rows.sum(0), torch.softmax(rows, -1), rows.mean(1, keepdim=True) * rows


def views(x: torch.Tensor) -> Any:
    halves = (x * 3).view(2, -1)
    taken = halves.reshape(-1)[x > 0]
    return halves[1], taken.view(-1, 1), x[2:] + 1, taken.unsqueeze(0)[0]


def beside(x: torch.Tensor) -> Any:
    some, others = x[x > 0], x[x <= 0]
    return torch.cat([some, others]) * 2, some.sum() + others.numel(), some.shape[0] + 2 * others.shape[0]


PROGRAMS: dict[str, Program] = {
    "nonzero": lambda x: (x > 0).nonzero() * 2,
    "nonzero of two dimensions": lambda x: (x.view(4, -1) > 0).nonzero() + 1,
    "nonzero as a tuple": lambda x: x[torch.where(x > 0)] + 1,
    "argwhere": lambda x: torch.argwhere(x > 0) + 1,
    "masked_select": lambda x: torch.masked_select(x * 3, x > 0).exp(),
    "a mask": lambda x: (x[x > 0] * 2).relu().cumsum(0),
    "a mask of two dimensions": lambda x: x.view(4, -1)[x.view(4, -1) > 0] + 1,
    "a mask among indices": lambda x: x.view(-1, 2)[x.view(-1, 2)[:, 0] > 0].sum(1),
    "unique": lambda x: torch.unique(x) * 2,
    "unique, and where": lambda x: torch.unique((x * 2).round(), return_inverse=True, return_counts=True),
    "unique, one after the other": lambda x: torch.unique_consecutive(x > 0, return_counts=True),
    "unique rows": lambda x: torch.unique((x * 2).long().view(-1, 2), dim=0, return_inverse=True),
    "unique columns": lambda x: torch.unique_consecutive((x * 2).long().view(2, -1), dim=1, return_counts=True),
    "bincount": lambda x: (torch.bincount((x * 2).long()) * 2, torch.bincount((x * 2).long(), minlength=5)),
    "repeat_interleave": lambda x: torch.repeat_interleave(x + 1, (x * 2).long()) * 2,
    "a chain": chain,
    "rows of a matrix": matrix,
    "views": views,
    "two sizes": beside,
    "four sizes": lambda x: torch.cat([x[x > bound] for bound in (0.0, 1.0, 1.5, 2.0)]) * 2,
    "the size": lambda x: ((x > 0).nonzero().shape[0], x + 1),
    "computed with sizes": lambda x: (x[x > 0].numel() * 2 + 1, x.mean()),
    "an int as a number": lambda x: (x * count(x).item() + count(x).item(), count(x).item()),
    "an int as a size": lambda x: torch.zeros(int(count(x))) + 1,
    "an int in a range": lambda x: torch.arange(count(x).item()) * 2,
    "an int in a slice": lambda x: x[: promised(x)] * 2,
    "an int among sizes": lambda x: x[:1].expand(promised(x)) + x.new_ones(promised(x)),
    "a list of ints": lambda x: (torch.stack([count(x), count(x) * 2]).tolist(), count(x).tolist(), x + 1),
    "a list of sizes": lambda x: torch.zeros([n + 1 for n in torch.stack([count(x), count(x) * 2]).tolist()]),
    "a float": lambda x: x * x.sum().item(),
}


def same(found: Any, wanted: Any) -> None:
    """Checks for the same values, layouts and types."""
    if isinstance(wanted, (tuple, list)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for one, other in zip(found, wanted):
            same(one, other)
    elif isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted, equal_nan=True)
        assert (found.stride(), found._is_view()) == (wanted.stride(), wanted._is_view())
    else:
        assert type(found) is type(wanted) and found == wanted

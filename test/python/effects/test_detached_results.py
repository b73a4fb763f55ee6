"""Results that show all of an otherwise unreachable tensor: in eager, ``detach()`` of a newly created tensor."""

from __future__ import annotations

from collections.abc import Callable

import dynamlir
import pytest
import torch
from torch import Tensor

FUNCTIONS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "zeros": lambda x: (torch.zeros_like(x),),
    "filled": lambda x: (torch.full_like(x, 3), torch.ones_like(x)),
    "detached": lambda x: ((x + 1).detach(),),
    "beside its base": lambda x: (lambda y: (y, y.detach()))(x + 1),
    "after its base": lambda x: (lambda y: (y.detach(), y))(x + 1),
    "twice": lambda x: (lambda y: (y.detach(), y.detach()))(x + 1),
    "transposed": lambda x: (lambda y: (y.detach(), y.detach().t()))(x + 1),
    "a view of it": lambda x: (lambda y: (y.view(-1), y.detach()))(x + 1),
    "a part": lambda x: ((x + 1).detach()[1:],),
    "written": lambda x: (lambda y: (y.mul_(2), y.detach().add_(1)))(x + 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_results_are(name: str, requires_grad: bool) -> None:
    function = FUNCTIONS[name]
    x = torch.randn(3, 4, requires_grad=requires_grad)
    compiled = dynamlir.compile(function)
    for _ in range(2):
        found, wanted = compiled(x), function(x)
        for ours, eagers in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, eagers)
            assert ours.stride() == eagers.stride()
            assert ours._version == eagers._version
            assert ours.requires_grad == eagers.requires_grad
            assert (ours._base is None) == (eagers._base is None)
        shared = [[a.data_ptr() == b.data_ptr() for a in made for b in made] for made in (found, wanted)]
        assert shared[0] == shared[1]
        for made in (found, wanted):
            with torch.no_grad():
                made[-1].add_(1)
        torch.testing.assert_close(found, wanted)

"""`torch.func.jvp`, and so `torch.func.jacfwd`: forward-mode differentiation, performed by operations as they run.

The capture traces into `_jvp_with_argnums` instead of torch's function of that name. Torch keeps the open levels in
global variables. Code that reads or sets them becomes a node of the graph through `_Torchs`, which guards do not
inspect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import eager_transforms
from torch.autograd import forward_ad
from torch.utils._pytree import tree_flatten, tree_unflatten


def abandon(levels: int) -> None:
    """Ends all levels above this many, once the transforms themselves have ended."""
    if levels < 1 <= eager_transforms.JVP_NESTING:
        forward_ad.exit_dual_level()
    eager_transforms.JVP_NESTING = levels


class _Torchs:
    make_dual = staticmethod(forward_ad.make_dual)
    unpack_dual = staticmethod(forward_ad.unpack_dual)

    @staticmethod
    def enter() -> int:
        level = eager_transforms.enter_jvp_nesting()
        if eager_transforms.JVP_NESTING == 1:
            forward_ad.enter_dual_level()
        return level

    @staticmethod
    def leave() -> None:
        if eager_transforms.JVP_NESTING == 1:
            forward_ad.exit_dual_level()
        eager_transforms.exit_jvp_nesting()


def enter() -> int:
    """Begins a level; functorch's first level is also one of autograd's."""
    return _Torchs.enter()


def leave() -> None:
    """Ends the level."""
    _Torchs.leave()


def make_dual(primal: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that carries a tangent."""
    return _Torchs.make_dual(primal, tangent)


def unpack_dual(dual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns a tensor and the tangent that it carries."""
    primal, tangent = _Torchs.unpack_dual(dual)
    return primal, tangent


def _unpacked(dual: Any, strict: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(dual, torch.Tensor):
        raise RuntimeError(
            f"{eager_transforms.jvp_str}: expected f(*args) to return only tensors, got unsupported type {type(dual)}"
        )
    primal, tangent = unpack_dual(dual)
    if tangent is None:
        if strict:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): "
                "The output of f is independent of the inputs. This is not allowed with strict=True."
            )
        tangent = torch.zeros_like(primal)
    return primal, tangent


def _jvp_with_argnums(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    argnums: int | tuple[int, ...] | None,
    *,
    strict: bool = False,
    has_aux: bool,
) -> Any:
    """Implements `torch.func.jvp` and `torch.func.jacfwd`."""
    name = eager_transforms.jvp_str
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    given = primals if argnums is None else eager_transforms._slice_argnums(primals, argnums)
    flat_primals, spec = tree_flatten(given)
    flat_tangents, tangents_spec = tree_flatten(tangents)
    if spec != tangents_spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and tangents with structure "
            f"{tangents_spec}"
        )
    eager_transforms.assert_non_empty_list_of_tensors(flat_primals, name, "primals")
    eager_transforms.assert_non_empty_list_of_tensors(flat_tangents, name, "tangents")
    level = enter()
    try:
        with forward_ad._set_fwd_grad_enabled(True):
            duals = tree_unflatten([make_dual(*pair) for pair in zip(flat_primals, flat_tangents)], spec)
            if argnums is not None:
                primals = eager_transforms._wrap_all_tensors(primals, level)
                duals = eager_transforms._replace_args(primals, duals, argnums)
            result = func(*duals)
            aux: Any = None
            if has_aux:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
                    )
                result, aux = result
                aux = eager_transforms._undo_create_differentiable(aux, level)
            flat, result_spec = tree_flatten(result)
            eager_transforms.assert_non_empty_tensor_output(flat, name)
            unpacked = [_unpacked(dual, strict) for dual in flat]

            def outside(which: int) -> Any:
                own = [eager_transforms._undo_create_differentiable(pair[which], level) for pair in unpacked]
                return tree_unflatten(own, result_spec)

            return (outside(0), outside(1), aux) if has_aux else (outside(0), outside(1))
    finally:
        leave()

"""`torch.func.grad` and `torch.func.vjp` by one level of torch's autograd, instead of functorch's nested levels.

Within other transforms, such as `torch.func.vmap`, torch's own functions are traced into: there autograd is one of
several levels.

The capture traces into these instead of torch's functions of the same names; the messages are torch's. Each
differentiates with respect to its own tensors, so that outer tensors are unaffected. The results of a level have only
the history of outer tensors, which `settled` ensures.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch import eager_transforms
from torch._functorch.eager_transforms import assert_non_empty_tensor_output, treespec_pprint
from torch._functorch.vmap import doesnt_support_saved_tensors_hooks
from torch.utils._pytree import tree_flatten, tree_unflatten

from .. import fake_histories
from .forward_mode import _jvp_with_argnums as _jvp_with_argnums


def begin() -> None:
    """Begins a transform, see `fake_histories.State`; does nothing outside of a capture."""


def end() -> None:
    """Ends a transform."""


def leaf(value: torch.Tensor) -> torch.Tensor:
    """Returns a new tensor to differentiate with respect to, with the history of this one."""
    if value.requires_grad:
        return value.view_as(value)
    return value.detach().requires_grad_()


def settled(values: Sequence[Any], leaves: Sequence[Any], keep: bool) -> list[Any]:
    """Detaches the values; with ``keep``, only those whose history leads to nothing but these leaves."""
    _settled.update((id(tensor), tensor) for tensor in leaves if isinstance(tensor, torch.Tensor))
    return [
        value.detach() if isinstance(value, torch.Tensor) and not (keep and _comes_from_elsewhere(value)) else value
        for value in values
    ]


_settled: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()
"""The leaves of levels that have been left, by id."""


def is_leaf(tensor: torch.Tensor) -> bool:
    """Returns true for a leaf of such a level."""
    return _settled.get(id(tensor)) is tensor


def _comes_from_elsewhere(tensor: torch.Tensor) -> bool:
    """Returns true if the tensor, or one beneath it, has a history that leads to anything other than such leaves.

    Within `torch.vmap` a tensor reports that it requires no gradient; the one beneath it has the history.
    """
    return any(map(_leads_elsewhere, fake_histories.layers(tensor)))


def _leads_elsewhere(tensor: torch.Tensor) -> bool:
    if tensor.grad_fn is None:
        return tensor.requires_grad and _settled.get(id(tensor)) is not tensor
    seen: set[Any] = set()
    open_: list[Any] = [tensor.grad_fn]
    while open_:
        node = open_.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        following = [further for further, _ in node.next_functions if further is not None]
        if variable is not None and _settled.get(id(variable)) is not variable:
            return True
        if variable is None and not following and not isinstance(node, torch.autograd.function.BackwardCFunction):
            return True
        open_ += following
    return False


def _gradients(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    tangents: Sequence[torch.Tensor] | None,
    retain: bool | None = None,
    create: bool = True,
) -> list[torch.Tensor]:
    kept = [at for at, output in enumerate(outputs) if output.requires_grad]
    if not kept:
        return [torch.zeros_like(tensor) for tensor in inputs]
    given = None if tangents is None else [tangents[at] for at in kept]
    found = torch.autograd.grad([outputs[at] for at in kept], inputs, given, retain, create, allow_unused=True)
    return [torch.zeros_like(tensor) if own is None else own for own, tensor in zip(found, inputs)]


def _autograd_grad(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_outputs: Sequence[torch.Tensor] | None = None,
    retain_graph: bool = False,
    create_graph: bool = True,
) -> tuple[torch.Tensor, ...]:
    """Replaces `torch._functorch.eager_transforms._autograd_grad`, within other transforms."""
    return tuple(_gradients(outputs, inputs, grad_outputs, retain_graph, create_graph))


def _settle(tree: Any, leaves: Sequence[Any], keep: bool) -> Any:
    flat, spec = tree_flatten(tree)
    for value in flat:
        if not isinstance(value, torch.Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(value)}")
    return tree_unflatten(settled(flat, leaves, keep), spec)


def _leaves_of(tree: Any) -> Any:
    flat, spec = tree_flatten(tree)
    for value in flat:
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
    return tree_unflatten([leaf(value) for value in flat], spec)


def _with_leaves(args: Sequence[Any], argnums: int | tuple[int, ...] | None) -> tuple[list[Any], Any]:
    """Returns the arguments with the differentiated ones replaced by leaves, and these leaves."""
    given = list(args)
    if argnums is None:
        given = [_leaves_of(value) for value in given]
        return given, tuple(given)
    eager_transforms._slice_argnums(tuple(args), argnums)  # for its error checks
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    for at in places:
        given[at] = _leaves_of(given[at])
    return given, tuple(given[at] for at in places) if isinstance(argnums, tuple) else given[argnums]


_grad_and_value_of_torch = inspect.unwrap(eager_transforms.grad_and_value_impl)
_vjp_of_torch = inspect.unwrap(eager_transforms._vjp_with_argnums)
"""Without the context that forbids hooks for saved tensors: see `refuse_saved_tensors_hooks`."""


def refuse_saved_tensors_hooks() -> None:
    """Raises torch's error if hooks for saved tensors are set.

    Querying them ends the capture if there are any. The rest of the frame then runs as plain Python, which would not go
    through torch's own refusal.
    """
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        doesnt_support_saved_tensors_hooks(tuple)()


def grad_and_value_impl(
    func: Callable[..., Any], argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Implements `torch.func.grad` and `torch.func.grad_and_value`."""
    if torch._C._are_functorch_transforms_active():
        refuse_saved_tensors_hooks()
        return _grad_and_value_of_torch(func, argnums, has_aux, args, kwargs)
    begin()
    try:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)
    finally:
        end()


def _grad_and_value(
    func: Callable[..., Any], argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    keep = torch.is_grad_enabled()
    with torch.enable_grad():
        given, chosen = _with_leaves(args, argnums)
        output, aux = func(*given, **kwargs), None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(
                    "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            output, aux = output
        if not isinstance(output, torch.Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        leaves, spec = tree_flatten(chosen)
        gradients = settled(_gradients([output], leaves, None), leaves, keep)
        (value,) = settled([output], leaves, keep)
        if has_aux:
            return tree_unflatten(gradients, spec), (value, _settle(aux, leaves, keep))
        return tree_unflatten(gradients, spec), value


def _vjp_with_argnums(func: Callable[..., Any], *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    """Implements `torch.func.vjp`."""
    if torch._C._are_functorch_transforms_active():
        refuse_saved_tensors_hooks()
        return _vjp_of_torch(func, *primals, argnums=argnums, has_aux=has_aux)
    begin()
    try:
        return _vjp(func, primals, argnums, has_aux)
    finally:
        end()


def _vjp(func: Callable[..., Any], primals: tuple[Any, ...], argnums: Any, has_aux: bool) -> Any:
    keep = torch.is_grad_enabled()
    aux = None
    with torch.enable_grad():
        given, chosen = _with_leaves(primals, argnums)
        output = func(*given)
        leaves, spec = tree_flatten(chosen)
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(
                    "vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            output, aux = output
            aux = _settle(aux, leaves, keep)
        outputs, output_spec = tree_flatten(output)
        assert_non_empty_tensor_output(outputs, "vjp(f, *primals)")
        results = tree_unflatten(settled(outputs, leaves, keep), output_spec)
        for one in outputs:
            if not (one.is_floating_point() or one.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
                    f"with dtype {one.dtype}"
                )

    def wrapper(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        keep = torch.is_grad_enabled() if create_graph is None else create_graph
        flat, cotangents_spec = tree_flatten(cotangents)
        if output_spec != cotangents_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {treespec_pprint(cotangents_spec)}, "
                f"primal output: {treespec_pprint(output_spec)}"
            )
        with torch.enable_grad():
            return tree_unflatten(settled(_gradients(outputs, leaves, flat), leaves, keep), spec)

    return (results, wrapper, aux) if has_aux else (results, wrapper)

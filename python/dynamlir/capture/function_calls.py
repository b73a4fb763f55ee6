"""The capture of a call of a `torch.autograd.Function`: the interpreter runs the user's code, this module the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import function as torchs

from .. import autograd_functions, fake_histories
from ..reasons import Fallback
from ..recorder import OpRecorder


class FunctionContext:
    """The context in which ``forward`` of a `torch.autograd.Function` saves values for its ``backward``.

    Its attributes have the names of torch's own. Torch's other attributes are not available to compiled code.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._dynamlir_saved: tuple[torch.Tensor | None, ...] = ()

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        """Saves tensors for backward."""
        self._dynamlir_saved = tensors

    @property
    def saved_tensors(self) -> tuple[torch.Tensor | None, ...]:
        """The saved tensors. A backward that reads them can run only once, regardless of how it uses them."""
        self._dynamlir_asked = True
        return self._dynamlir_saved

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        """Saves tensors for forward mode."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: torch.Tensor) -> None:
        """Records the inputs that were written."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None:
        """Records the outputs that have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Sets whether missing gradients become zeros."""
        self.materialize_grads = value

    # A function that ends every capture: these attributes read or change the graph that torch builds.
    metadata = next_functions = property(torch.autograd.backward)
    name = register_hook = register_prehook = staticmethod(torch.autograd.backward)


class Application:
    """One call. It is created under the caller's grad mode, which is then off until `leave`."""

    def __init__(self, recorder: OpRecorder, arguments: Sequence[Any]) -> None:
        needs = tuple(isinstance(value, torch.Tensor) and value.requires_grad for value in arguments)
        self.context = FunctionContext(needs)
        self._recorder = recorder
        self._call = autograd_functions.Call(recorder, arguments)
        self._grad = torch.is_grad_enabled()
        self._once = False
        self.is_differentiated = self._call.is_differentiated
        """True if the results get a history."""
        torch._C._set_grad_enabled(False)

    def leave(self) -> None:
        """Restores grad mode."""
        torch._C._set_grad_enabled(self._grad)

    def mark_views(self, result: Any) -> None:
        """Marks the views returned by ``forward`` as created by a custom function, where nothing gets a history."""
        for leaf in result if isinstance(result, tuple) else (result,):
            if isinstance(leaf, torch.Tensor):
                fake_histories.mark_made_in_function(leaf)

    def results(self, result: Any) -> list[torch.Tensor | None] | None:
        """Gives forward's results their history. Returns backward's arguments; None if nothing is differentiable."""
        context, location = vars(self.context), self._recorder.location
        context.pop("_dynamlir_asked", None)  # set by forward
        if "dirty_tensors" in context:
            raise Fallback("autograd", "mark_dirty of a torch.autograd.Function", location)
        for kept in (context.get("_dynamlir_saved", ()), context.get("non_differentiable", ())):
            if not all(tensor is None or isinstance(tensor, torch.Tensor) for tensor in kept):
                raise Fallback("autograd", "a torch.autograd.Function saves what is no tensor", location)
        leaves = result if isinstance(result, tuple) else (result,)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not tensors:
            return None
        left_out = context.get("non_differentiable", ())
        materialize = context.get("materialize_grads", True)
        self._recorder.expected = True  # type: ignore[attr-defined]
        try:
            tangents = iter(self._call.results(tensors, left_out, materialize))
            given = [next(tangents) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        finally:
            self._recorder.expected = False  # type: ignore[attr-defined]
        return given if any(tensor.requires_grad for tensor in tensors) else None

    def is_once(self, backward: Any) -> bool:
        """Returns true if ``backward`` was wrapped by `once_differentiable`: the wrapped function is to be called."""
        code = getattr(backward, "__code__", None)
        self._once = code is not None and code in torchs.once_differentiable.__code__.co_consts
        return self._once

    def derivative(self, gradients: Any) -> None:
        """Takes the result of ``backward``."""
        self._recorder.expected = True  # type: ignore[attr-defined]
        try:
            self._call.derivative(gradients, self._once, keeps="_dynamlir_asked" in vars(self.context))
        finally:
            self._recorder.expected = False  # type: ignore[attr-defined]

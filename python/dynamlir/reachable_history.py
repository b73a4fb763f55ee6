"""The tensors to which the history of gradients leads, though no gradient comes back from there.

The gradient of a frozen convolution is computed from its tangent and its weight, but in eager its history also leads to
the input, which the formula takes. So it requires a gradient, which a penalty on it relies on, and the gradient that
comes back is None or zeros. Torch is queried for this, on fakes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch

from . import interruptions, run_by_torch
from .fakes import quiet_fakes
from .recording import Recording
from .tracing import fresh_fake_mode

Reached = dict[int, bool]
"""Inputs and tangents by their numbers; the value is true if zeros come back instead of None."""


class Unknown(Exception):
    """Fakes cannot determine where the gradients lead; carries the reason."""


class Reaching:
    """The tensors to which the gradients of a recording lead, depending on which tensors require a gradient."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._found: dict[tuple[int, ...], dict[int, Reached] | str] = {}
        self._lock = threading.Lock()

    def complete(
        self,
        gradients: list[torch.Tensor],
        wanted: Sequence[tuple[int | None, bool]],
        known: dict[int, torch.Tensor],
        orders: Sequence[Sequence[int]],
        given: Sequence[int] = (),
    ) -> None:
        """Gives gradients without a history the one that they have in eager. ``wanted`` has what each is a gradient of,
        and whether it counts. ``known`` are the inputs, the tangents, which ``orders`` names, and the results at the
        indices ``given``. Raises `Unknown` if the history cannot be determined."""
        without = [
            (at, number)
            for at, (gradient, (number, asked)) in enumerate(zip(gradients, wanted))
            if asked and number is not None and not gradient.requires_grad
        ]
        requiring = tuple(sorted(number for number, tensor in known.items() if tensor.requires_grad))
        if not without or not requiring or self._recording.device not in (None, torch.device("cpu")):
            return
        with self._lock:
            found = self._found.get(requiring)
            if found is None:
                found = self._found[requiring] = _find(self._recording, known, orders, given)
        if isinstance(found, str):
            raise Unknown(found)
        for at, number in without:
            if leads := found.get(number):
                _Leads.apply([gradients[at]], list(leads.values()), *map(known.get, leads))


def _find(
    recording: Recording, known: dict[int, torch.Tensor], orders: Sequence[Sequence[int]], given: Sequence[int]
) -> dict[int, Reached] | str:
    """Returns the inputs, tangents and results that each gradient leads to, by the number of the tensor it belongs to;
    or the reason that this is unknown, if fakes refuse to compute gradients."""
    try:
        with quiet_fakes(), fresh_fake_mode():
            fakes = {number: _fake(tensor) for number, tensor in known.items()}
            leaves = {number: fake for number, fake in fakes.items() if fake.requires_grad}
            gradients = run_by_torch.gradients(recording, fakes, orders, given)
            return {number: _leads_to(gradient, leaves) for number, gradient in gradients.items()}
    except Exception as error:
        interruptions.pass_on(error)
        return f"{type(error).__name__}: {error}"


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return made.requires_grad_(tensor.requires_grad)


def _leads_to(gradient: torch.Tensor, leaves: dict[int, torch.Tensor]) -> Reached:
    if not gradient.requires_grad:
        return {}
    tangent = torch.ones_like(gradient)
    found = torch.autograd.grad(gradient, list(leaves.values()), tangent, retain_graph=True, allow_unused=True)
    return {number: given is not None for number, given in zip(leaves, found)}


class _Leads(torch.autograd.Function):
    """Gives a tensor a history through which None, or zeros, come back."""

    @staticmethod
    def forward(ctx: Any, results: list[torch.Tensor], zeros: list[bool], *inputs: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        ctx.zeros = [tensor.new_zeros(()).expand(tensor.shape) if own else None for own, tensor in zip(zeros, inputs)]
        return results[0]

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor) -> Any:
        return None, None, *(None if zero is None else zero.clone() for zero in ctx.zeros)

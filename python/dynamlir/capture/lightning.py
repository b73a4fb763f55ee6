"""The steps of a ``LightningModule``, which Lightning's trainer calls instead of the module.

They are compiled with the module, as with ``trainer.fit(torch.compile(model))``.
"""

from __future__ import annotations

from typing import Any

STEPS = ("training_step", "validation_step", "test_step", "predict_step")
_HOMES = {"lightning.pytorch.core.module", "pytorch_lightning.core.module"}


def steps(kind: type) -> list[str]:
    """Returns the steps that a class of modules has; none for a class that is not Lightning's."""
    bases = kind.__mro__
    if not any(base.__name__ == "LightningModule" and base.__module__ in _HOMES for base in bases):
        return []
    homes = {name: next((base for base in bases if name in vars(base)), None) for name in STEPS}
    return [name for name, base in homes.items() if base is not None and base.__module__ not in _HOMES]


class Step:
    """A compiled step of a view, unless the module has its own attribute of this name."""

    def __init__(self, compiled: Any, view: Any, kind: type, name: str) -> None:
        self._compiled, self._view, self._kind, self._name = compiled, view, kind, name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is not None and instance is self._view():
            return self._compiled
        own: Any = getattr(self._kind, self._name)
        return own if instance is None else own.__get__(instance, owner)

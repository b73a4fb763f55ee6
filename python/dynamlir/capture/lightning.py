"""The steps of a ``LightningModule``: what Lightning's trainer calls is these, not the module.

As behind ``trainer.fit(torch.compile(model))``, they are compiled with the module.
"""

from __future__ import annotations

from typing import Any

STEPS = ("training_step", "validation_step", "test_step", "predict_step")
_HOMES = {"lightning.pytorch.core.module", "pytorch_lightning.core.module"}


def steps(kind: type) -> list[str]:
    """The steps that a class of modules has; none for one that is not Lightning's."""
    bases = kind.__mro__
    if not any(base.__name__ == "LightningModule" and base.__module__ in _HOMES for base in bases):
        return []
    homes = {name: next((base for base in bases if name in vars(base)), None) for name in STEPS}
    return [name for name, base in homes.items() if base is not None and base.__module__ not in _HOMES]


class Step:
    """A compiled step of a view, unless the module has something else of this name."""

    def __init__(self, compiled: Any, view: Any, kind: type, name: str) -> None:
        self._compiled, self._view, self._kind, self._name = compiled, view, kind, name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is not None and instance is self._view():
            return self._compiled
        own: Any = getattr(self._kind, self._name)
        return own if instance is None else own.__get__(instance, owner)

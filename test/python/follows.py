"""A compiled function that is called after changes, and objects for it to read: shared by the tests of capture."""

from __future__ import annotations

import dynamlir
import torch

X = torch.arange(6.0).reshape(2, 3)


class Follows:
    """Calls a compiled function after changes; each call must give what plain Python gives."""

    def __init__(self, function):
        self.function = function
        self.compiled = dynamlir.compile(function, backend="python", fullgraph=True)

    def entries(self):
        """Checks two calls and returns the current number of entries in the cache."""
        for _ in range(2):
            expected = self.function(X)
            torch.testing.assert_close(self.compiled(X), expected)
        return len(self.compiled._cache)


class Settings:
    """Like the configurations of transformers, which the models' forward deep-copies."""

    def __init__(self):
        self.layers = 2
        self.names = {"kinds": ["full", "full"]}

    def shown(self):
        """For a bound method."""

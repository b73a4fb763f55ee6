"""A Python function that replaces `builtins.__import__` sees its imports, and takes no part in a capture."""

from __future__ import annotations

import forked
import pytest

FUNCTION = """
def importer(name, globals=None, locals=None, fromlist=(), level=0):
    seen.append(name)
    return original(name, globals, locals, fromlist, level)
"""
METHOD = """
class Importer:
    def load(self, *args, **kwargs):
        seen.append(args[0])
        return original(*args, **kwargs)

importer = Importer().load
"""
PROGRAM = """
import builtins, collections
import torch
import dynamlir

original, seen = builtins.__import__, []
{importer}
builtins.__import__ = importer


def whole(x, scale):
    pair = collections.deque([x, x * scale])
    by_name = collections.OrderedDict(first=pair[0].sum(), second=pair[1])
    return by_name["first"] + by_name["second"], sorted([scale, 1])

def with_an_import(x, scale):
    import math
    return x * math.floor(scale + 0.5)

x = torch.arange(3.0)
compiled = dynamlir.compile(whole, fullgraph=True)
for scale in (1.5, 1.5):
    begun = len(seen)
    found, imported = compiled(x, scale), seen[begun:]
    expected = whole(x, scale)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1] == expected[1]
assert not imported, imported  # the call that the cache answers imports nothing
assert not dynamlir.fallbacks(), dynamlir.fallbacks()

dynamlir.config.on_plain = "ignore"
compiled = dynamlir.compile(with_an_import)
compiled(x, 2.0)
for _ in range(2):
    begun = len(seen)
    found, imported = compiled(x, 2.0), seen[begun:]
    assert torch.equal(found, x * 2)
    assert imported == ["math"], imported
"""


@pytest.mark.unaudited
@pytest.mark.parametrize("importer", [FUNCTION, METHOD], ids=["function", "method"])
def test_the_first_capture_does_not_wait_for_itself(importer):
    done = forked.python(PROGRAM.format(importer=importer), timeout=120)
    assert done.returncode == 0, done.stderr

"""What a capture is known to touch, by expression and with the reason. Each is an expected failure, until it passes."""

from __future__ import annotations

_LRU = "a function under functools.lru_cache is really called by the capture, and by each check"
_OPERATOR = "operator's in-place functions, and its delitem, are taken for reads"
_GENERATOR = "methods of generators are taken for reads"
_BYTES = "in-place methods of bytearray are taken for reads"
_INIT = "__init__ called by name on what existed is taken for a read"
_ITERATOR = "__next__ and __setstate__ called by name are taken for reads"

TOUCHED = {
    "remembered(5)": _LRU,
    "cached(77)": _LRU,
    "GENERATOR.close()": _GENERATOR,
    "GENERATOR.send(None)": _GENERATOR,
    "GENERATOR.throw(KeyError)": _GENERATOR,
    "GENERATOR.__next__()": _GENERATOR,
    "operator.iadd(LIST, [9])": _OPERATOR,
    "operator.imul(LIST, 2)": _OPERATOR,
    "operator.ior(SET, {9})": _OPERATOR,
    "operator.isub(SET, {8})": _OPERATOR,
    "operator.iand(SET, {8})": _OPERATOR,
    "operator.ixor(SET, {8})": _OPERATOR,
    'operator.ior(TABLE, {"e": 1})': _OPERATOR,
    "operator.delitem(LIST, 0)": _OPERATOR,
    'operator.delitem(TABLE, "a")': _OPERATOR,
    'BYTES.__iadd__(b"c")': _BYTES,
    "BYTES.__imul__(2)": _BYTES,
    'BYTES.__init__(b"c")': _INIT,
    "PARTIAL.__setstate__((helper, (1,), {}, None))": "partial.__setstate__ is taken for a read",
    "ERROR.__init__(2)": _INIT,
    "PROPERTY.__init__(len)": _INIT,
    "ITERATOR.__next__()": _ITERATOR,
    "ITERATOR.__setstate__(2)": _ITERATOR,
    "REVERSED.__next__()": _ITERATOR,
    "RANGE_ITERATOR.__setstate__(2)": _ITERATOR,
    "ZIPPED.__next__()": _ITERATOR,
    "ENUMERATED.__next__()": _ITERATOR,
    "MAPPED.__next__()": _ITERATOR,
}
"""Writes that a capture does itself."""

_DELETED = "an attribute that is not there is deleted without an error"

UNLIKE = {
    'delattr(CONFIG, "nothing")': _DELETED,
    'object.__delattr__(CONFIG, "width")': _DELETED,
    "del CONFIG.width": _DELETED,
    "del HOOKED.drop": _DELETED,
}
"""Writes whose calls come to something else than plain Python's."""

OFTEN = {
    "LIST[ONE]",  # `__index__` twice
    # A capture's own look-ups go through the `__getattribute__` of a metaclass.
    "HOLDER.watched.k",
    "Watched.k",
    "2 if isinstance(3, Watched) else 3",
    "2 if isinstance(4, Watched) else 3",
}
"""Reads for which a capture runs methods more often than plain Python does."""

"""Functions grown from a grammar, run by CPython and by dynamlir: what they return, print, raise and change agrees."""

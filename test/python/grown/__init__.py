"""Functions grown from a grammar, run by CPython and by dynamlir: results, output, exceptions and changes agree."""

"""Runs kernels on generated numbers and writes the resulting memory, on the machine of the interpreter.

    run_kernels.py FOLDER TARGET OUT

Each folder in FOLDER has one for TARGET, with the stage at which kernels have their arguments, and the library of their
code.
"""

import ctypes
import json
import re
import struct
import sys
from pathlib import Path

FORMATS = {"f64": "d", "f32": "f", "f16": "e", "bf16": "H", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "ui8": "B"}
FORMATS |= {"i1": "?"}
KERNEL = re.compile(r"func\.func @([\w$.]+)\((.*?)\) attributes \{[^\n]*dynamo\.kernel")
MEMORY = re.compile(r"memref<((?:\d+x)*)(\w+)(?:, strided<\[([-\d, ]*)\][^>]*>)?>")
# The number of guard bytes after the memory that a kernel may write.
FENCE = 256


class Numbers:
    """Numbers between 0 and 1, the same on each machine."""

    def __init__(self) -> None:
        self._state = 7

    def next(self) -> float:
        """Returns the next one."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) / 2**31


class Memory:
    """One argument of a kernel, filled."""

    def __init__(self, sizes: str, kind: str, strides: str | None, numbers: Numbers) -> None:
        extents = [int(size) for size in sizes.split("x") if size]
        self._kind, self._format = kind, FORMATS[kind]
        if strides is None:
            self._count, before = 1, 0
            for extent in extents:
                self._count *= extent
        else:
            reach = [(extent - 1) * int(stride) for extent, stride in zip(extents, strides.split(","))]
            # With negative steps, other elements come before the first one.
            self._count, before = 1 + sum(map(abs, reach)), -sum(step for step in reach if step < 0)
        values = [self._value(numbers.next()) for _ in range(self._count)]
        self._bytes = bytearray(struct.pack(f"{self._count}{self._format}", *values)) + bytearray(FENCE)
        start = (ctypes.c_char * len(self._bytes)).from_buffer(self._bytes)
        self.argument = ctypes.byref(start, before * struct.calcsize(self._format))

    def _value(self, number: float) -> float | int | bool:
        real = number * 8 - 4
        if self._kind == "bf16":
            return struct.unpack("<I", struct.pack("<f", real))[0] >> 16
        if self._kind == "i1":
            return number > 0.5
        return real if self._kind.startswith("f") else int(number * 40)

    def read(self) -> list[float | int]:
        """Returns its contents."""
        if any(self._bytes[-FENCE:]):
            raise AssertionError("a kernel writes past the end of its memory")
        found = struct.unpack(f"{self._count}{self._format}", self._bytes[:-FENCE])
        if self._kind == "bf16":
            return [struct.unpack("<f", struct.pack("<I", value << 16))[0] for value in found]
        return list(found)


def main() -> None:
    """Runs all kernels."""
    folder, target, out = sys.argv[1:]
    found = {}
    for stage in sorted(Path(folder).glob(f"*/{target}/04-planned.mlir")):
        library = ctypes.CDLL(str(stage.with_name("kernels.so")))
        for kernel in KERNEL.finditer(stage.read_text()):
            numbers = Numbers()
            memory = [Memory(*one.groups(), numbers) for one in MEMORY.finditer(kernel[2])]
            getattr(library, kernel[1])(*(one.argument for one in memory))
            found[f"{stage.parts[-3]}/{kernel[1]}"] = [one.read() for one in memory]
    Path(out).write_text(json.dumps(found))


main()

#!/usr/bin/env python3
"""Dumps code objects as JSON for crates/bytecode, together with this interpreter's own data about them.

Usage: PYTHON scripts/bytecode_dump.py [--stdlib] [--facts] [FILE...]

One line per file: its path and its module's code object, with nested ones inside. --stdlib takes every module of the
standard library, its tests included. --facts adds the data for the checks: positions, names of slots, `dis` text.
"""

import contextlib
import dis
import io
import json
import pathlib
import re
import struct
import sys
import sysconfig
import types
import warnings


def bits(value):
    """Returns a float's 64 bits, in hexadecimal: JSON does not reliably have NaN or -0.0."""
    return struct.pack(">d", value).hex()


def dump_const(value, facts):
    """Returns a constant; one that JSON lacks becomes an object with one key that names its kind."""
    match value:
        case None | bool():
            return value
        case int():
            return {"int": hex(value)}
        case float():
            return {"float": bits(value)}
        case complex():
            return {"complex": [bits(value.real), bits(value.imag)]}
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                return {"points": [ord(character) for character in value]}
            return value
        case bytes():
            return {"bytes": value.hex()}
        case tuple():
            return {"tuple": [dump_const(item, facts) for item in value]}
        case frozenset():
            return {"frozenset": [dump_const(item, facts) for item in value]}
        case slice():
            return {"slice": [dump_const(part, facts) for part in (value.start, value.stop, value.step)]}
        case types.CodeType():
            return {"code": dump_code(value, facts)}
        case _ if value is ...:
            return {"ellipsis": True}
    raise TypeError(type(value))


def dis_text(code):
    """Returns the output of `dis` for this code object alone, without addresses."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        dis.disassemble(code)
    return re.sub(r" at 0x[0-9a-fA-F]+, file ", ", file ", out.getvalue())


def slot_names(code):
    """Returns the names of a frame's slots, as the interpreter knows them."""
    names = []
    with contextlib.suppress(IndexError):
        while True:
            names.append(code._varname_from_oparg(len(names)))
    return names


def dump_code(code, facts):
    """Returns a code object's attributes."""
    dump = {
        name: getattr(code, "co_" + name)
        for name in (
            *("name", "qualname", "filename", "firstlineno", "flags", "argcount", "posonlyargcount"),
            *("kwonlyargcount", "stacksize", "names", "varnames", "cellvars", "freevars"),
        )
    }
    for name in ("code", "exceptiontable", "linetable"):
        dump[name] = getattr(code, "co_" + name).hex()
    dump["consts"] = [dump_const(value, facts) for value in code.co_consts]
    if facts:
        dump["facts"] = {"positions": list(code.co_positions()), "slots": slot_names(code)}
        if sys.version_info < (3, 13):
            dump["facts"]["dis"] = dis_text(code)
    return dump


def dump_file(path, name, facts):
    """Returns a file's module, as a line of JSON."""
    source = pathlib.Path(path).read_bytes()
    code = compile(source, name, "exec", dont_inherit=True)
    return json.dumps({"path": name, "code": dump_code(code, facts)}, separators=(",", ":"))


def stdlib():
    """Returns all modules of the standard library that compile."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts)


def main():
    """Writes a line for each file."""
    warnings.simplefilter("ignore")
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(20_000)
    arguments = sys.argv[1:]
    files = [pathlib.Path(argument) for argument in arguments if not argument.startswith("--")]
    if "--stdlib" in arguments:
        files += stdlib()
    if not files:
        sys.exit(__doc__)
    for path in files:
        try:
            print(dump_file(path, path.name, "--facts" in arguments))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            print(f"skipped {path}", file=sys.stderr)


if __name__ == "__main__":
    main()

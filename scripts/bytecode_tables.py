#!/usr/bin/env python3
"""Writes the opcode tables of crates/bytecode from the interpreters they describe.

Usage: scripts/bytecode_tables.py [--check] PYTHON3.11 PYTHON3.12 PYTHON3.13

Each interpreter is asked for its own `opcode` module: numbers, inline cache entries, kinds of operands. Left out are
pseudo-instructions, specialised and instrumented forms (`code.co_code` never holds them) and what only CPython's own
trampolines use. With --check nothing is written; a difference is an error.
"""

import json
import pathlib
import subprocess
import sys

ASK = r"""
import json, opcode, sys
have_argument = opcode.HAVE_ARGUMENT
pseudo = set(getattr(opcode, "_pseudo_ops", ())) | {n for n, c in opcode.opmap.items() if c > 255}
caches = opcode._inline_cache_entries
def cache_entries(name, code):
    return caches.get(name, 0) if isinstance(caches, dict) else caches[code]
def takes_argument(code):
    return code in opcode.hasarg if hasattr(opcode, "hasarg") else code >= have_argument
def operand(name, code):
    if code in opcode.hasjrel:
        return "Backward" if "BACKWARD" in name else "Forward"
    assert code not in opcode.hasjabs, name
    for kind in ("const", "name", "local", "free", "compare"):
        if code in getattr(opcode, "has" + kind):
            return kind.capitalize()
    return "Number" if takes_argument(code) else "Nothing"
rows = [
    (code, name, cache_entries(name, code), operand(name, code))
    for name, code in sorted(opcode.opmap.items(), key=lambda item: item[1])
    if name not in pseudo
]
print(json.dumps({"version": sys.version_info[:2], "rows": rows}))
"""

# Not in any code object that a program can get hold of.
INTERNAL = {"CACHE", "RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR", "INSTRUMENTED_INSTRUCTION"}

ROOT = pathlib.Path(__file__).resolve().parent.parent / "crates/bytecode/src"


def camel(name):
    """The Rust variant of an opcode's name: LOAD_FAST is LoadFast, CALL_INTRINSIC_1 is CallIntrinsic1."""
    return "".join(part.capitalize() for part in name.split("_"))


def ask(python):
    """Version and rows (number, name, cache entries, operand) of one interpreter."""
    answer = json.loads(subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True).stdout)
    rows = [row for row in answer["rows"] if row[1] not in INTERNAL and not row[1].startswith("INSTRUMENTED_")]
    return tuple(answer["version"]), rows


def table_file(version, rows):
    """The source of one version's table."""
    major, minor = version
    lines = [
        f"//! CPython {major}.{minor}: number, opcode, inline cache entries, kind of operand.",
        "//!",
        "//! Written by `scripts/bytecode_tables.py` from the interpreter's `opcode` module; do not edit.",
        "",
        "use super::{Operand as Is, Table};",
        "use crate::Opcode as Op;",
        "",
        "#[rustfmt::skip]",
        "pub(super) static TABLE: Table = Table::new(&[",
        *(f"    ({code}, Op::{camel(name)}, {caches}, Is::{kind})," for code, name, caches, kind in rows),
        "]);",
    ]
    return "\n".join(lines) + "\n"


def list_file(names):
    """The source of the union of all versions' opcodes."""
    lines = [
        "//! Every opcode of the supported versions, by name.",
        "//!",
        "//! Written by `scripts/bytecode_tables.py`; do not edit.",
        "",
        "use super::opcodes;",
        "",
        "opcodes! {",
        *(f'    {camel(name)} = "{name}",' for name in names),
        "}",
    ]
    return "\n".join(lines) + "\n"


def main():
    """Asks each interpreter and writes, or compares, the files."""
    arguments = sys.argv[1:]
    check = "--check" in arguments
    answers = dict(ask(python) for python in arguments if python != "--check")
    if set(answers) != {(3, 11), (3, 12), (3, 13)}:
        sys.exit(__doc__)
    names = sorted({row[1] for rows in answers.values() for row in rows})
    files = {ROOT / "opcode/list.rs": list_file(names)}
    for (major, minor), rows in answers.items():
        files[ROOT / f"tables/v{major}_{minor}.rs"] = table_file((major, minor), rows)
    for path, text in files.items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{path} is not what the interpreters say; run this without --check")


if __name__ == "__main__":
    main()

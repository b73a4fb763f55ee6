#!/usr/bin/env python3
"""Writes the opcode tables of crates/bytecode, and the fixtures of its tests, from the interpreters they describe.

Usage: scripts/bytecode_tables.py [--check] [PYTHON...]

Without names the interpreters are those that `scripts/pythons --list` finds: one of each version is needed. Each
interpreter is asked for its own `opcode` module: numbers, inline cache entries, kinds of operands. Left out are
pseudo-instructions, specialised and instrumented forms (`code.co_code` never contains them) and instructions used only
by CPython's own trampolines. Fixtures are stack effects, and the code objects of tests/corpus. With --check nothing is
written; a difference is an error.
"""

import json
import pathlib
import subprocess
import sys

from interpreters import KNOWN, found

ASK = r"""
import dis, json, opcode, sys
have_argument = opcode.HAVE_ARGUMENT
pseudo = set(getattr(opcode, "_pseudo_ops", ())) | {n for n, c in opcode.opmap.items() if c > 255}
caches = opcode._inline_cache_entries
def cache_entries(name, code):
    return caches.get(name, 0) if hasattr(caches, "get") else caches[code]
def takes_argument(code):
    return code in opcode.hasarg if hasattr(opcode, "hasarg") else code >= have_argument
def operand(name, code):
    # `END_ASYNC_FOR` of 3.14 says how far away its `SEND` is, for tools, and does not jump.
    if code in opcode.hasjrel and name != "END_ASYNC_FOR":
        return "Backward" if "BACKWARD" in name else "Forward"
    assert code not in opcode.hasjabs, name
    # Which 3.14 lists among those of locals.
    if name == "LOAD_DEREF":
        return "Free"
    for kind in ("const", "name", "local", "free", "compare"):
        if code in getattr(opcode, "has" + kind):
            return kind.capitalize()
    return "Number" if takes_argument(code) else "Nothing"
rows = [
    (code, name, cache_entries(name, code), operand(name, code))
    for name, code in sorted(opcode.opmap.items(), key=lambda item: item[1])
    if name not in pseudo
]
def effects(code):
    # With and without jump, for each small argument; one number where all are the same.
    for jump in (True, False):
        found = [dis.stack_effect(code, arg, jump=jump) for arg in (range(10) if takes_argument(code) else [None])]
        yield found[:1] if len(set(found)) == 1 else found
wanted = {name: list(effects(code)) for code, name, _, _ in rows if name != "CACHE" and code < 250}
print(json.dumps({"version": sys.version_info[:2], "rows": rows, "effects": wanted}))
"""

# Not in any code object that a program can get hold of.
INTERNAL = {
    "CACHE",
    "RESERVED",
    "TRACE_RECORD",
    "INTERPRETER_EXIT",
    "EXIT_INIT_CHECK",
    "ENTER_EXECUTOR",
    "INSTRUMENTED_INSTRUCTION",
}

SCRIPTS = pathlib.Path(__file__).resolve().parent
ROOT = SCRIPTS.parent / "crates/bytecode"


def camel(name):
    """Returns the Rust variant of an opcode's name: LOAD_FAST is LoadFast, CALL_INTRINSIC_1 is CallIntrinsic1."""
    return "".join(part.capitalize() for part in name.split("_"))


def ask(python):
    """Returns version, rows (number, name, cache entries, operand) and stack effects of one interpreter."""
    answer = json.loads(subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True).stdout)
    rows = [row for row in answer["rows"] if row[1] not in INTERNAL and not row[1].startswith("INSTRUMENTED_")]
    effects = {row[1]: answer["effects"][row[1]] for row in rows}
    return tuple(answer["version"]), rows, effects


def fixtures(python, version, effects):
    """Returns the fixture files of one version, by path."""
    lines = (f'"{name}":{json.dumps(effect, separators=(",", ":"))}' for name, effect in sorted(effects.items()))
    yield f"effects-{version}.json", "{" + ",\n".join(lines) + "}\n"
    for path in sorted((ROOT / "tests/corpus").glob("*.py")):
        # Some files need newer syntax than others.
        if path.stem.startswith("since_") and tuple(map(int, path.stem.split("_")[1:])) > tuple(
            map(int, version.split("."))
        ):
            continue
        facts = ["--facts"] if path.stem == "facts" else []
        command = [python, SCRIPTS / "bytecode_dump.py", *facts, path]
        dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        yield f"{path.stem}-{version}.json", dump


def table_file(version, rows):
    """Returns the source of one version's table."""
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
    """Returns the source of the union of all versions' opcodes."""
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
    """Queries each interpreter and writes, or compares, the files."""
    arguments = sys.argv[1:]
    check = "--check" in arguments
    pythons = [python for python in arguments if python != "--check"]
    if not pythons:
        pythons = list({one.version: one.path for one in reversed(found(KNOWN))}.values())
    answers = [ask(python) for python in pythons]
    versions = {f"{major}.{minor}" for (major, minor), _, _ in answers}
    if versions != set(KNOWN) or len(answers) != len(KNOWN):
        sys.exit(f"{__doc__}\nFound {sorted(versions)}, wanted {list(KNOWN)}.")
    names = sorted({row[1] for _, rows, _ in answers for row in rows})
    files = {ROOT / "src/opcode/list.rs": list_file(names)}
    for python, (version, rows, effects) in zip(pythons, answers):
        major, minor = version
        files[ROOT / f"src/tables/v{major}_{minor}.rs"] = table_file(version, rows)
        for name, text in fixtures(python, f"{major}.{minor}", effects):
            files[ROOT / "tests/fixtures" / name] = text
    for path, text in files.items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} is not what the interpreters say; run this without --check")


if __name__ == "__main__":
    main()

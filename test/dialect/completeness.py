"""Compares the dialect's definitions (llvm-tblgen --dump-json) with the tests in a folder; prints the missing tests."""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any


def mentions(folder: pathlib.Path, errors: bool) -> str:
    """The text of the round-trip tests, or of the negative tests, without their comments."""
    files = [path for path in sorted(folder.glob("*.mlir")) if path.stem.endswith("-errors") == errors]
    lines = [line for path in files for line in path.read_text().splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith("//"))


def missing(definitions: dict[str, Any], folder: pathlib.Path) -> list[str]:
    """The missing tests, one per line."""
    good, bad = mentions(folder, errors=False), mentions(folder, errors=True)
    found = []

    def want(text: str, pattern: str, what: str) -> None:
        if not re.search(pattern, text):
            found.append(what)

    records = [definitions[name] for name in definitions["!instanceof"]["Op"]]
    ours = [op for op in records if op["opDialect"]["def"] == "Dynamo_Dialect"]
    for op in ours:
        name = "dynamo." + op["opName"]
        want(good, rf"\b{re.escape(name)}\b(?![.\w])", f"{name}: no round trip in test/dialect/*.mlir")
        if op["hasVerifier"]:
            want(bad, rf"\b{re.escape(name)}\b", f"{name}: has a verifier, no case in test/dialect/*-errors.mlir")
        if op["hasFolder"]:
            want((folder / "folders.mlir").read_text(), rf"\b{re.escape(name)} ", f"{name}: no case in folders.mlir")
    for kind, prefix in (("TypeDef", "!dynamo."), ("AttrDef", "#dynamo.")):
        for record in definitions["!instanceof"][kind]:
            entry = definitions[record]
            mnemonic = entry.get("mnemonic")
            if not mnemonic or entry["dialect"]["def"] != "Dynamo_Dialect":
                continue
            spelled = rf"(?:{re.escape(prefix + mnemonic)}\b|{re.escape(prefix[0])}dynamo<{re.escape(mnemonic)} )"
            want(good, spelled, f"{prefix}{mnemonic}: no round trip in test/dialect/*.mlir")
            if entry["genVerifyDecl"]:
                want(bad, spelled, f"{prefix}{mnemonic}: has a verifier, no case in test/dialect/*-errors.mlir")
    if len(ours) < 70:
        found.append(f"only {len(ours)} ops found: this script reads the definitions wrongly")
    return found


def main() -> int:
    """Returns 1 if a test is missing."""
    lines = missing(json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2]))
    print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

"""Places of this repository, and modules of the package that are read without importing it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parent.parent
ROOT = DOCS.parent
REPOSITORY = "https://github.com/dynamlir/dynamlir"
"""The address that readers see; links to files that are not pages lead there."""


def read(path: str) -> str:
    """Returns the text of a file, by its path in the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def module(path: str) -> ModuleType:
    """Runs a module of the package that needs only the standard library: no torch, no extension."""
    name = "docs_" + Path(path).stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return sys.modules[name]

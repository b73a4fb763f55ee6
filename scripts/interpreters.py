"""Which CPythons are on this machine: for the scripts that try several."""

import dataclasses
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where scripts/pythons puts those that neither the system nor pyenv has.
FETCHED = ROOT / "target" / "pythons"

# Says of an interpreter which CPython it is; fails for another implementation.
ASK = "import sys; assert sys.implementation.name == 'cpython'; print('%d.%d' % sys.version_info[:2])"


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A CPython that is here."""

    path: str
    version: str


def examine(path: str | os.PathLike[str] | None) -> Interpreter | None:
    """The interpreter at this path; None where there is none: what is on the path may be a stand-in."""
    if not path:
        return None
    try:
        asked = subprocess.run([path, "-I", "-S", "-c", ASK], capture_output=True, text=True)
    except OSError:
        return None
    return Interpreter(str(path), asked.stdout.strip()) if asked.returncode == 0 else None


def found(versions: Iterable[str]) -> list[Interpreter]:
    """Every CPython of these versions that can be found: those that DYNAMLIR_PYTHONS names (with ``:`` between), this
    checkout's, those on the path, pyenv's, and those that scripts/pythons has fetched, in this order."""
    versions = tuple(versions)
    paths = [*os.environ.get("DYNAMLIR_PYTHONS", "").split(":"), str(ROOT / ".venv/bin/python"), sys.executable]
    paths += [shutil.which(f"python{version}") or "" for version in versions]
    paths += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")))
    paths += [str(FETCHED / f"python{version}") for version in versions]
    return [one for one in map(examine, dict.fromkeys(paths)) if one is not None and one.version in versions]

"""The tests without the source tree beside them, so that only an installed package can be what they meet."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def copy_tests(folder: Path) -> Path:
    """Copies the tests, and what they import of scripts, into ``folder``; returns it, to run in."""
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("test/python", "scripts/bench"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "scripts/interpreters.py", folder / "scripts")
    return folder

"""Feeds seeded garbage to the named tool; each run must end with exit code 1."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys

MAGIC = b"ML\xefR"


def main() -> int:
    """Returns 1 if a run ended in another way."""
    folder, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
    path = folder / "garbage"
    bad = 0
    for seed in range(12):
        source = random.Random(seed)
        body = source.randbytes(source.choice([1, 40, 3000]))
        # Half of them look like bytecode of a supported version, so that the reader gets past the header.
        path.write_bytes(MAGIC + b"\x0d" + b"MLIR\0" + body if seed % 2 else body)
        made = subprocess.run([tool, path], capture_output=True, check=False)
        if made.returncode != 1:
            print(f"seed {seed}: exit code {made.returncode}\n{made.stderr.decode(errors='replace')[-500:]}")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())

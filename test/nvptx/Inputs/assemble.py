"""Assembles PTX files with NVIDIA's assembler: ``assemble.py PTXAS a.80.ptx b.90.ptx``.

The chip is in the file's name. Nothing may be spilled to local memory: kernels are scheduled so that rows fit
registers.
"""

import pathlib
import re
import subprocess
import sys

ptxas, *files = sys.argv[1:]
for file in map(pathlib.Path, files):
    chip = f"sm_{file.suffixes[-2].lstrip('.')}"
    command = [ptxas, "-v", f"-arch={chip}", file, "-o", file.with_suffix(".cubin")]
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode:
        sys.exit(f"{file}: {outcome.stdout}{outcome.stderr}")
    spilled = re.findall(r"([1-9]\d*) bytes spill", outcome.stderr)
    if spilled:
        sys.exit(f"{file}: {spilled[0]} bytes are spilled\n{outcome.stderr}")

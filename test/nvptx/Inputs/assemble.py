"""Assembles PTX files with NVIDIA's assembler: ``assemble.py PTXAS a.80.ptx b.90.ptx``.

The chip is in the file's name. Almost nothing may be spilled to local memory: kernels are scheduled so that rows fit in
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
    spilled = max(map(int, re.findall(r"(\d+) bytes spill", outcome.stderr)), default=0)
    if spilled > 32:
        sys.exit(f"{file}: {spilled} bytes are spilled\n{outcome.stderr}")

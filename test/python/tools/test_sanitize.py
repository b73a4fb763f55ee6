"""Checks that `scripts/sanitize` finds reads of generated code outside its memory."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "sanitize"
PROGRAM = """
import ctypes, mmap

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
block = libc.malloc(16)
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes([0x48, 0x8B, 0x47, OFFSET, 0xC3]))  # mov rax, [rdi + OFFSET]; ret
ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(page)))(block)
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize(("offset", "status"), [(8, 0), (24, 1)])
def test_an_access_of_generated_code_beyond_its_block_is_told(tmp_path, offset, status):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("OFFSET", str(offset)))
    done = subprocess.run([sys.executable, SCRIPT, "--program", program], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("Invalid read of size 8" in done.stdout) is bool(status)

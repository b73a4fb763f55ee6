"""The table of torch's C functions agrees with the header of the torch release that it was generated from."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[3] / "scripts" / "shims"


@pytest.mark.skipif(not torch.__version__.startswith("2.15"), reason="the table is of torch 2.15")
def test_the_table_is_the_headers() -> None:
    checked = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ("AtenTensorHandle self, const int64_t* size, int64_t size_len_, AtenTensorHandle* ret0", ("tl", 1)),
        (
            "int64_t* dim, int32_t* device, int32_t device_index_, AtenTensorHandle* ret0, AtenTensorHandle* ret1",
            ("Ic", 2),
        ),
        ("AtenTensorHandle* weight, double eps, int32_t flag", ("Tdb", 0)),
        ("AtenTensorHandle self, double* ret0", None),
        ("SomethingNew self, AtenTensorHandle* ret0", None),
    ],
)
def test_letters_are_read_off_declarations(declared: str, wanted: tuple[str, int] | None) -> None:
    assert runpy.run_path(str(SCRIPT))["letters"](declared) == wanted

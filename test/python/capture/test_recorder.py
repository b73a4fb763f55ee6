"""The session has every attribute that the native part of the capture uses by name, in
`crates/capture/src/recorder.rs`.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from dynamlir.capture import session
from dynamlir.capture.session import Session

ROOT = Path(__file__).resolve().parents[3]
RECORDER = ROOT / "crates" / "capture" / "src" / "recorder.rs"
ASKED = re.compile(r'\.(ask|holds|flag|call_method[01]|getattr)\((?:method, )?"(\w+)"')
# Read from what other requests return.
BEYOND = {"ops", "offset_sensitive", "buffers", "note", "read"}


@pytest.mark.skipif(not RECORDER.exists(), reason="needs the source tree")
def test_each_request_has_an_answer() -> None:
    asked = {name for _, name in ASKED.findall(RECORDER.read_text())} - BEYOND
    assert len(asked) > 40, asked
    attributes = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(session)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    missing = {name for name in asked if not hasattr(Session, name)} - attributes
    assert not missing


@pytest.mark.skipif(not RECORDER.exists(), reason="needs the source tree")
def test_no_other_file_names_the_session_s_methods() -> None:
    found = []
    for path in RECORDER.parent.rglob("*.rs"):
        if path.name not in ("recorder.rs", "session_scope.rs"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(r'session\(\)\s*\.(call_method|getattr)|session\.(call_method[01]?|getattr)\("', line):
                    found.append(f"{path.name}:{number}: {line.strip()}")
    assert not found

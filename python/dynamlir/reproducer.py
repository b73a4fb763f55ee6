"""A reproducer for a failure of the compiler: the graph at stage 00, the metadata of its inputs, a script to replay it.

It is written to a separate folder, whose name goes into the counted reason: in ``config.reproducers``, else next to the
dump, else in the default cache folder. A folder is named after the text, so that a recurring failure is written once; a
process writes a few, and a place holds a few. Nothing is ever raised here, and no tensor contents are written.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch

from . import config, logs
from .options import Options
from .reasons import REASONS, Fallback
from .recording import DTYPES, Recording

MOST = 8
"""The number of reproducers that a process writes."""
MOST_IN_A_PLACE = 32
"""The number of reproducers that a place holds; existing ones stay."""

_written: set[str] = set()
_lock = threading.Lock()

_REPLAY = '''"""Replays a compilation that failed: {reason}.

{message}

The same for a single stage: dynamlir-opt 00-aten.mlir --dynamlir-to-llvm
"""

import json
from pathlib import Path

import torch

import dynamlir

here = Path(__file__).parent
storages, tensors = {{}}, []
for entry in json.loads((here / "inputs.json").read_text())["inputs"]:
    dtype = getattr(torch, entry["dtype"])
    extent = 1 + sum((size - 1) * stride for size, stride in zip(entry["sizes"], entry["strides"]))
    needed = (entry["offset"] + (extent if 0 not in entry["sizes"] else 0)) * dtype.itemsize
    storages.setdefault(entry["storage"], []).append((needed, len(tensors)))
    tensors.append((entry, dtype))
memory = {{key: torch.zeros(max(need for need, _ in users), dtype=torch.uint8) for key, users in storages.items()}}
inputs = [
    memory[entry["storage"]][: memory[entry["storage"]].numel() // dtype.itemsize * dtype.itemsize]
    .view(dtype)
    .as_strided(entry["sizes"], entry["strides"], entry["offset"])
    for entry, dtype in tensors
]
compiled = dynamlir.load(here / "00-aten.mlir")
print("compiles; its outputs:", [getattr(output, "shape", output) for output in compiled(*inputs)])
'''


def attach(failure: Fallback, trace: Any, recording: Recording, settings: Options, name: str) -> Fallback:
    """Returns the failure, with a reproducer in its message if it is the compiler's and one can be written."""
    if REASONS[failure.reason].cause != "compiler":
        return failure
    try:
        folder = _write(failure, trace, recording, settings, name)
    except Exception as error:
        logs.logger("fallback").log(logging.INFO, "no reproducer: %s: %s", type(error).__name__, error)
        return failure
    if folder is None:
        return failure
    message = f"{failure.message.rstrip()} – replay it with: python {folder / 'replay.py'}"
    return Fallback(failure.reason, message, failure.location)


def reset() -> None:
    """Resets the count: the process may write as many again."""
    with _lock:
        _written.clear()


def place(settings: Options) -> Path:
    """Returns the folder for reproducers."""
    if config.reproducers:
        return Path(config.reproducers)
    if settings.dump:
        return Path(settings.dump) / "reproducers"
    from .autotune.record import cache_folder  # only failures need it

    cache = cache_folder(settings.cache_dir)
    return cache / "reproducers" if cache is not None else Path(tempfile.gettempdir()) / "dynamlir-reproducers"


def _write(failure: Fallback, trace: Any, recording: Recording, settings: Options, name: str) -> Path | None:
    text = trace.text()
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    root = place(settings)
    folder = root / f"{failure.reason}-{digest}"
    with _lock:
        if str(folder) in _written and folder.is_dir():
            return folder
        if len(_written) >= MOST:
            return None
        if not folder.is_dir():
            if root.is_dir() and sum(1 for _ in root.iterdir()) >= MOST_IN_A_PLACE:
                return None
            _fill(folder, failure, text, recording, settings, name)
        _written.add(str(folder))
    return folder


def _fill(folder: Path, failure: Fallback, text: str, recording: Recording, settings: Options, name: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    inputs = [
        {
            "name": record.name,
            "dtype": str(DTYPES[record.meta.dtype]).removeprefix("torch."),
            "sizes": record.meta.sizes,
            "strides": record.meta.strides,
            "offset": record.meta.offset,
            "storage": record.storage,
        }
        for record in recording.inputs
    ]
    about = {
        "graph": name,
        "reason": failure.reason,
        "message": failure.message,
        "location": failure.location,
        "torch": torch.__version__,
        "mode": settings.mode,
        "inputs": inputs,
    }
    message = failure.message.replace("\\", "/").replace('"""', "'''").strip()
    # The folder appears only when it is complete.
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    try:
        (unfinished / "00-aten.mlir").write_text(text)
        (unfinished / "inputs.json").write_text(json.dumps(about, indent=1))
        (unfinished / "replay.py").write_text(_REPLAY.format(reason=failure.reason, message=message))
        os.replace(unfinished, folder)
    except BaseException:
        for file in list(unfinished.iterdir()):
            file.unlink()
        unfinished.rmdir()
        raise

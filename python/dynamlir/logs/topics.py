"""The topics of ``DYNAMLIR_LOGS``. This module imports nothing, so that documents can be made from it."""

from __future__ import annotations

TOPICS: dict[str, str] = {
    "graph": "the fx graph handed over and the ATen operations recorded from it",
    "bytecode": "the bytecode of each captured function, and as Python source what that says and what each entry does",
    "graph_breaks": "why a function was not captured whole, and where; with + all frames of the place",
    "attempts": "each further attempt at capturing a function, and why it followed",
    "side_effects": "what a captured call does to what existed before it, once its graph has run, and where",
    "cache": "entries that a function's cache gets, and when it is emptied; with + the guards of each",
    "guards": "what each entry of a function's cache is guarded by",
    "recompiles": "which guard failed when a function is compiled again, and the line of the call",
    "output_code": 'the kernels of each graph as text, or the Python of the backend "python"; with + machine code',
    "fallback": "why a graph, or one call of it, ran as plain eager",
    "decomposition": "which operations were replaced by torch's own decomposition, and which could not be",
    "extern": "operations left to torch's library, with route and Python line",
    "autotune": "which strategy each product got and what was measured; what is wrong with the record of it",
    "ir": "the aten-level MLIR of each graph",
    "perf": "seconds by stage of each compilation",
    "runtime": "what happens at call time: variants, repeated runs",
}

"""Registers ``backend="dynamlir"`` where the package runs from the source tree, without its entry point."""

from __future__ import annotations

import os


def ensure() -> None:
    """Registers the backend if no entry point did, and makes kernels for a chip if the environment names one."""
    if chip := os.environ.get("DYNAMLIR_TEST_CHIP"):
        import on_chip

        on_chip.install(chip)
    import dynamlir
    from torch._dynamo.backends.registry import list_backends, register_backend

    if "dynamlir" not in list_backends(exclude_tags=()):
        register_backend(compiler_fn=dynamlir.backend, name="dynamlir")

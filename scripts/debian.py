"""Debian packages without touching the system, for scripts that unpack some into their own folders."""

import glob
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Failed(Exception):
    """A requirement is missing; the message names it, and what to do."""


def call(*command: str | Path, folder: Path | None = None) -> str:
    """Runs a command quietly and returns its output."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise Failed(f"{command[0]} failed:\n{said}")
    return done.stdout


def mirror(instead: str) -> str:
    """Returns the address of the Debian mirror that this machine uses; ``instead`` says what to do if there is none."""
    lists = [*glob.glob("/etc/apt/sources.list.d/*"), "/etc/apt/sources.list"]
    for path in filter(os.path.isfile, lists):
        address = re.search(r"https?://\S+/debian/?(?=\s|$)", Path(path).read_text(), re.MULTILINE)
        if address:
            return address[0].rstrip("/")
    raise Failed(f"no Debian mirror is named in /etc/apt: {instead}")


class Apt:
    """A separate package database, in which nothing is installed."""

    def __init__(self, folder: Path, sources: Iterable[str], architecture: str | None = None) -> None:
        """``sources`` are addresses with the rest of a line in a list of sources, such as a suite and ``main``."""
        self._archives = folder / "cache/archives"
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text("".join(f"deb [signed-by={KEYS}] {source}\n" for source in sources))
        settings: dict[str, object] = {
            "Dir::State::Lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
            # Without a mirror, this should fail soon.
            "Acquire::Retries": 1,
            "Acquire::http::Timeout": 20,
            "Acquire::https::Timeout": 20,
        }
        if architecture is not None:
            settings |= {"APT::Architecture": architecture, "APT::Architectures": architecture}
        self._apt = ["apt-get", "-q"]
        for name, value in settings.items():
            self._apt += ["-o", f"{name}={value}"]
        call(*self._apt, "update", "--error-on=any")

    def with_dependencies(self, packages: Iterable[str]) -> list[Path]:
        """Downloads packages and all their dependencies."""
        call(*self._apt, "install", "-y", "--no-install-recommends", "--download-only", *packages)
        return self._here()

    def alone(self, packages: Iterable[str]) -> list[Path]:
        """Downloads packages without their dependencies."""
        call(*self._apt, "download", *packages, folder=self._archives)
        return self._here()

    def _here(self) -> list[Path]:
        # Otherwise the suite's earlier packages would be unpacked over its current ones.
        call(*self._apt, "autoclean")
        return sorted(self._archives.glob("*.deb"))

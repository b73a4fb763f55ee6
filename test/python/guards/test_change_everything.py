"""Everything that a call reaches is changed, leaf by leaf: compiled programs give plain Python's results."""

from __future__ import annotations

import change_everything
import change_subjects
import dynamlir
import pytest
import torch
from change_everything import Leaf, Subject

KNOWN = frozenset(
    {
        # A number in a default is read again, bypassing its symbol.
        "function: G['callee'].__defaults__[0]",
        "function: G['callee'].__kwdefaults__['shift']",
        # An attribute that C code computes has no guard.
        "subclasses: L['o']['a']",
        # Eager's kernel does not accept statistics of another dtype.
        "module: L['self'].norm.running_mean",
        "config: L['model'].norm.bias",
    }
)
"""The known failures; a case that passes fails the test until it is removed here."""

EVERY = [(subject, leaf) for subject in change_subjects.SUBJECTS for leaf in change_everything.chosen(subject)]


def check(cases: list[tuple[Subject, Leaf]]) -> None:
    wrong, right = [], []
    for subject, leaf in cases:
        found = change_everything.check_leaf(subject, leaf)
        known = f"{subject.name}: {leaf.path}" in KNOWN
        if found and not known:
            wrong.append("\n".join(found))
        if known and not found:
            right.append(f"{subject.name}: {leaf.path}")
    assert not wrong, "\n".join([f"{len(wrong)} differ:", *wrong])
    assert not right, f"no longer wrong, to be taken off KNOWN: {right}"


def test_sample() -> None:
    check(EVERY[::12])


def test_changes_are_undone() -> None:
    lost = [change_everything.check_undo(subject, leaf) for subject, leaf in EVERY[::4]]
    assert [each for each in lost if each] == []


def test_guards_name_what_the_walk_finds() -> None:
    subject = change_subjects.SUBJECTS[1]
    dynamlir.reset()
    world = change_everything.World(subject, dynamlir.compile)
    world.outcome()
    named = change_everything.guarded(world)
    paths = {leaf.path for leaf, _ in change_everything.leaves(world)}
    assert {"L['o'].rate", "L['o'].inner.held['k'][1]", "L['s'].held[0]", "L['p'].args[0]"} <= named & paths
    assert "L['o'].unread" in paths - named


def _careless(function: object, **_options: object) -> object:
    """Returns a function that answers each call like the first."""
    kept: list[object] = []

    def call(*args: object, **named: object) -> object:
        kept[:] = kept or [function(*args, **named)]
        return kept[0]

    return call


def test_what_no_guard_names_is_found_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = change_subjects.SUBJECTS[1]
    leaf = next(leaf for each, leaf in EVERY if each is subject and leaf.path == "L['o'].inner.held['k'][1]")
    monkeypatch.setattr(dynamlir, "compile", _careless)
    first, *_ = change_everything.check_leaf(subject, leaf)
    assert first == "objects: L['o'].inner.held['k'][1] (no guard names it): as it was, 3"


def test_what_others_share_is_changed_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {name: change_subjects.shared()[name] for name in ("a class's attribute", "the default type")}
    assert change_everything.shared_changes(change_subjects.SUBJECTS[1], chosen) == []
    assert change_subjects.Plain.kind == 2 and torch.get_default_dtype() is torch.float32
    monkeypatch.setattr(dynamlir, "compile", _careless)
    (found,) = change_everything.shared_changes(change_subjects.SUBJECTS[1], {"kind": chosen["a class's attribute"]})
    assert found.startswith("objects: kind\nturn 1: plain")


@pytest.mark.long
@pytest.mark.parametrize("subject", change_subjects.SUBJECTS, ids=lambda subject: subject.name)
def test_all(subject: Subject) -> None:
    check([(each, leaf) for each, leaf in EVERY if each is subject])
    assert change_everything.shared_changes(subject, change_subjects.shared()) == []


@pytest.mark.long
@pytest.mark.parametrize("make", [change_subjects.of_effects, change_subjects.of_sizes])
def test_grown_programs(make: object) -> None:
    found = [line for seed in range(30) for line in change_everything.check(make(seed))]
    assert found == []

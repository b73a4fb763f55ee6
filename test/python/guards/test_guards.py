"""Guards: each fails exactly when what it assumes has changed, and says so; unrelated changes do not matter.

Every case is checked several times before its change, so that a recorded trail has to notice the change, and again
after the change is undone. The verdict must also agree with the guards' own predicates, evaluated as Python.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable
from typing import Any

import guard_world
import pytest
import torch
from guard_world import TABLE, VARIABLE, Block, Config, Mode, Other, Patch, World, helper, make_function
from torch import nn

Change = Callable[[World, Any], None]

CHANGES: dict[str, tuple[Change, str]] = {}
UNRELATED: dict[str, Change] = {}


def changes(name: str, part: str) -> Callable[[Change], Change]:
    """Registers a change that the guard whose predicate contains ``part`` must notice."""

    def register(change: Change) -> Change:
        CHANGES[name] = (change, part)
        return change

    return register


def unrelated(change: Change) -> Change:
    """Registers a change that no guard may fail on."""
    UNRELATED[change.__name__] = change
    return change


def set_to(name: str, part: str, attribute: Callable[[World], Any], value: Callable[[World], Any]) -> None:
    """Registers a change of one attribute, ``(owner, name)``, to a value."""

    def change(world: World, patch: Any) -> None:
        owner, key = attribute(world)
        patch.setattr(owner, key, value(world))

    changes(name, part)(change)


# Tensors.
set_to("other shape", "L['x'].shape == (3, 4)", lambda w: (w, "x"), lambda w: torch.randn(5, 4))
set_to("other rank", "L['x'].shape == (3, 4)", lambda w: (w, "x"), lambda w: torch.randn(12))
set_to("other strides", "L['x'].stride() == (4, 1)", lambda w: (w, "x"), lambda w: torch.randn(4, 3).t())
set_to("other dtype", "L['x'].dtype == torch.float32", lambda w: (w, "x"), lambda w: w.x.double())
set_to("other device", "L['x'].device == torch.device('cpu')", lambda w: (w, "x"), lambda w: w.x.to("meta"))
set_to("wants gradient", "L['x'].requires_grad == False", lambda w: (w, "x"), lambda w: w.x.clone().requires_grad_())
set_to("has a gradient function", "L['x'].requires_grad == False", lambda w: (w, "x"), lambda w: w.model.fc(w.x))
set_to("subclass", "torch.Tensor", lambda w: (w, "x"), lambda w: nn.Parameter(w.x, requires_grad=False))
set_to("conjugate bit", "dispatch_keys", lambda w: (w, "x"), lambda w: torch._neg_view(w.x))
set_to("no tensor", "torch.Tensor", lambda w: (w, "x"), lambda w: [1.0])
set_to("the same tensor twice", "___all_different(L['x'], L['y'])", lambda w: (w, "y"), lambda w: w.x)
set_to("a view of the other", "___storages", lambda w: (w, "y"), lambda w: w.x.view(3, 4))


@changes("inference tensor", "dispatch_keys")
def _(world: World, patch: Any) -> None:
    with torch.inference_mode():
        patch.setattr(world, "x", torch.randn(3, 4))


@changes("dimension marked dynamic", "_dynamo_dynamic_indices")
def _(world: World, patch: Any) -> None:
    patch.setattr(world.x, "_dynamo_dynamic_indices", {0}, raising=False)


@changes("resized in place", "L['x'].shape == (3, 4)")
def _(world: World, patch: Any) -> None:
    patch.setattr(world, "x", world.x.clone())
    world.x.resize_(2, 4)


# Parameters and buffers.
set_to(
    "frozen parameter",
    "L['model']._modules['fc'].weight.requires_grad",
    lambda w: (w.model.fc.weight, "requires_grad"),
    lambda w: False,
)
set_to(
    "parameter data of another shape",
    "L['model']._modules['fc'].weight.shape",
    lambda w: (w.model.fc.weight, "data"),
    lambda w: torch.randn(5, 4),
)
set_to(
    "parameter replaced",
    "L['model']._modules['fc'].weight.dtype",
    lambda w: (w.model.fc, "weight"),
    lambda w: nn.Parameter(w.model.fc.weight.double()),
)
set_to("parameter removed", "L['model']._modules['fc'].bias", lambda w: (w.model.fc, "bias"), lambda w: None)
set_to("buffer replaced", "running_mean.shape", lambda w: (w.model.norm, "running_mean"), lambda w: torch.zeros(5))
set_to("parameters tied", "___all_different", lambda w: (w.model.steps[1], "weight"), lambda w: w.model.steps[0].weight)


# Modules.
set_to(
    "module swapped for another class", "L['model']._modules['fc']", lambda w: (w.model, "fc"), lambda w: nn.Identity()
)
set_to("training", "L['model'].training is False", lambda w: (w.model, "training"), lambda w: True)
set_to(
    "training below",
    "L['model']._modules['norm'].training is False",
    lambda w: (w.model.norm, "training"),
    lambda w: True,
)
set_to("momentum", "momentum == 0.1", lambda w: (w.model.norm, "momentum"), lambda w: 0.2)
set_to(
    "forward on the instance",
    "'forward' not in L['model'].__dict__",
    lambda w: (w.model, "forward"),
    lambda w: lambda x: x,
)
set_to(
    "forward on the class",
    "___lookup(type(L['model']), 'forward')",
    lambda w: (Block, "forward"),
    lambda w: lambda self, x: x,
)


@changes("a hook", "_forward_hooks) == 0")
def _(world: World, patch: Any) -> None:
    handle = world.model.fc.register_forward_hook(lambda *_: None)
    patch.callback(handle.remove)


@changes("module added", "list(L['model']._modules['steps']._modules)")
def _(world: World, patch: Any) -> None:
    world.model.steps.append(nn.Linear(4, 4))
    patch.callback(lambda: world.model.steps.__delitem__(2))


@changes("module order", "list(L['model']._modules)")
def _(world: World, patch: Any) -> None:
    before = dict(world.model._modules)
    world.model._modules["fc"] = world.model._modules.pop("fc")
    patch.callback(lambda: (world.model._modules.clear(), world.model._modules.update(before)))


set_to("another model", "L['model']", lambda w: (w, "model"), lambda w: nn.Linear(4, 4))


# Values.
set_to("int", "L['n'] == 2", lambda w: (w, "n"), lambda w: 3)
set_to("int to bool", "L['n'] == 2", lambda w: (w, "n"), lambda w: True)
set_to("int to float", "L['n'] == 2", lambda w: (w, "n"), lambda w: 2.0)
set_to("attribute value", "L['cfg'].width == 4", lambda w: (w.cfg, "width"), lambda w: 5)
set_to("attribute to nan", "L['cfg'].rate == 0.5", lambda w: (w.cfg, "rate"), lambda w: math.nan)
set_to("attribute text", "L['cfg'].name == 'config'", lambda w: (w.cfg, "name"), lambda w: "other")
set_to("None to something", "L['cfg'].nothing is None", lambda w: (w.cfg, "nothing"), lambda w: 0)
set_to("enum member", "L['cfg'].mode", lambda w: (w.cfg, "mode"), lambda w: Mode.SLOW)
set_to("tuple", "L['cfg'].shape == (2, 3)", lambda w: (w.cfg, "shape"), lambda w: (2, 4))
set_to("tuple of another type", "L['cfg'].shape == (2, 3)", lambda w: (w.cfg, "shape"), lambda w: torch.Size((2, 3)))
set_to("class changed", "L['cfg']", lambda w: (w.cfg, "__class__"), lambda w: Other)
set_to("class attribute", "'kind') == 'plain'", lambda w: (Config, "kind"), lambda w: "fancy")
set_to("method patched", "'method')", lambda w: (Config, "method"), lambda w: lambda self: 0)
set_to("property patched", "'double')", lambda w: (Config, "double"), lambda w: property(lambda self: 0))
set_to("slot", "L['slotted'].value == 7", lambda w: (w.slotted, "value"), lambda w: 8)


@changes("attribute deleted", "L['cfg'].width == 4")
def _(world: World, patch: Any) -> None:
    patch.delattr(world.cfg, "width")


@changes("attribute added", "'missing' not in L['cfg'].__dict__")
def _(world: World, patch: Any) -> None:
    patch.setattr(world.cfg, "missing", 1, raising=False)


@changes("method on the instance", "'method' not in L['cfg'].__dict__")
def _(world: World, patch: Any) -> None:
    patch.setitem(world.cfg.__dict__, "method", lambda: 1)


@changes("__getattr__ added", "'__getattr__')")
def _(world: World, patch: Any) -> None:
    patch.setattr(Config, "__getattr__", lambda self, name: 1, raising=False)


@changes("list longer", "len(L['cfg'].sizes) == 3")
def _(world: World, patch: Any) -> None:
    world.cfg.sizes.append(4)
    patch.callback(world.cfg.sizes.pop)


@changes("list item", "L['cfg'].sizes[1] == 2")
def _(world: World, patch: Any) -> None:
    world.cfg.sizes[1] = 20000
    patch.callback(lambda: world.cfg.sizes.__setitem__(1, 2))


@changes("list replaced by a tuple", "L['cfg'].sizes")
def _(world: World, patch: Any) -> None:
    patch.setattr(world.cfg, "sizes", (1, 2, 3))


@changes("dict order", "list(L['cfg'].options)")
def _(world: World, patch: Any) -> None:
    patch.setattr(world.cfg, "options", {"second": 2, "first": 1})


@changes("dict order in place", "list(L['cfg'].options)")
def _(world: World, patch: Any) -> None:
    world.cfg.options["first"] = world.cfg.options.pop("first")
    patch.callback(lambda: world.cfg.options.update(second=world.cfg.options.pop("second")))


@changes("dict key added", "list(L['cfg'].options)")
def _(world: World, patch: Any) -> None:
    patch.setitem(world.cfg.options, "third", 3)


@changes("dict value", "L['cfg'].options['second'] == 2")
def _(world: World, patch: Any) -> None:
    patch.setitem(world.cfg.options, "second", 22222)


@changes("OrderedDict order", "list(L['cfg'].ordered)")
def _(world: World, patch: Any) -> None:
    world.cfg.ordered.move_to_end("a")
    patch.callback(lambda: world.cfg.ordered.move_to_end("b"))


@changes("set element", "L['cfg'].tags")
def _(world: World, patch: Any) -> None:
    world.cfg.tags.add("z")
    patch.callback(lambda: world.cfg.tags.discard("z"))


# The function and its surroundings.
@changes("global", "G['CONSTANT'] == 3")
def _(world: World, patch: Any) -> None:
    patch.setitem(guard_world.__dict__, "CONSTANT", 4)


@changes("global hides a builtin", "'len' not in G")
def _(world: World, patch: Any) -> None:
    patch.setitem(guard_world.__dict__, "len", lambda x: 0)


@changes("global added", "'not_there' not in G")
def _(world: World, patch: Any) -> None:
    patch.setitem(guard_world.__dict__, "not_there", 1)


@changes("dict in a global", "list(G['TABLE'])")
def _(world: World, patch: Any) -> None:
    patch.setitem(TABLE, "c", 3)


@changes("free variable", "C['offset'] == 10")
def _(world: World, patch: Any) -> None:
    patch.setattr(world.function.__closure__[0], "cell_contents", 11)


@changes("another closure", "C['offset'] == 10")
def _(world: World, patch: Any) -> None:
    patch.setattr(world, "function", make_function(12))


@changes("callee replaced", "G['helper']")
def _(world: World, patch: Any) -> None:
    patch.setitem(guard_world.__dict__, "helper", lambda x: x)


@changes("callee's code", "G['helper'].__code__")
def _(world: World, patch: Any) -> None:
    patch.setattr(helper, "__code__", (lambda x, scale=1, *, shift=0: x).__code__)


@changes("callee's default", "G['helper'].__defaults__[0] == 2.0")
def _(world: World, patch: Any) -> None:
    patch.setattr(helper, "__defaults__", (3.0,))


@changes("callee's keyword default", "G['helper'].__kwdefaults__['shift'] == 1")
def _(world: World, patch: Any) -> None:
    patch.setitem(helper.__kwdefaults__, "shift", 2)


@changes("context variable", "G['VARIABLE'].get() == 1")
def _(world: World, patch: Any) -> None:
    token = VARIABLE.set(2)
    patch.callback(lambda: VARIABLE.reset(token))


@changes("attribute of a held module", "torch.autograd.forward_ad._current_level == -1")
def _(world: World, patch: Any) -> None:
    patch.enter(torch.autograd.forward_ad.dual_level())


# Torch's state.
@changes("grad mode", "torch.is_grad_enabled() == True")
def _(world: World, patch: Any) -> None:
    patch.enter(torch.no_grad())


@changes("inference mode", "torch.is_inference_mode_enabled() == False")
def _(world: World, patch: Any) -> None:
    patch.enter(torch.inference_mode())


@changes("autocast", "___autocast() == {}")
def _(world: World, patch: Any) -> None:
    patch.enter(torch.autocast("cpu", dtype=torch.bfloat16))


@changes("default dtype", "torch.get_default_dtype() == torch.float32")
def _(world: World, patch: Any) -> None:
    torch.set_default_dtype(torch.float64)
    patch.callback(lambda: torch.set_default_dtype(torch.float32))


@changes("deterministic algorithms", "torch.are_deterministic_algorithms_enabled() == False")
def _(world: World, patch: Any) -> None:
    torch.use_deterministic_algorithms(True)
    patch.callback(lambda: torch.use_deterministic_algorithms(False))


@changes("default device", "torch._C._len_torch_function_stack() == 0")
def _(world: World, patch: Any) -> None:
    patch.enter(torch.device("meta"))


@changes("dispatch mode", "torch._C._len_torch_dispatch_stack() == 0")
def _(world: World, patch: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    patch.enter(FlopCounterMode(display=False))


@changes("torch function disabled", "torch function disabled")
def _(world: World, patch: Any) -> None:
    patch.enter(torch._C.DisableTorchFunctionSubclass())


# State that no guard assumes.
@unrelated
def other_values_of_the_tensors(world: World, patch: Any) -> None:
    world.x.add_(1)
    world.model.fc.weight.data.mul_(2)


@unrelated
def other_tensors_of_the_same_kind(world: World, patch: Any) -> None:
    world.x, world.y = torch.randn(3, 4), torch.randn(7, 4)[2:5]


@unrelated
def a_parameter_of_the_same_kind(world: World, patch: Any) -> None:
    patch.setattr(world.model.fc, "weight", nn.Parameter(torch.randn(4, 4)))


@unrelated
def an_attribute_nobody_looked_at(world: World, patch: Any) -> None:
    patch.setattr(world.cfg, "unknown", 1, raising=False)
    patch.setattr(world.model, "counter", 1, raising=False)


@unrelated
def a_class_attribute_nobody_looked_at(world: World, patch: Any) -> None:
    patch.setattr(Config, "unknown", 1, raising=False)
    patch.setattr(Block, "unknown", 1, raising=False)
    patch.setattr(nn.Module, "unknown", 1, raising=False)


@unrelated
def a_global_nobody_looked_at(world: World, patch: Any) -> None:
    patch.setitem(guard_world.__dict__, "unknown", 1)


@unrelated
def equal_values_in_other_objects(world: World, patch: Any) -> None:
    patch.setattr(world.cfg, "name", "".join(["con", "fig"]))
    patch.setattr(world.cfg, "rate", float("0.5"))
    patch.setattr(world.cfg, "shape", tuple([2, 3]))
    patch.setattr(world.cfg, "sizes", [1, 2, 3])
    patch.setattr(world.cfg, "options", {"first": 1, "second": 2})
    patch.setattr(world.cfg, "tags", {"y", "x"})


@unrelated
def another_equal_config(world: World, patch: Any) -> None:
    world.cfg = Config()


@unrelated
def another_equal_model(world: World, patch: Any) -> None:
    world.model = Block().eval()


@unrelated
def the_number_of_threads(world: World, patch: Any) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    patch.callback(lambda: torch.set_num_threads(before))


@unrelated
def gradients(world: World, patch: Any) -> None:
    world.model.fc(world.x).sum().backward()


@unrelated
def a_list_item_nobody_looked_at(world: World, patch: Any) -> None:
    world.cfg.sizes[0] = 100


@pytest.fixture
def patch() -> Any:
    patch = Patch()
    yield patch
    patch.undo()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_fails_its_guard_and_no_other_check(name: str, patch: Patch) -> None:
    change, part = CHANGES[name]
    world = World()
    world.settle()
    change(world, patch)
    assert not world.passes()
    assert not world.passes()
    failures = world.guards.failures(world.function, world.locals())
    assert world.guards.explain(world.function, world.locals()) == failures[0]
    failure = next((failure for failure in failures if part in failure[1]), None)
    assert failure is not None, failures
    assert failure[2] != failure[3], "what was expected and what is there read the same"


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in ("resized in place",)])
def test_undoing_a_change_makes_the_guards_pass_again(name: str, patch: Patch) -> None:
    world = World()
    world.settle()
    CHANGES[name][0](world, patch)
    assert not world.passes()
    patch.undo()
    world.settle()


@pytest.mark.parametrize("name", UNRELATED)
def test_an_unrelated_change_does_not_matter(name: str, patch: Patch) -> None:
    world = World()
    world.settle()
    UNRELATED[name](world, patch)
    world.settle()
    assert world.guards.explain(world.function, world.locals()) is None


MISSING = object()


def namespace(world: World) -> dict[str, Any]:
    """The names that the predicates refer to."""

    def lookup(cls: type, name: str) -> Any:
        return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), MISSING)

    def storages(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
        known: dict[int, int] = {}
        numbers = [known.setdefault(tensor.untyped_storage()._cdata, len(known)) for tensor in tensors]
        return [(number, tensor.storage_offset()) for number, tensor in zip(numbers, tensors)]

    states = {"torch function disabled": 0 if torch._C._is_torch_function_enabled() else 1}
    names = ["model", "x", "y", "n", "cfg", "slotted"]
    code = world.function.__code__
    cells = world.function.__closure__ or ()
    return {
        "L": dict(zip(names, world.locals())),
        "G": world.function.__globals__,
        "B": world.function.__builtins__,
        "C": {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells)},
        "torch": torch,
        "___guarded_code": world.guards,
        "___nothing": MISSING,
        "___lookup": lookup,
        "___check_type_id": lambda value, number: id(type(value)) == number,
        "___check_obj_id": lambda value, number: id(value) == number,
        "___made_of": made_of,
        "___all_different": lambda *values: len({id(value) for value in values}) == len(values),
        "___storages": storages,
        "___autocast": lambda: {"cpu": 15} if torch.is_autocast_enabled("cpu") else {},
        "___torch_state": lambda name: states.get(name, MISSING),
    }


def made_of(value: Any) -> list[Any]:
    """The class of an object that is often created anew, and its parts."""
    if isinstance(value, property):
        parts = [value.fget, value.fset, value.fdel]
    elif isinstance(value, (staticmethod, classmethod)):
        parts = [value.__func__]
    elif isinstance(value, types.MethodType):
        parts = [value.__func__, value.__self__]
    elif isinstance(value, operator.itemgetter):
        return ["operator.itemgetter", *value.__reduce__()[1]]
    elif hasattr(value, "__objclass__") and not hasattr(value, "__self__"):
        parts = [value.__objclass__, value.__name__]
    else:
        parts = [value.__self__, value.__name__]
    known = (bool, int, float, str, bytes, type(None))
    return [type(value).__name__, *(part if isinstance(part, known) else id(part) for part in parts)]


def false_predicates(world: World) -> list[str]:
    """The guards' predicates that Python finds false; one that raises counts as false."""
    names = namespace(world)
    false = []
    for part in world.guards.code_parts:
        if "dispatch keys of the thread" in part:
            continue  # not expressible as Python
        try:
            if not eval(part, names):
                false.append(part)
        except (AttributeError, KeyError, IndexError, TypeError, RuntimeError):
            false.append(part)
    return false


STRICTER = {"int to bool", "int to float", "tuple of another type", "property patched"}
"""Changes that `==` does not detect, or where an equal object is just as good."""


@pytest.mark.parametrize("name", CHANGES)
def test_the_predicates_agree(name: str, patch: Patch) -> None:
    world = World()
    assert false_predicates(world) == []
    change, part = CHANGES[name]
    change(world, patch)
    false = false_predicates(world)
    assert any(part in predicate for predicate in false) or name in STRICTER, false


def test_the_list_is_long_enough() -> None:
    assert len(CHANGES) >= 40

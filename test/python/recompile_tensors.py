"""Changes of modules, tensors and torch's state between two calls: more cases for `test_recompile.py`."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import torch
from recompile_cases import Scene, Tools, X, costs
from torch import Tensor, nn


class Net(nn.Module):
    """A module with parameters, buffers, and a mode."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.act: nn.Module = nn.ReLU()
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(self.fc(x))) + self.shift


def module_scene(change: Callable[[Net], Any]) -> Scene:
    """A call of a module in evaluation mode, and a change of the module."""
    model = Net().eval()
    return Scene(model, (X,), lambda: change(model))


# Modules.


@costs(1)
def training(tools: Tools) -> Scene:
    return module_scene(lambda model: model.train())


@costs(1)
def training_of_a_submodule(tools: Tools) -> Scene:
    return module_scene(lambda model: model.norm.train())


@costs(1)
def a_forward_hook(tools: Tools) -> Scene:
    return module_scene(lambda model: model.fc.register_forward_hook(lambda module, args, out: out * 2))


@costs(1)
def a_forward_pre_hook(tools: Tools) -> Scene:
    return module_scene(lambda model: model.fc.register_forward_pre_hook(lambda module, args: (args[0] + 1,)))


@costs(0)
def a_parameter_replaced_by_one_like_it(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model.fc, "weight", nn.Parameter(torch.randn(4, 4))))


@costs(0)
def a_parameter_written_in_place(tools: Tools) -> Scene:
    return module_scene(lambda model: model.fc.weight.mul_(2))


@costs(0)
def the_data_of_a_parameter(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model.fc.weight, "data", torch.randn(4, 4)))


@costs(0)
def a_state_dict(tools: Tools) -> Scene:
    return module_scene(lambda model: model.load_state_dict(Net().state_dict()))


@costs(1)
def the_shape_of_a_parameters_data(tools: Tools) -> Scene:
    def change(model: Net) -> None:
        model.fc.bias.data = torch.randn(1)

    return module_scene(change)


@costs(1)
def the_strides_of_a_parameters_data(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model.fc.weight, "data", torch.randn(4, 4).t()))


@costs(1)
def a_parameter_removed(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model.fc, "bias", None))


@costs(1)
def a_frozen_parameter(tools: Tools) -> Scene:
    return module_scene(lambda model: model.fc.weight.requires_grad_(False))


@costs(1)
def a_parameter_of_another_class(tools: Tools) -> Scene:
    class Special(nn.Parameter):
        pass

    return module_scene(lambda model: setattr(model.fc, "weight", Special(torch.randn(4, 4))))


@costs(0)
def a_parameter_with_an_attribute(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model.fc.weight, "note", "mine"))


@costs(0)
def tensors_swapped(tools: Tools) -> Scene:
    return module_scene(lambda model: torch.utils.swap_tensors(model.fc.weight, nn.Parameter(torch.randn(4, 4))))


@costs(1)
def the_element_type_of_a_model(tools: Tools) -> Scene:
    model = Net().eval()
    return Scene(model, (X,), lambda: (model.double(), (X.double(),))[1])


@costs(1)
def the_element_type_of_a_buffer(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model, "shift", model.shift.double()))


@costs(0)
def a_buffer_replaced_by_one_like_it(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model, "shift", torch.full((4,), 3.0)))


@costs(1)
def a_submodule_of_another_class(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model, "act", nn.GELU()))


@costs(0)
def a_submodule_replaced_by_one_like_it(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model, "fc", nn.Linear(4, 4).eval()))


@costs(1)
def a_number_of_a_submodule(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model.norm, "eps", 0.1))


@costs(1)
def forward_on_the_instance(tools: Tools) -> Scene:
    return module_scene(lambda model: setattr(model.fc, "forward", lambda x: x * 3))


@costs(1)
def forward_on_the_class(tools: Tools) -> Scene:
    return module_scene(lambda model: tools.patch.setattr(nn.ReLU, "forward", lambda self, x: x * 3))


@costs(1)
def a_module_more_in_a_sequence(tools: Tools) -> Scene:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    return Scene(model, (X,), lambda: model.append(nn.Linear(4, 2)))


@costs(1)
def a_global_forward_hook(tools: Tools) -> Scene:
    def change(model: Net) -> None:
        handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out + 1)
        tools.enter(contextlib.closing(types.SimpleNamespace(close=handle.remove)))

    return module_scene(change)


# Torch's state.


@contextlib.contextmanager
def setting(get: Callable[[], Any], put: Callable[[Any], None], value: Any) -> Any:
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


@costs(1)
def grad_mode(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: tools.enter(torch.enable_grad()))


@costs(1)
def inference_mode(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: tools.enter(torch.inference_mode()))


@costs(1)
def the_default_dtype(tools: Tools) -> Scene:
    doubles = setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64)
    return Scene(lambda x: x.long() / 2, (X,), lambda: tools.enter(doubles))


@costs(1)
def autocast(tools: Tools) -> Scene:
    return Scene(lambda x: x @ x.t(), (X,), lambda: tools.enter(torch.autocast("cpu", dtype=torch.bfloat16)))


@costs(1)
def the_dtype_of_autocast(tools: Tools) -> Scene:
    tools.enter(torch.autocast("cpu", dtype=torch.bfloat16))
    return Scene(lambda x: x @ x.t(), (X,), lambda: tools.enter(torch.autocast("cpu", dtype=torch.float16)))


@costs(1)
def deterministic_algorithms(tools: Tools) -> Scene:
    switch = setting(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True)
    return Scene(lambda x: x * 2, (X,), lambda: tools.enter(switch))


@costs(0)
def the_number_of_threads(tools: Tools) -> Scene:
    switch = setting(torch.get_num_threads, torch.set_num_threads, 3 - torch.get_num_threads() % 2)
    return Scene(lambda x: x * 2, (X,), lambda: tools.enter(switch))


@costs(0)
def the_random_seed(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: torch.manual_seed(7))


# Tensors.


@costs(0)
def other_values(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (X + 5,))


@costs(1)
def another_shape(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (torch.randn(5, 4),))


@costs(1)
def other_strides(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (torch.randn(4, 3).t(),))


@costs(1)
def another_element_type(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (X.double(),))


@costs(0)
def another_place_in_the_storage(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (torch.randn(100)[13:25].view(3, 4),))


@costs(1)
def a_subclass_of_tensor(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (nn.Parameter(X + 1, requires_grad=False),))


@costs(1)
def an_input_that_wants_a_gradient(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (X.clone().requires_grad_(),))


@costs(1)
def channels_last(tools: Tools) -> Scene:
    image = torch.randn(2, 3, 4, 4)
    return Scene(lambda x: x * 2, (image,), lambda: (image.to(memory_format=torch.channels_last),))


@costs(1)
def a_pending_sign(tools: Tools) -> Scene:
    return Scene(lambda x: x * 2, (X,), lambda: (torch._neg_view(X),))


@costs(1)
def a_tensor_made_in_inference_mode(tools: Tools) -> Scene:
    with torch.inference_mode():
        inference = X + 1
    return Scene(lambda x: x * 2, (X,), lambda: (inference,))


@costs(1)
def a_tensor_resized_in_place(tools: Tools) -> Scene:
    tensor = X.clone()

    def change() -> None:
        tensor.resize_(2, 4)

    return Scene(lambda x: x * 2, (tensor,), change)


@costs(1)
def an_attribute_that_was_not_there(tools: Tools) -> Scene:
    x = X.clone()
    return Scene(lambda x: x * getattr(x, "scale", 2), (x,), lambda: setattr(x, "scale", 3))


@costs(1)
def a_gradient_that_somebody_sets(tools: Tools) -> Scene:
    x = X.clone()
    return Scene(lambda x: x if x.grad is None else x + x.grad, (x,), lambda: setattr(x, "grad", X * 3))


@costs(1)
def an_attribute_of_the_class_of_tensors(tools: Tools) -> Scene:
    def change() -> None:
        tools.patch.setattr(Tensor, "scale", 3, raising=False)

    return Scene(lambda x: x * (x.scale if hasattr(x, "scale") else 2), (X,), change)


@costs(0)
def one_tensor_for_two_parameters_that_are_read(tools: Tools) -> Scene:
    return Scene(lambda x, y: x * y, (X, X + 1), lambda: (X, X))


@costs(0)
def a_tensor_and_a_view_of_it_that_are_read(tools: Tools) -> Scene:
    return Scene(lambda x, y: x * y, (X, X + 1), lambda: (X, X.view(3, 4)))

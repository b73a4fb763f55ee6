"""`pieces`: time per call of models that run in several pieces, against eager: detection, codecs, experts.

Detection models select boxes by their scores, codecs work with lengths that they compute, and mixtures of experts may
send tokens to experts in a Python loop: plain Python runs between two graphs, and a graph may hold next to nothing. So
the cost of the pieces is compared. Weights are random; the scores of detection models are spread, so that boxes are
selected. Rounding may exchange boxes of nearly equal scores: where floats differ, doubles must agree.
"""

from __future__ import annotations

import collections
import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from . import agree, contestants, measure, record

Made = tuple[torch.nn.Module, tuple[Any, ...]]

DETECTION = (
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "fcos_resnet50_fpn",
    "maskrcnn_resnet50_fpn",
    "retinanet_resnet50_fpn",
    "ssdlite320_mobilenet_v3_large",
)

CODECS: dict[str, dict[str, Any]] = {
    "encodec": {"num_filters": 8, "hidden_size": 32, "codebook_dim": 32, "codebook_size": 64},
    "mimi": {
        "num_filters": 16,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "upsample_groups": 64,
        "codebook_dim": 32,
        "vector_quantization_hidden_dimension": 32,
        "codebook_size": 64,
        "num_quantizers": 4,
    },
    "dac": {"encoder_hidden_size": 8, "decoder_hidden_size": 96, "hidden_size": 128, "codebook_size": 64},
}
"""transformers' codecs, with small sizes."""

EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "jetmoe", "phimoe")
"""transformers' mixtures, shrunk as in `compile_models`."""

WIDTH, SAMPLES = 320, 4800
"""The side of an image, and the length of a recording."""

NOTES = 3
"""The number of reasons for breaks that are printed."""


def detection(name: str) -> Made:
    """Returns one of torchvision's models, and an image."""
    import torchvision

    sizes = {} if name.startswith("ssd") else {"min_size": WIDTH, "max_size": WIDTH}
    build = getattr(torchvision.models.detection, name)
    module = build(weights=None, weights_backbone=None, num_classes=5, **sizes)
    with torch.no_grad():
        for parameter, values in module.named_parameters():
            if parameter.endswith(("cls_logits.weight", "cls_score.weight")):
                values.mul_(30)
    return module, ([torch.rand(3, WIDTH, WIDTH)],)


def codec(name: str) -> Made:
    """Returns one of transformers' models, and a recording."""
    from transformers import AutoConfig, AutoModel

    return AutoModel.from_config(AutoConfig.for_model(name, **CODECS[name])), (torch.randn(1, 1, SAMPLES),)


def experts(name: str) -> Made:
    """Returns a mixture, and tokens."""
    import compile_models

    small = compile_models.small_transformer(name)
    if small is None:
        raise RuntimeError(f"{name} does not build small")
    _, module, inputs = small
    return module, tuple(inputs.values())


MODELS: dict[str, Callable[[], Made]] = {
    **{name: partial(detection, name) for name in DETECTION},
    **{name: partial(codec, name) for name in CODECS},
    **{name: partial(experts, name) for name in EXPERTS},
}


def run(output: record.Record, field: contestants.Field, only: str, seconds: float) -> None:
    """Prints and records the table: a line per model."""
    torch.set_num_threads(1)
    heads = f"{'':40}{'eager':>9}{'dynamlir':>10}  {'dynamlir/eager':22}{'error':>9}{'graphs':>8}{'breaks':>8}"
    output.part("pieces", f"pieces: milliseconds per call, dynamlir through {field.door}", heads)
    for name, make in MODELS.items():
        if only in name:
            output.add(*one(field, name, make, seconds))


def one(field: contestants.Field, name: str, make: Callable[[], Made], seconds: float) -> tuple[record.Line, str]:
    """Returns one line, and its text."""
    import dynamlir

    torch.manual_seed(0)
    module, inputs = make()
    module.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        contestants.forget()
        error = agree.worst_error(field.enter("dynamlir", module)(*inputs), module(*inputs))
        if error > agree.TOLERANCE:
            wide, wide_inputs = copy.deepcopy(module).double(), _doubles(inputs)
            error = agree.worst_error(field.enter("dynamlir", wide)(*wide_inputs), wide(*wide_inputs))
        contestants.forget()
        calls = {"eager": partial(module, *inputs), "dynamlir": partial(field.enter("dynamlir", module), *inputs)}
        samples = measure.sample(calls, seconds, measure.clock(1))
    line = record.timed(name, {"threads": 1}, samples, ["dynamlir/eager"])
    counters = dynamlir.counters()
    line.figures = {each: float(counters.get(each, 0)) for each in ("graphs", "graph_breaks")}
    line.errors, line.right = {"dynamlir": error}, error <= agree.TOLERANCE
    reasons = collections.Counter(str(event).splitlines()[0][:150] for event in dynamlir.fallbacks())
    line.notes = [f"{count} x {text}" for text, count in reasons.most_common(NOTES)]
    times = f"{line.times['eager']:9.2f}{line.times['dynamlir']:10.2f}"
    ratio = str(measure.Estimate(**line.ratios["dynamlir/eager"])).ljust(22)
    counts = "".join(f"{int(line.figures[each]):8}" for each in ("graphs", "graph_breaks"))
    return line, f"{name:40}{times}  {ratio}{error:9.1e}{counts}"


def _doubles(inputs: Sequence[Any]) -> list[Any]:
    """Returns the inputs, with floats as doubles."""
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, list(inputs)
    )

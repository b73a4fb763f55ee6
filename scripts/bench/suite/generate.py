"""`generate`: tokens per second of small models of transformers, greedy, and what the compilers compile for them.

Eager takes part unchanged. ``inductor`` compiles ``model.forward``, as transformers' users do: with a growing cache by
``model.forward = torch.compile(model.forward)``, with a static one in transformers' own way, by its ``compile_config``.
dynamlir compiles the same, ``forward``, and then all of ``generate``. Prompts have `PROMPT` tokens, answers `TOKENS`.
Each contestant has generated twice before anything is timed, and is wrong unless it gives eager's tokens.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import contestants, measure, record

PROMPT, TOKENS = 8, 24

SIZES: dict[str, Any] = dict(vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2)
HEADS: dict[str, Any] = dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)

CACHES: dict[str, dict[str, Any]] = {"dynamic": {}, "static": {"cache_implementation": "static"}}

Generate = Callable[[], torch.Tensor]


def llama() -> Any:
    """Returns a Llama."""
    import transformers

    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **HEADS))


def gpt2() -> Any:
    """Returns a GPT-2."""
    import transformers

    sizes = dict(vocab_size=512, n_embd=128, n_layer=2, n_head=4, n_positions=128)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


def qwen3() -> Any:
    """Returns a Qwen3."""
    import transformers

    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES, **HEADS, head_dim=32))


def t5() -> Any:
    """Returns a T5: an encoder besides the decoder."""
    import transformers

    sizes = dict(vocab_size=512, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))


def mixtral() -> Any:
    """Returns a Mixtral: experts."""
    import transformers

    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, **HEADS, num_local_experts=4))


MODELS: dict[str, Callable[[], Any]] = {"llama": llama, "gpt2": gpt2, "qwen3": qwen3, "t5": t5, "mixtral": mixtral}


def names(field: contestants.Field) -> list[str]:
    """Returns the contestants."""
    return ["eager", *["inductor"] * field.inductor, "forward", "whole"]


def entered(name: str, model: Any, prompt: torch.Tensor, cache: str) -> Generate:
    """Returns a call of ``generate`` as a contestant compiles it."""
    import dynamlir
    from transformers import CompileConfig

    given = dict(max_new_tokens=TOKENS, do_sample=False, pad_token_id=0, eos_token_id=None, **CACHES[cache])
    generate = model.generate
    if name == "inductor" and cache == "static":
        # With this, transformers compiles on any device.
        given["compile_config"] = config = CompileConfig(mode="default")
        config._compile_all_devices = True
    elif name == "inductor":
        model.forward = torch.compile(model.forward)
    elif name == "forward":
        model.forward = dynamlir.compile(model.forward)
    elif name == "whole":
        generate = dynamlir.compile(model.generate)

    def call() -> torch.Tensor:
        return generate(prompt, **given)

    return call


def graphs(name: str) -> tuple[int, int]:
    """Returns the number of graphs compiled for this line, and of plain runs besides them."""
    if name == "eager":
        return 0, 0
    if name == "inductor":
        found = torch._dynamo.utils.counters
        return found["stats"]["unique_graphs"], sum(found["graph_break"].values())
    import dynamlir

    found = dynamlir.counters()
    return found.get("graphs", 0), sum(found["fallbacks"].values())


def run(output: record.Record, field: contestants.Field, only: str, seconds: float) -> None:
    """Prints and records the table, a line per model and cache, on one thread."""
    torch.set_num_threads(1)
    heads = "".join(f"{name:>10}" for name in names(field))
    counts = "".join(f"{name:>10}{'plain':>7}{'s':>7}" for name in names(field)[1:])
    output.part(
        "generate",
        f"generate: tokens per second, {TOKENS} at a call; graphs, plain occasions, seconds of the first two calls",
        f"{'':18}{heads}  {counts}",
    )
    for model in MODELS:
        for cache in CACHES:
            if only in f"{model} {cache}":
                output.add(*one(field, model, cache, seconds))


def one(field: contestants.Field, model: str, cache: str, seconds: float) -> tuple[record.Line, str]:
    """Returns one line, and its text."""
    contestants.forget()
    torch.manual_seed(0)
    made = MODELS[model]().eval()
    prompt = torch.randint(3, 500, (1, PROMPT))
    calls: dict[str, Generate] = {}
    found: dict[str, tuple[int, int]] = {}
    first: dict[str, float] = {}
    tokens: dict[str, list[list[int]]] = {}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names(field):
            if name == "inductor":
                torch._dynamo.utils.counters.clear()
            before = graphs(name)
            calls[name] = call = entered(name, copy.deepcopy(made), prompt, cache)
            start = time.perf_counter()
            for _ in range(2):
                tokens[name] = call().tolist()
            first[name] = time.perf_counter() - start
            found[name] = tuple(now - then for now, then in zip(graphs(name), before))  # type: ignore[assignment]
        samples = measure.sample(calls, seconds, measure.clock(1))
    line = record.timed(f"{model} {cache}", {"threads": 1, "tokens": TOKENS}, samples, [])
    for name, (compiled, plain) in found.items():
        line.figures |= {f"{name} graphs": compiled, f"{name} plain": plain, f"{name} first": first[name]}
    line.right = all(found == tokens["eager"] for found in tokens.values())
    if not line.right:
        line.notes += [f"{name} DIFFERS FROM EAGER" for name in tokens if tokens[name] != tokens["eager"]]
    rates = "".join(f"{TOKENS / line.times[name] * 1e3:10.0f}" for name in calls)
    counts = "".join(f"{found[name][0]:10}{found[name][1]:7}{first[name]:7.1f}" for name in names(field)[1:])
    return line, f"{line.name:18}{rates}  {counts}"

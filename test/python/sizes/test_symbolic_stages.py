"""Sizes that are expressions, at stages 00 to 03: passes on a symbolic graph give the same result as at each size."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import dynamlir
import pytest
import torch
from dynamlir import _native
from stages import dump, dynamlir_opt
from symbolized import symbolized

SEEN, OTHER, MOST = 37, 53, 200


def opt(text: str, *flags: str) -> str:
    """The output of ``dynamlir-opt`` for a text."""
    made = subprocess.run([dynamlir_opt(), *flags], input=text, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[:2000]
    return made.stdout


def recorded(program: Callable[[int, Path], object], size: int, folder: Path) -> str:
    """Stage 00 of a program at a size, for an unknown machine: so products are the library's at all sizes."""
    torch.manual_seed(0)
    torch._dynamo.reset()  # Dynamo remembers the other size
    dynamlir.reset()
    program(size, folder)
    return opt(re.sub(r",? ?dynamo\.target = #dynamo\.target<[^>]*>", "", (folder / "00-aten.mlir").read_text()))


class Block(torch.nn.Module):
    """Embeddings, hand-written attention, a feed-forward layer, and the head of a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(1000, 64), torch.nn.Embedding(512, 64)
        self.before, self.after = torch.nn.LayerNorm(64), torch.nn.LayerNorm(64)
        self.heads, self.out = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)
        self.wide, self.narrow = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length = ids.shape
        x = self.words(ids) + self.places(torch.arange(length))
        query, key, value = self.heads(self.before(x)).view(batch, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) * 0.25
        past = torch.ones(length, length, dtype=torch.bool).tril()
        weights = scores.masked_fill(~past, float("-inf")).softmax(-1)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(batch, length, 64))
        x = x + self.narrow(torch.nn.functional.gelu(self.wide(self.after(x))))
        return x, x.log_softmax(-1).argmax(-1)


def block(size: int, folder: Path) -> object:
    """`Block` on a sequence."""
    return dump(Block().eval(), folder, torch.randint(0, 1000, (2, size)))


def gpt2(size: int, folder: Path) -> object:
    """A GPT-2 of two layers, with the library's masks and positions."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2Model(config).eval()
    return dump(model, folder, input_ids=torch.randint(0, 100, (2, size)), use_cache=False)


def attention_of_torch(size: int, folder: Path) -> object:
    """Attention by torch's operator, which stays a library call."""

    def attend(x: torch.Tensor) -> torch.Tensor:
        heads = x.view(2, -1, 4, 16).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(2, -1, 64)

    return dump(attend, folder, torch.randn(2, size, 64))


def written(size: int, folder: Path) -> object:
    """Tensors that are written in place, whole and in part, and returned as views."""

    def step(x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        y.relu_()
        y[:, 1].add_(1)
        state.mul_(0.5)
        return y.t(), state.view(-1)

    return dump(step, folder, torch.randn(size, 6), torch.randn(size, 4))


def batches(size: int, folder: Path) -> object:
    """A net over a batch of images: convolutions are library calls, the parts in between are generated."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 10),
    )
    return dump(net.eval(), folder, torch.randn(size, 3, 8, 8))


def assorted(size: int, folder: Path) -> object:
    """Operators that split, join, compare and reduce tensors."""

    def mixed(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        both = torch.cat([x, y.expand_as(x)], 1)
        near = torch.where(both > 0, both, both.amax(1, keepdim=True)).clamp(-1, 1)
        rows = torch.stack([x[:-1].sum(1), x[1:].prod(1)])
        taken = x.index_select(0, i) + torch.gather(x, 0, i[:, None].expand(-1, 6))
        padded = torch.nn.functional.pad(x, (1, 2))
        return near, rows, taken, padded, torch.zeros_like(x), x.repeat(1, 2), torch.cumsum(x, 0), x.var(1)

    return dump(mixed, folder, torch.randn(size, 6), torch.randn(6), torch.randint(0, size, (size,)))


@pytest.mark.parametrize("program", [block, gpt2, attention_of_torch, written, batches, assorted])
def test_passes_make_of_expressions_what_they_make_of_numbers(
    program: Callable[[int, Path], object], tmp_path: Path
) -> None:
    # Generated attention and convolutions exist for constant sizes only, at first as an alternative to the library
    # call.
    stages = ["functional", *([] if program in (gpt2, attention_of_torch, batches) else ["prims"]), "kernels"]
    symbolic = symbolized(recorded(program, SEEN, tmp_path / "seen"), SEEN, MOST)
    assert "s0" in symbolic
    other = recorded(program, OTHER, tmp_path / "other")
    at = f"--dynamo-at=symbols=s0={OTHER}"
    assert opt(symbolic, at) == other, "the recordings differ in more than the size"
    for stage in stages:
        wanted, made = opt(other, f"--dynamlir-to-{stage}"), opt(symbolic, f"--dynamlir-to-{stage}", at)
        differ = [pair for pair in zip(wanted.split("\n"), made.split("\n")) if pair[0] != pair[1]]
        assert made == wanted, f"{stage} differs, first in {differ[:1]}"


@pytest.mark.parametrize("program", [block, written, assorted])
def test_each_stage_of_expressions_replays(program: Callable[[int, Path], object], tmp_path: Path) -> None:
    text = symbolized(recorded(program, SEEN, tmp_path), SEEN, MOST)
    for step in ["aten-to-functional", "functional-to-prims", "prims-to-kernels"]:
        text = opt(text, f"--dynamlir-{step}")
        assert opt(text) == text
        assert "s0" in text


@pytest.mark.parametrize("stage", ["aten", "functional", "prims", "kernels"])
def test_one_text_is_compiled_for_many_sizes(stage: str, tmp_path: Path) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.layer_norm(x @ w, [16])
        return torch.cat([y.softmax(0), x.new_zeros(1, 16)]) * x.shape[0], y[1:].mean(0)

    args = [torch.randn(SEEN, 8), torch.randn(8, 16)]
    text = symbolized(recorded(lambda _, folder: dump(program, folder, *args), SEEN, tmp_path), SEEN, MOST)
    path = tmp_path / "program.mlir"
    path.write_text(text if stage == "aten" else opt(text, f"--dynamlir-to-{stage}"))
    for size in [2, 3, 16, 29, SEEN, 128, MOST]:
        x = torch.randn(size, 8)
        ((_, run),) = _native.load(str(path), stage, {"symbols": {"s0": size}})
        torch.testing.assert_close(tuple(run(x, args[1])), program(x, args[1]))
    for size in [1, MOST + 1]:
        with pytest.raises(ValueError, match="does not allow s0="):
            _native.load(str(path), stage, {"symbols": {"s0": size}})

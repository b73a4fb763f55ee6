"""Programs whose variables name the nodes of an exported graph, for `test_exported_names`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Program = tuple[Callable[..., Any], Sequence[Any]]

X, Y, W = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4, 4)


def stored(x):
    y = torch.sin(x)
    z = y + 1
    return z


def stored_again(x):
    y = torch.sin(x)
    y = y + 1
    y = y * 2
    return y


def stored_twice(x):
    a = b = x.sin()
    c = a
    return c + b


def nested(x):
    def inner(a):
        b = a.cos()
        return b

    y = inner(x)
    z = inner(y)
    return z + y


def helper(a):
    twice = a * 2
    total = twice.sum(0)
    return total


def calls(x):
    a = helper(x)
    b = helper(x + 1)
    return a + b


def unpacked(x):
    a, b = x.chunk(2, -1)
    c, *d = x.unbind(0)
    values, _indices = torch.max(x, 1)
    return a * b, c + d[0], values


def swapped(x, y):
    a, b = x.sin(), y.cos()
    a, b = b, a
    return a - b


def in_place(x):
    y = x.clone()
    y += 1
    y *= 2
    y[0] = 3
    return y


def looped(x):
    for i in range(3):
        x = torch.relu(x @ W)
        h = x + i
    return h


def comprehension(x):
    doubled = [t * 2 for t in x.unbind(0)]
    named = {at: t + 1 for at, t in zip(range(3), doubled, strict=True)}
    return named[0] + named[2], doubled[1]


def keywords_and_builtins(x):
    print_ = x.sin()
    list = x.cos()
    input = list + 1
    sum = input * 2
    getattr = sum - 1
    torch_ = getattr + print_
    return torch_


def clashes(x, y):
    l_x_ = x.sin()
    L_x_ = l_x_ + 1
    x = x * 2
    x = x + y
    sin = torch.cos(x)
    cos = torch.sin(sin)
    add = cos + 1
    return x + L_x_ + add


def numbered(x):
    y1 = x + 1
    y_1 = y1 + 1
    y = y_1 + 1
    y = y + 1
    return y


def underscores(x):
    _ = x + 1
    __ = _ * 2
    _x = __ - 1
    return _x


def walrus(x):
    if (n := x.sin()).shape[0] == 3:
        return (m := n + 1) * m
    return x


def closed_over(x):
    total = x.sin()

    def add(v):
        nonlocal total
        total = total + v

    add(x)
    add(total)
    return total


def handled(x):
    try:
        y = x.sin()
        raise ValueError
    except ValueError:
        y = y + 1
    return y


def keyword_arguments(x):
    y = torch.sum(x, dim=1, keepdim=True)
    z = torch.cat([x, x], dim=0)
    w = torch.where(y > 0, x, -x)
    return z, w


def indexed(x):
    a = x[0]
    b = x[:, 1:3]
    c = x[..., None]
    x = x.clone()
    x[0, 1] = 5.0
    return a, b, c, x


def functional(x):
    y = F.softmax(F.gelu(x), dim=-1)
    z = F.layer_norm(y, (4,))
    return F.relu(z, inplace=True)


def views(x):
    out = x.view(2, 6).transpose(0, 1).contiguous()
    out = out.reshape(3, 4)
    return out


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.act = nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()

    def forward(self, x):
        h = self.linear(x)
        h = self.act(h)
        out = x + h
        return self.norm(out)


class Net(nn.Module):
    """Equal layers, of which only the first is interpreted."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(5)])
        self.drop, self.norm = nn.Dropout(0.1), nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.ones(4))
        self.plain = torch.ones(4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.drop(x)
        y = self.norm(x) * self.scale
        return y + self.plain


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = F.softmax(q @ k.transpose(-2, -1) / 2.0, -1)
        x = weights @ v
        return x


class Attentions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attention() for _ in range(4)])

    def forward(self, x):
        outs = []
        for layer in self.layers:
            x = x + layer(x)
            outs.append(x)
        return torch.stack(outs)


class Masked(nn.Module):
    """Stores its argument before an operation that returns the same tensor."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, mask):
        shift = mask
        shift = shift.contiguous()
        hidden = self.linear(x) + shift
        return hidden, mask


class MaskedLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Masked() for _ in range(5))

    def forward(self, x):
        mask = x.sin()
        for layer in self.layers:
            x, mask = layer(x, mask)
        return x


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.pool = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2)
        self.embedding = nn.Embedding(5, 4)

    def forward(self, x, at):
        y = self.pool(F.relu(self.norm(self.conv(x))))
        y = y.flatten(1)
        return y, self.embedding(at)


class Sequence_(nn.Module):
    def __init__(self):
        super().__init__()
        linears = [nn.Linear(4, 4) for _ in range(3)]
        self.f = nn.Sequential(linears[0], nn.ReLU(), linears[1], nn.ReLU(), linears[2], nn.ReLU(True), nn.Softmax(-1))

    def forward(self, input):
        output = self.f(input)
        return output


_FUNCTIONS = [
    *(stored, stored_again, stored_twice, nested, calls, unpacked, in_place, looped, comprehension),
    *(keywords_and_builtins, numbered, underscores, walrus, closed_over, handled, keyword_arguments, indexed),
    *(functional, views),
]

PROGRAMS: dict[str, Program] = {
    **{function.__name__: (function, (X,)) for function in _FUNCTIONS},
    "swapped": (swapped, (X, Y)),
    "clashes": (clashes, (X, Y)),
    "equal layers": (Net().eval(), (X,)),
    "equal layers that unpack": (Attentions().eval(), (X,)),
    "convolution": (Convolution().eval(), (torch.randn(2, 3, 8, 8), torch.tensor([1, 2]))),
    "sequence": (Sequence_().eval(), (X,)),
}


def in_place_under_two_names(x):
    y = x.clone()
    z = y.mul_(2)
    return y + 1, z


def summed(x):
    s = sum(x.unbind(0))
    return s


def enumerated(x):
    rows = x.unbind(0)
    return [row + at for at, row in enumerate(rows)]


def transposed(x):
    t = x.T
    return t + 1


@torch.no_grad()
def without_gradients(x):
    y = x.sin()
    return y


OTHERWISE: dict[str, tuple[Program, str]] = {
    "in place": ((in_place_under_two_names, (X,)), "both names are one tensor, whose latest node is what is used"),
    "equal layers": (
        (MaskedLayers().eval(), (X,)),
        "contiguous() gives back the tensor itself: the latest node",
    ),
    "sum": ((summed, (X,)), "Dynamo runs a Python function of its own, whose variables name the nodes"),
    "enumerate": ((enumerated, (X,)), "Dynamo runs a Python function of its own, whose variables name the items"),
    "T": ((transposed, (X,)), "Dynamo calls an operator of aten; an attribute is one to us"),
    "no_grad": ((without_gradients, (X,)), "within no_grad already Dynamo leaves out what changes nothing"),
    "arguments first": (
        (nn.MultiheadAttention(4, 2).eval(), (X, X, X)),
        "an argument that is asked for its shape becomes an input then",
    ),
}
"""Programs with other names or nodes than Dynamo's, and the reason. The values are correct all the same."""

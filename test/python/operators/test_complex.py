"""Complex numbers: they have no kernels here, but pass between torch's operators in compiled graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from harness import check
from torch import Tensor, nn

X = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.randn(3, 3, 5, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))


def spectral(x: Tensor) -> Tensor:
    """The convolution of Fourier neural operators: the lowest modes are mixed, the others dropped."""
    modes = torch.fft.rfft(x)
    out = torch.zeros(2, 3, 9, dtype=torch.complex64)
    out[:, :, :5] = torch.einsum("bix,iox->box", modes[:, :, :5], WEIGHT)
    return torch.fft.irfft(out, n=16)


def filtered(x: Tensor) -> Tensor:
    return torch.fft.irfft(torch.fft.rfft(x * 2)[..., :5] * WEIGHT[0] + 1, n=16).relu() + x


def rotated(x: Tensor) -> Tensor:
    """Rotary embeddings with complex numbers."""
    turns = torch.polar(torch.ones(8), torch.arange(8.0))
    pairs = torch.view_as_complex(x.reshape(2, 3, 8, 2).contiguous())
    return torch.view_as_real(pairs * turns).flatten(2) * 1.5


PROGRAMS: dict[str, Callable[..., Any]] = {
    "spectral convolution": spectral,
    "filter": filtered,
    "rotation": rotated,
    "mixing": lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real + x,
    "magnitudes": lambda x: torch.fft.rfft(x).abs().sum(-1),
    "spectrogram": lambda x: torch.stft(x.flatten(), 16, return_complex=True, window=torch.ones(16)).abs(),
    "result": lambda x: torch.fft.rfft(x),
    "results with layouts": lambda x: (torch.fft.rfft(x).transpose(0, 1), torch.fft.rfft(x)[1:, ::2]),
    "concatenation": lambda x: torch.cat([torch.fft.rfft(x), torch.fft.rfft(x * 2)]),
    "transposed and copied": lambda x: torch.fft.rfft(x).transpose(0, 1).contiguous().reshape(-1) * 2,
    "real from complex": lambda x: torch.view_as_real(torch.fft.rfft(x)).sin(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_complex_values(name: str) -> None:
    check(PROGRAMS[name], X, expect="compiled", calls=2, dispatch=False)


def row_written(z: Tensor) -> Tensor:
    z = z * 2
    z[:, 0] = z[:, 1]
    return z


def written_through_views(z: Tensor) -> tuple[Tensor, Tensor]:
    z = (z + z).transpose(0, 1)
    z[1:].mul_(2)
    view = z.transpose(1, 2)
    view[0] += 1
    return z, view * 1


def filled(z: Tensor) -> Tensor:
    made = torch.zeros(4, 4, dtype=torch.complex128)
    made.diagonal().add_(1)
    made[::2] = 3
    return made + z.sum()


def argument_written(z: Tensor) -> Tensor:
    z.mul_(2)
    z[0, 0].zero_()
    return z.abs().sum() + 1


def real_written_from_complex(z: Tensor) -> Tensor:
    out = torch.empty(z.shape)
    out.copy_(z)
    return out * 2


EXPANDED: dict[str, Callable[..., Any]] = {
    "copied": lambda z: z.expand(2, 3).clone(),
    "used": lambda z: z.expand(2, 3) + 1,
    "transformed": lambda z: torch.fft.fft(torch.broadcast_to(z, (2, 3))),
    "made and expanded": lambda z: (z.reshape(3, 1) * 2).expand(3, 4) * 1,
    "nothing": lambda z: z.expand(0, 3) * 2,
    "returned": lambda z: z.expand(2, 3),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_expanded_complex_numbers(name: str) -> None:
    """Elements that an expanded tensor shows many times are stored once."""
    z = torch.randn(3, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))
    check(EXPANDED[name], z, expect="compiled", calls=2, dispatch=False)


@pytest.mark.parametrize("function", [row_written, written_through_views, filled, real_written_from_complex])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_writes_of_complex_numbers(function: Callable[..., Any], dtype: torch.dtype) -> None:
    z = torch.randn(2, 3, 4, dtype=dtype, generator=torch.Generator().manual_seed(2))
    check(function, z, expect="compiled", calls=2, dispatch=False)


def test_a_module_with_complex_parameters() -> None:
    class Filter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(WEIGHT[0].clone())

        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.irfft(torch.fft.rfft(x)[..., :5] * self.weight, n=16) + x

    model = Filter().eval()
    compiled = dynamlir.compile(model, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), model(X))
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(X), model(X))


@pytest.mark.whole
@torch.no_grad()
@pytest.mark.filterwarnings("ignore::dynamlir.PlainRunWarning")
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: (x * 1j).imag, "complex"),
        (lambda x: torch.fft.fft(x).conj() * 2, "lazy-bit"),
        (lambda x: torch.fft.fft(x).to(torch.complex32), "complex"),
        (lambda x: torch.view_as_complex(x.view(2, 3, 8, 2)), "aliasing"),
        (argument_written, "complex"),
    ],
)
def test_what_runs_plain(function: Callable[..., Any], reason: str) -> None:
    dynamlir.reset()
    given = torch.fft.rfft(X) if function is argument_written else X
    seen, right = dynamlir.compile(function)(given.clone()), function(given.clone())
    assert seen.dtype == right.dtype and torch.allclose(seen.to(torch.cfloat), right.to(torch.cfloat))
    assert [event.reason for event in dynamlir.fallbacks()] == [reason]


@torch.no_grad()
@dynamlir.config.patch(on_plain="ignore")
def test_a_conjugated_argument_is_another_call() -> None:
    """The conjugate bit is not data: guards distinguish this argument from a tensor that stores the same values."""
    z = torch.fft.fft(X)
    compiled = dynamlir.compile(lambda z: z * 2)
    for given in (z, z.conj(), z, z.conj().resolve_conj()):
        torch.testing.assert_close(compiled(given), given * 2)

"""The parts of the operation fuzzer's programs: names of functions, and lines with holes, for `op_programs`."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


UNARY = _words("""
neg abs exp log sqrt rsqrt sin cos tan tanh sigmoid erf erfc floor ceil round trunc sign isnan isinf
signbit square reciprocal expm1 log1p exp2 log2 log10 lgamma asin atan sinh asinh logical_not
isfinite sgn positive frac rad2deg special.entr special.ndtr special.i0e special.sinc logit
""")

ACTIVATIONS = _words("""
relu relu6 gelu silu mish elu selu celu hardswish hardsigmoid hardtanh leaky_relu softplus
softshrink hardshrink tanhshrink logsigmoid softsign
""")

BINARY = _words("""
add sub mul div true_divide floor_divide remainder fmod pow maximum minimum atan2 fmax fmin copysign
hypot xlogy logaddexp logaddexp2 heaviside eq ne lt le gt ge logical_and logical_or logical_xor
bitwise_and bitwise_or bitwise_xor nextafter ldexp float_power special.xlog1py rsub
""")

REDUCTIONS = _words("""
sum mean prod amax amin argmax argmin std var any all count_nonzero nansum median
""")

ALONG = _words("""
sum mean prod amax amin argmax argmin std var std_mean var_mean logsumexp any all max min cumsum
cumprod softmax log_softmax median sort norm diff logcumsumexp cummax
""")

LAST = """
{a}.kthvalue({k}, {d})
{a}.topk({k}, {d})
F.normalize({a}, dim={d})
F.glu({a}, {d})
""".strip().splitlines()

VIEWS = """
{a}.transpose({d}, {e})
{a}.unsqueeze({d})
{a}.squeeze()
{a}.squeeze({d})
{a}.flatten()
{a}.reshape(-1)
{a}.mT
{a}[..., ::2]
{a}[{half}:]
{a}[:, None]
{a}[-1]
{a}.select({d}, 0)
{a}.detach()
{a}.view(-1)
{a}.narrow({d}, 0, 1)
{a}.unfold({d}, 1, 1)
{a}.diagonal()
{a}.expand(2, *{a}.shape)
{a}.chunk(2, {d})[0]
{a}.movedim({d}, {e})
{a}.T
{a}.view({a}.shape)
{a}.contiguous()
{a}.unbind({d})[0]
{a}.swapaxes(0, -1)
{a}.reshape({r})
{a}.view({r})
{a}.data
""".strip().splitlines()

COPIES = """
{a}.clone()
{a}.flip({d})
{a}.roll(1, {d})
torch.cat([{a}, {a}], {d})
torch.stack([{a}, {a}], {d})
{a}.tril()
{a}.triu(1)
{a}.repeat(2, *[1] * {a}.dim())
{a}.float()
{a}.double()
{a}.long()
{a}.half()
{a}.bfloat16()
{a}.bool()
{a}.to(torch.uint8)
torch.zeros_like({a})
torch.full_like({a}, 2)
torch.ones_like({a}, dtype=torch.int32)
{a}.repeat_interleave(2, {d})
F.pad({a}, (1, 0))
F.pad({a}, (0, -1), value=3)
torch.arange({a}.numel())
{a}.new_zeros(3)
torch.rot90({a})
{a}.clamp(-1, 1)
{a}.clamp(min=0)
torch.eye(3, 4)
torch.tensor(0.5)
torch.tensor([1, 2])
{a}.contiguous(memory_format=torch.channels_last)
F.channel_shuffle({a}, 1)
{a}.nan_to_num()
F.channel_shuffle({a}, 3)
F.pixel_shuffle({a}, 2)
torch.linspace(0, 1, 5)
{a} * torch.arange({a}.shape[-1])
""".strip().splitlines()

INDEXED = """
{a}[{i}]
{a}[..., {i}]
{a}[:, {i}]
{a}.index_select({d}, {i})
{a}.gather({d}, {i})
{a}.take({i})
F.embedding({i}, {a})
F.one_hot({i}, {classes})
F.one_hot({i} % 3, 3)
{a}.index_add({d}, {i}, {b})
{a}.take({i} % 2)
{a}.index_fill({d}, {i}, 1)
{a}.scatter({d}, {i}, 1)
{a}.index_copy({d}, {i}, {b})
F.cross_entropy({a}, {i})
{a}[{i}, {i}]
{a}.scatter_add({d}, {i}, {b})
{a}[{i}.t()]
{i} // {i}
{i} % ({i} - 1)
F.nll_loss({a}, {i})
""".strip().splitlines()

CHOICES = """
torch.where({m}, {a}, {b})
torch.where({a} > 0, {a}, {n})
{a}.masked_fill({m}, {n})
torch.where({a} > {b}, {a}, {a})
""".strip().splitlines()

PRODUCTS = """
{a} @ {b}
{a} @ {b}.mT
F.linear({a}, {b})
torch.einsum('...i,...i->...', {a}, {b})
torch.outer({a}.flatten()[:9], {a}.flatten()[:9])
F.layer_norm({a}, {a}.shape[-1:])
F.rms_norm({a}, {a}.shape[-1:])
F.batch_norm({a}, None, None, training=True)
F.scaled_dot_product_attention({a}, {b}, {b})
F.max_pool2d({a}, 2)
F.avg_pool2d({a}, 2)
F.mse_loss({a}, {b})
F.conv1d({a}, {b})
F.group_norm({a}, 1)
F.adaptive_avg_pool2d({a}, 1)
F.interpolate({a}, scale_factor=2)
torch.addcmul({a}, {a}, {b}, value=2)
torch.lerp({a}, {b}, 0.3)
torch.cdist({a}, {b})
F.dropout({a}, 0.5)
torch.bernoulli({a}.sigmoid())
torch.rand_like({a})
F.cosine_similarity({a}, {b})
F.binary_cross_entropy({a}, {b})
""".strip().splitlines()

WRITES = """
{a}.add_({b})
{a}.mul_({n})
{a}.zero_()
{a}.fill_({n})
{a}.copy_({b})
{a}.relu_()
{a}[0] = {n}
{a}[..., 1:] = 0
{a}[{i}] = {n}
{a}[{m}] = {n}
{a}.masked_fill_({m}, {n})
{a}.index_add_({d}, {i}, {b})
{a}.clamp_(-1, 1)
{a}.sub_({b})
torch.add({a}, {b}, out={a})
torch.abs({b}, out={a})
{a}.t().mul_(2)
{a}.copy_({a}.flip(-1))
{a}.div_(2)
{a}.bernoulli_(0.5)
{a}.uniform_()
{a}.transpose(0, -1).add_(1)
{a}.cumsum_({d})
{a}.scatter_({d}, {i}, 1)
{a}.squeeze_()
{a}.unsqueeze_(0)
{a}.data.mul_(2)
torch.sum({b}, 0, out={a})
{a} += {b}
{a}.t_()
""".strip().splitlines()

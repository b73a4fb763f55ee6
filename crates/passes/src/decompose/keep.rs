//! The ops that are deliberately kept as extern calls, except for special cases that a table lowers (dropout outside training, products
//! that are worth generating).

/// Schemas that are not decomposed even if a decomposition is available: libraries are faster at them, they raise depending on values (an
/// index out of range), they draw random numbers, or their result depends on an algorithm in eager.
pub const KEEP: &[&str] = &[
    // Products and convolutions; see `product`.
    "aten.mm.default",
    "aten.addmm.default",
    "aten.bmm.default",
    "aten.baddbmm.default",
    "aten.convolution.default",
    "aten._convolution.default",
    "aten.convolution_backward.default",
    // Attention.
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
    "aten.scaled_dot_product_attention.default",
    // Pooling over windows of many taps, and backwards.
    "aten.max_pool2d_with_indices.default",
    "aten.max_pool3d_with_indices.default",
    "aten.max_pool2d_with_indices_backward.default",
    "aten.avg_pool2d.default",
    "aten.avg_pool3d.default",
    // Writes by index: indices out of range raise, and writes to the same place have an order.
    "aten.index_put.default",
    "aten.index_add.default",
    "aten.index_copy.default",
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
    "aten.put.default",
    // Losses that raise if a target is not a class.
    "aten.multi_margin_loss.default",
    "aten.multilabel_margin_loss_forward.default",
    // Sorting.
    "aten.sort.default",
    "aten.sort.stable",
    "aten.topk.default",
    "aten.kthvalue.default",
    "aten.mode.default",
    "aten.median.default",
    "aten.median.dim",
    // Resampling. Torch's decomposition of image sampling multiplies pixels outside the image by zero, whereas the kernel skips them; and
    // for images with three channels generated code takes twice as long.
    "aten.upsample_nearest2d.default",
    "aten.upsample_bilinear2d.default",
    "aten.upsample_trilinear3d.default",
    "aten.grid_sampler_2d.default",
    "aten.grid_sampler_3d.default",
    // Random numbers that are not generated here: torch draws them, in its own order.
    "aten.rand.default",
    "aten.randn.default",
    "aten.rand_like.default",
    "aten.randn_like.default",
    "aten.randint.default",
    "aten.randint.low",
    "aten.randperm.default",
    "aten.bernoulli.default",
    "aten.bernoulli.p",
    "aten.multinomial.default",
    "aten.normal.Tensor_float",
    "aten.normal.Tensor_Tensor",
    "aten.normal.float_float",
    "aten.native_dropout.default",
    "aten.rrelu_with_noise.default",
    // Fourier transforms and linear algebra.
    "aten._fft_r2c.default",
    "aten._fft_c2r.default",
    "aten._fft_c2c.default",
    "aten._linalg_svd.default",
    "aten._linalg_eigh.default",
    "aten._linalg_det.default",
    "aten._linalg_slogdet.default",
    "aten._linalg_solve_ex.default",
    "aten.linalg_qr.default",
    "aten.linalg_inv_ex.default",
    "aten.linalg_lu_factor_ex.default",
    "aten.linalg_cholesky_ex.default",
    "aten.linalg_solve_triangular.default",
];

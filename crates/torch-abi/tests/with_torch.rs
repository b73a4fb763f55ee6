//! Tensors and op calls on a real libtorch, without Python.
//!
//! Needs `DYNAMLIR_TORCH_LIB`, the `lib` folder of an installed torch; without it the tests report that they are skipped.

#![expect(clippy::cast_ptr_alignment, reason = "torch aligns its memory to 64 bytes")]

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::OnceLock;

use dynamlir_torch_abi::{Arg as A, BelowAutograd, DType, Device, InitArgs, OpCall, OwnedTensor, Route, Signature, TensorRef, TorchAbi};

/// Loads torch as Python would, locally, and initialises the ABI.
fn torch() -> Option<&'static TorchAbi> {
    static ABI: OnceLock<Option<&'static TorchAbi>> = OnceLock::new();
    *ABI.get_or_init(|| {
        let Some(dir) = std::env::var_os("DYNAMLIR_TORCH_LIB").map(PathBuf::from) else {
            eprintln!("skipped: DYNAMLIR_TORCH_LIB is not set");
            return None;
        };
        let path = CString::new(dir.join("libtorch_cpu.so").to_str()?).ok()?;
        // SAFETY: loads torch, whose initialisers are meant to run in any process.
        let torch = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!torch.is_null(), "torch does not load");
        Some(TorchAbi::init(&InitArgs { lib_dir: Some(dir), ..InitArgs::default() }).expect("torch's ABI is found"))
    })
}

fn floats(values: &[f32], sizes: &[i64]) -> OwnedTensor {
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i];
    }
    let t = TorchAbi::get().and_then(|a| a.empty_strided(sizes, &strides, DType::F32)).expect("a tensor");
    let p = t.as_ref().data_ptr().expect("memory").cast::<f32>();
    // SAFETY: the tensor holds this many floats.
    unsafe { std::slice::from_raw_parts_mut(p, values.len()) }.copy_from_slice(values);
    t
}

/// Returns the elements in row-major order.
fn read(t: TensorRef<'_>) -> Vec<f32> {
    let sizes = t.sizes().expect("sizes");
    let dense = floats(&vec![0.0; t.numel().expect("numel") as usize], sizes);
    dense.as_ref().copy_from(t).expect("copies");
    let p = dense.as_ref().data_ptr().expect("memory").cast::<f32>();
    // SAFETY: dense and of this size.
    unsafe { std::slice::from_raw_parts(p, t.numel().expect("numel") as usize) }.to_vec()
}

fn ints(values: &[i64]) -> A {
    A::List(values.iter().map(|v| A::Int(*v)).collect())
}

fn op(abi: &TorchAbi, first: Route, text: &str, args: &[A], operands: &[TensorRef<'_>]) -> (Route, Vec<Option<OwnedTensor>>) {
    let types: Vec<_> = operands.iter().map(|t| t.dtype().expect("reads").expect("known")).collect();
    let call = OpCall::prepare(abi, Device::Cpu, first, &Signature::parse(text).expect("parses"), args, &types, 0).expect("is prepared");
    (call.route(), call.call(abi, operands, &[]).expect("is called"))
}

fn one(results: Vec<Option<OwnedTensor>>) -> OwnedTensor {
    results.into_iter().next().flatten().expect("a result")
}

#[test]
fn ops_by_both_native_routes() {
    let Some(abi) = torch() else { return };
    let _below = BelowAutograd::enter(abi);
    let x = floats(&[1.0, -2.0, 3.0, 4.0], &[1, 1, 2, 2]);
    let w = floats(&[1.0, 1.0, 1.0, 1.0], &[1, 1, 2, 2]);
    let bias = floats(&[0.5], &[1]);
    let conv = "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor";
    let conv_args = |b: A| {
        let two = |v| ints(&[v, v]);
        vec![A::Operand(0), A::Operand(1), b, two(1), two(0), two(1), A::Bool(false), two(0), A::Int(1)]
    };
    for route in [Route::CShim, Route::Dispatcher] {
        let (taken, out) = op(abi, route, conv, &conv_args(A::Operand(2)), &[x.as_ref(), w.as_ref(), bias.as_ref()]);
        assert_eq!((taken, read(one(out).as_ref())), (route, vec![6.5]));
        let (taken, out) = op(abi, route, conv, &conv_args(A::None), &[x.as_ref(), w.as_ref()]);
        assert_eq!((taken, read(one(out).as_ref())), (route, vec![6.0]));
    }
    let a = floats(&[1.0, 2.0], &[1, 2]);
    let cat = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor";
    for route in [Route::CShim, Route::Dispatcher] {
        let list = A::List(vec![A::Operand(0), A::Operand(1), A::Operand(0)]);
        let (taken, out) = op(abi, route, cat, &[list, A::Int(1)], &[a.as_ref(), a.as_ref()]);
        assert_eq!((taken, read(one(out).as_ref())), (route, vec![1.0, 2.0, 1.0, 2.0, 1.0, 2.0]));
    }
    let long = abi.empty_strided(&[2], &[1], DType::I64).expect("a tensor");
    // SAFETY: two longs.
    unsafe { std::slice::from_raw_parts_mut(long.as_ref().data_ptr().expect("memory").cast::<i64>(), 2) }.copy_from_slice(&[1, 0]);
    let index = "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor";
    for route in [Route::CShim, Route::Dispatcher] {
        let args = [A::Operand(0), A::List(vec![A::None, A::Operand(1)])];
        let (taken, out) = op(abi, route, index, &args, &[a.as_ref(), long.as_ref()]);
        assert_eq!((taken, read(one(out).as_ref())), (route, vec![2.0, 1.0]));
    }
    let q = floats(&[0.5; 2 * 3 * 4], &[1, 2, 3, 4]);
    let sdpa = "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)";
    let qkv = [A::Operand(0), A::Operand(0), A::Operand(0), A::Float(0.0), A::Bool(true), A::None, A::Float(0.25)];
    for route in [Route::CShim, Route::Dispatcher] {
        let (taken, out) = op(abi, route, sdpa, &qkv, &[q.as_ref()]);
        assert_eq!((taken, out.len(), read(one(out).as_ref())), (route, 2, vec![0.5; 24]));
    }
    let copy = "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor";
    let (cpu, strided) = (A::Device("cpu".to_owned()), A::Layout("strided".to_owned()));
    let format = A::MemoryFormat("channels_last".to_owned());
    let args = [A::Operand(0), A::DType(DType::F64), strided, cpu, A::None, A::Bool(false), format];
    let image = floats(&[1.0; 16], &[1, 4, 2, 2]);
    let out = one(op(abi, Route::CShim, copy, &args, &[image.as_ref()]).1);
    assert_eq!((out.as_ref().dtype(), out.as_ref().strides()), (Ok(Some(DType::F64)), Ok(&[16, 1, 8, 4][..])));
    let split = "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]";
    let parts = op(abi, Route::CShim, split, &[A::Operand(0), A::Int(3), A::Int(0)], &[floats(&[0.0, 1.0, 2.0, 3.0], &[4]).as_ref()]).1;
    assert_eq!(parts.iter().map(|p| read(p.as_ref().expect("a part").as_ref())).collect::<Vec<_>>(), [vec![0.0, 1.0, 2.0], vec![3.0]]);
    let gelu = "aten::gelu(Tensor self, *, str approximate='none') -> Tensor";
    assert_eq!(
        read(one(op(abi, Route::CShim, gelu, &[A::Operand(0), A::Str("tanh".to_owned())], &[floats(&[0.0], &[1]).as_ref()]).1).as_ref()),
        [0.0]
    );
    let bernoulli = "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor";
    assert_eq!(read(one(op(abi, Route::CShim, bernoulli, &[A::Operand(0), A::None], &[floats(&[1.0], &[1]).as_ref()]).1).as_ref()), [1.0]);
    let norm = "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)";
    let args = [A::Operand(0), ints(&[2]), A::None, A::None, A::Float(0.0)];
    let out = op(abi, Route::CShim, norm, &args, &[a.as_ref()]).1;
    assert_eq!((out.len(), read(one(out).as_ref())), (3, vec![-1.0, 1.0]));
}

#[test]
fn refusals_speak_torchs_words() {
    let Some(abi) = torch() else { return };
    let a = floats(&[0.0; 6], &[2, 3]);
    let mm = Signature::parse("aten::mm(Tensor self, Tensor mat2) -> Tensor").expect("parses");
    let call = OpCall::prepare(abi, Device::Cpu, Route::Dispatcher, &mm, &[A::Operand(0), A::Operand(1)], &[DType::F32; 2], 0)
        .expect("is prepared");
    let error = call.call(abi, &[a.as_ref(), a.as_ref()], &[]).expect_err("shapes do not fit");
    assert!(error.message().contains("mat1 and mat2 shapes cannot be multiplied"), "{error}");
    let add = Signature::parse("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor").expect("parses");
    let args = [A::Operand(0), A::Operand(1), A::Int(1)];
    assert_eq!(
        OpCall::prepare(abi, Device::Cpu, Route::CShim, &add, &args, &[DType::F32; 2], 0).expect("is prepared").route(),
        Route::CShim
    );
    let refused =
        OpCall::prepare(abi, Device::Cpu, Route::CShim, &add, &args, &[DType::I64; 2], 0).err().expect("integers would be promoted");
    assert!(refused.message().contains("integer scalar"), "{refused}");
}

#[test]
fn views_share_and_blobs_do_not_own() {
    let Some(abi) = torch() else { return };
    let t = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
    let view = t.as_ref().as_strided(&[2], &[3], 1).expect("a view");
    // The same number of dimensions and the same first element: this avoids the boxed dispatcher call.
    let turned = t.as_ref().as_strided(&[3, 2], &[1, 3], 0).expect("a view");
    drop(t);
    assert_eq!(read(view.as_ref()), [1.0, 4.0]);
    assert_eq!(read(turned.as_ref()), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert!(view.as_ref().as_strided(&[2], &[9], 1).is_err(), "beyond its memory");
    assert_eq!((view.as_ref().storage_offset(), view.as_ref().storage_bytes()), (Ok(1), Ok(24)));
    let mut memory = [1.0_f32, 2.0, 3.0, 4.0];
    // SAFETY: the array outlives the tensor.
    let blob = unsafe { abi.from_blob(Device::Cpu, memory.as_mut_ptr().cast(), &[2, 2], &[1, 2], DType::F32) }.expect("a tensor");
    assert_eq!(read(blob.as_ref()), [1.0, 3.0, 2.0, 4.0]);
    view.as_ref().bump_version(2).expect("counts");
}

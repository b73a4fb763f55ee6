//! Runs plans on a real libtorch, without Python.
//!
//! Needs `DYNAMLIR_TORCH_LIB`, the `lib` folder of an installed torch; without it the tests report that they are skipped.

#![expect(clippy::cast_ptr_alignment, reason = "torch aligns its memory to 64 bytes")]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use dynamlir_runtime::{
    Const, DType, Device, Executable, ExternArg as A, ExternCall, InputSpec, Kernel, KernelSpec, Layout, Output, OutputValue, OwnedTensor,
    Plan, PythonCalls, PythonError, Route, RunError, Step, TensorRef, TorchAbi, omp,
};
use dynamlir_torch_abi::InitArgs;

/// Loads torch as Python would, locally, and initializes the ABI.
fn torch() -> Option<&'static TorchAbi> {
    static ABI: OnceLock<Option<&'static TorchAbi>> = OnceLock::new();
    *ABI.get_or_init(|| {
        let Some(dir) = std::env::var_os("DYNAMLIR_TORCH_LIB").map(PathBuf::from) else {
            eprintln!("skipped: DYNAMLIR_TORCH_LIB is not set");
            return None;
        };
        let path = CString::new(dir.join("libtorch_cpu.so").to_str()?).ok()?;
        // SAFETY: loads torch, whose initializers are meant to run in any process.
        let torch = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!torch.is_null(), "torch does not load");
        Some(TorchAbi::init(&InitArgs { lib_dir: Some(dir), ..InitArgs::default() }).expect("torch's ABI is found"))
    })
}

/// Replaces Python: knows schemas, and answers calls of one op that has no native route.
#[derive(Default)]
struct Fake {
    schemas: HashMap<&'static str, &'static str>,
    calls: usize,
}

impl Fake {
    fn new() -> Self {
        let schemas = [
            ("aten.mm.default", "aten::mm(Tensor self, Tensor mat2) -> Tensor"),
            ("aten.addmm.default", "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
            ("aten.relu.default", "aten::relu(Tensor self) -> Tensor"),
            ("aten.relu_.default", "aten::relu_(Tensor(a!) self) -> Tensor(a!)"),
            ("aten.t.default", "aten::t(Tensor(a) self) -> Tensor(a)"),
            ("mine.double.default", "mine::double(Tensor self, Other x) -> Tensor"),
        ];
        Self { schemas: schemas.into(), calls: 0 }
    }
}

impl PythonCalls for Fake {
    fn signature(&mut self, schema: &str) -> Option<String> {
        self.schemas.get(schema).map(|s| (*s).to_owned())
    }

    fn call(&mut self, call: &ExternCall, operands: &[TensorRef<'_>]) -> Result<Vec<Option<OwnedTensor>>, PythonError> {
        self.calls += 1;
        if call.location == "raise" {
            return Err(PythonError { message: "no luck".to_owned(), payload: Some(Box::new(7_i32)) });
        }
        Ok(vec![Some(floats(&read(operands[0]).iter().map(|x| 2.0 * x).collect::<Vec<_>>(), operands[0].sizes().expect("sizes")))])
    }
}

fn floats(values: &[f32], sizes: &[i64]) -> OwnedTensor {
    let layout = Layout::contiguous(DType::F32, sizes);
    let t = TorchAbi::get().and_then(|a| a.empty_strided(sizes, &layout.window.strides, DType::F32)).expect("a tensor");
    let p = t.as_ref().data_ptr().expect("memory").cast::<f32>();
    // SAFETY: the tensor holds this many floats.
    unsafe { std::slice::from_raw_parts_mut(p, values.len()) }.copy_from_slice(values);
    t
}

/// The elements in row-major order.
fn read(t: TensorRef<'_>) -> Vec<f32> {
    let sizes = t.sizes().expect("sizes");
    let dense = floats(&vec![0.0; t.numel().expect("numel") as usize], sizes);
    dense.as_ref().copy_from(t).expect("copies");
    let p = dense.as_ref().data_ptr().expect("memory").cast::<f32>();
    // SAFETY: dense and of this size.
    unsafe { std::slice::from_raw_parts(p, t.numel().expect("numel") as usize) }.to_vec()
}

unsafe extern "C" fn add_one(row: *const *mut c_void) {
    // SAFETY: the plans below give it four floats in and four out.
    unsafe {
        let (x, y) = (row.read().cast::<f32>(), row.add(1).read().cast::<f32>());
        for i in 0..4 {
            *y.add(i) = *x.add(i) + 1.0;
        }
    }
}

fn f32s(sizes: &[i64]) -> Layout {
    Layout::contiguous(DType::F32, sizes)
}

fn input(layout: Layout, mutated: bool) -> InputSpec {
    InputSpec { layout, storage: None, mutated, version_bumps: i64::from(mutated) }
}

fn call(schema: &str, args: Vec<A>, layout: Layout) -> ExternCall {
    let (schema, location) = (schema.to_owned(), "model.py:3".to_owned());
    ExternCall { schema, args, route: Route::CShim, result_layouts: vec![Some(layout)], location }
}

fn kernel() -> Vec<Kernel> {
    // SAFETY: a function of this program, which lives as long as it.
    vec![unsafe { Kernel::from_parts(add_one, Arc::new(())) }]
}

/// t = x + 1; m = t @ w.T (into the workspace); r = relu(m); out = r + 1; then x = out.
fn chain() -> Plan {
    let m = || f32s(&[2, 2]);
    Plan {
        device: Device::Cpu,
        inputs: vec![input(m(), true), input(m(), false)],
        workspace_bytes: 128,
        steps: vec![
            Step::Buffer { dst: 2, byte_offset: 0, layout: m() },
            Step::Launch { kernel: 0, args: vec![0, 2], sizes: vec![] },
            Step::View { dst: 3, src: 1, layout: m().with_strides(&[1, 2]) },
            Step::Buffer { dst: 4, byte_offset: 64, layout: m() },
            Step::Extern { call: 0, operands: vec![2, 3], outs: vec![4], results: vec![] },
            Step::Extern { call: 1, operands: vec![4], outs: vec![], results: vec![5] },
            Step::OutputBuffer { dst: 6, layout: m() },
            Step::Launch { kernel: 0, args: vec![5, 6], sizes: vec![] },
            Step::Commit,
            Step::Launch { kernel: 0, args: vec![6, 0], sizes: vec![] },
        ],
        results: vec![6, 5],
        versions: vec![2],
        outputs: vec![
            Output::Result(0),
            Output::ResultView { result: 1, sizes: vec![2], strides: vec![1], offset: 2 },
            Output::Arg(0),
            Output::ArgView { arg: 1, sizes: vec![1], strides: vec![1], offset: 3 },
            Output::Same(0),
            Output::Const(Const::Int(5)),
        ],
        externs: vec![
            call("aten.mm.default", vec![A::Operand(0), A::Operand(1)], m()),
            call("aten.relu.default", vec![A::Operand(0)], m()),
        ],
        kernels: vec![KernelSpec { name: "add_one".to_owned(), arguments: 2, written: 1, sizes: 0 }],
        ..Plan::default()
    }
}

#[test]
fn a_plan_runs_again_and_again() {
    let Some(abi) = torch() else { return };
    let mut py = Fake::new();
    let exe = Executable::new(abi, chain(), kernel(), &mut py).expect("loads");
    let routes: Vec<_> = exe.extern_reports().map(|r| r.route).collect();
    assert_eq!(routes, [Route::CShim, Route::Dispatcher]);
    // The second input has another storage offset than when the plan was created.
    let backing = floats(&[9.0, 1.0, -5.0, 0.0, 1.0], &[5]);
    let w = backing.as_ref().as_strided(&[2, 2], &[2, 1], 1).expect("a view");
    for round in 0..3 {
        let x = floats(&[0.0, 1.0, 2.0, 3.0], &[2, 2]);
        let out = exe.run(&[x.as_ref(), w.as_ref()], &mut py).expect("runs");
        // t = [1 2; 3 4], w = [1 -5; 0 1], t @ w.T = [-9 2; -17 4]
        let tensor = |i: usize| {
            if let OutputValue::Tensor(t) = &out[i] { read(t.as_ref()) } else { panic!("output {i}") }
        };
        assert_eq!(tensor(0), [1.0, 3.0, 1.0, 5.0], "round {round}");
        assert_eq!(tensor(1), [0.0, 4.0]);
        assert_eq!(tensor(3), [1.0]);
        assert!(matches!(out[2], OutputValue::Arg(0)) && matches!(out[4], OutputValue::Same(0)));
        assert_eq!(read(x.as_ref()), [2.0, 4.0, 2.0, 6.0]);
    }
    assert_eq!(py.calls, 0);
}

#[test]
fn guards_fail_before_anything_happens() {
    let Some(abi) = torch() else { return };
    let mut py = Fake::new();
    let exe = Executable::new(abi, chain(), kernel(), &mut py).expect("loads");
    let (x, w) = (floats(&[0.0; 4], &[2, 2]), floats(&[0.0; 4], &[2, 2]));
    let mut reason = |inputs: &[TensorRef<'_>]| match exe.run(inputs, &mut py) {
        Err(RunError::Guard(unfit)) => unfit.what,
        other => panic!("expected a guard, got {:?}", other.map(|o| o.len())),
    };
    assert!(reason(&[x.as_ref()]).contains("2 tensors"));
    assert!(reason(&[x.as_ref(), x.as_ref()]).contains("overlaps"));
    assert!(reason(&[x.as_ref(), floats(&[0.0; 4], &[4]).as_ref()]).contains("sizes"));
    let turned = w.as_ref().as_strided(&[2, 2], &[1, 2], 0).expect("a view");
    assert!(reason(&[x.as_ref(), turned.as_ref()]).contains("strides"));
    let double = abi.empty_strided(&[2, 2], &[2, 1], DType::F64).expect("a tensor");
    assert!(reason(&[x.as_ref(), double.as_ref()]).contains("f32 expected, f64"));
    assert_eq!(read(x.as_ref()), [0.0; 4]);
}

#[test]
fn python_calls_and_results_that_alias_or_differ() {
    let Some(abi) = torch() else { return };
    let mut py = Fake::new();
    let m = || f32s(&[2, 2]);
    let plan = |location: &str| Plan {
        inputs: vec![input(m(), false)],
        workspace_bytes: 64,
        steps: vec![
            Step::Buffer { dst: 1, byte_offset: 0, layout: m() },
            Step::Launch { kernel: 0, args: vec![0, 1], sizes: vec![] },
            // Returns a view of workspace memory, with other strides than the plan expects.
            Step::Extern { call: 0, operands: vec![1], outs: vec![], results: vec![2] },
            Step::Extern { call: 1, operands: vec![2], outs: vec![], results: vec![3] },
        ],
        results: vec![2, 3],
        outputs: vec![Output::Result(0), Output::Result(1)],
        externs: vec![
            call("aten.t.default", vec![A::Operand(0)], m()),
            ExternCall { location: location.to_owned(), ..call("mine.double.default", vec![A::Operand(0), A::None], m()) },
        ],
        kernels: vec![KernelSpec { name: "add_one".to_owned(), arguments: 2, written: 1, sizes: 0 }],
        ..Plan::default()
    };
    let exe = Executable::new(abi, plan("here"), kernel(), &mut py).expect("loads");
    let report = exe.extern_reports().nth(1).expect("two").clone();
    assert_eq!(report.route, Route::Python);
    assert!(report.reason.contains("cannot cross"), "{}", report.reason);
    let x = floats(&[0.0, 1.0, 2.0, 3.0], &[2, 2]);
    let run = |exe: &Executable, py: &mut Fake| exe.run(&[x.as_ref()], py);
    let out = run(&exe, &mut py).expect("runs");
    let again = run(&exe, &mut py).expect("runs");
    for out in [out, again] {
        let [OutputValue::Tensor(t), OutputValue::Tensor(doubled)] = &out[..] else { panic!("two tensors") };
        assert_eq!((t.as_ref().strides(), read(t.as_ref())), (Ok(&[2, 1][..]), vec![1.0, 3.0, 2.0, 4.0]));
        assert_eq!(read(doubled.as_ref()), [2.0, 6.0, 4.0, 8.0]);
    }
    assert_eq!(py.calls, 2);
    let raising = Executable::new(abi, plan("raise"), kernel(), &mut py).expect("loads");
    match run(&raising, &mut py) {
        Err(RunError::Failed(f)) => {
            assert_eq!((f.message.as_str(), f.location.as_deref()), ("no luck", Some("raise")));
            assert!(f.payload.is_some_and(|p| p.downcast_ref::<i32>() == Some(&7)));
        }
        other => panic!("expected a failure, got {:?}", other.map(|o| o.len())),
    }
}

#[test]
fn operators_are_held_against_their_schemas() {
    let Some(abi) = torch() else { return };
    let plan = |schema: &str, args: &[A], results: usize| {
        let layouts = vec![Some(f32s(&[2, 2])); results];
        Plan {
            inputs: vec![input(f32s(&[2, 2]), false)],
            steps: vec![Step::Extern { call: 0, operands: vec![0], outs: vec![], results: (1..=results).collect() }],
            externs: vec![ExternCall { result_layouts: layouts, ..call(schema, args.to_vec(), f32s(&[2, 2])) }],
            ..Plan::default()
        }
    };
    let refused = |plan: Plan| match Executable::new(abi, plan, vec![], &mut Fake::new()) {
        Ok(_) => panic!("a plan was accepted"),
        Err(error) => error.to_string(),
    };
    assert!(refused(plan("aten.gone.default", &[A::Operand(0)], 1)).contains("torch has no operator aten.gone.default"));
    let few = refused(plan("aten.mm.default", &[A::Operand(0)], 1));
    assert!(few.contains("aten.mm.default (model.py:3) takes 2 arguments, 1 are given"), "{few}");
    assert!(refused(plan("aten.relu.default", &[A::Operand(0)], 2)).contains("returns 1 tensors, 2 are expected"));
    assert!(refused(plan("aten.relu_.default", &[A::Operand(0)], 1)).contains("writes to its arguments"));
}

#[test]
fn an_out_of_another_shape_is_an_error_and_no_moved_memory() {
    let Some(abi) = torch() else { return };
    let mut py = Fake::new();
    // A product of two 2x2 matrices does not fit, so torch would allocate memory of its own for the tensor.
    let plan = |buffer: Step, results: Vec<usize>| Plan {
        inputs: vec![input(f32s(&[2, 2]), false)],
        workspace_bytes: 64,
        steps: vec![buffer, Step::Extern { call: 0, operands: vec![0, 0], outs: vec![1], results: vec![] }],
        outputs: results.iter().map(|_| Output::Result(0)).collect(),
        results,
        externs: vec![call("aten.mm.default", vec![A::Operand(0), A::Operand(1)], f32s(&[1, 2]))],
        ..Plan::default()
    };
    let x = floats(&[1.0; 4], &[2, 2]);
    let small = f32s(&[1, 2]);
    for plan in [
        plan(Step::OutputBuffer { dst: 1, layout: small.clone() }, vec![1]),
        plan(Step::Buffer { dst: 1, byte_offset: 0, layout: small }, vec![]),
    ] {
        let exe = Executable::new(abi, plan, vec![], &mut py).expect("loads");
        for _ in 0..2 {
            let Err(RunError::Failed(failure)) = exe.run(&[x.as_ref()], &mut py) else { panic!("expected a failure") };
            assert_eq!(failure.schema.as_deref(), Some("aten.mm.default"));
        }
    }
}

#[test]
fn more_memory_than_there_is_is_an_error() {
    let Some(abi) = torch() else { return };
    let plan = Plan { workspace_bytes: 1 << 60, ..Plan::default() };
    let exe = Executable::new(abi, plan, vec![], &mut Fake::new()).expect("loads");
    let Err(RunError::Failed(failure)) = exe.run(&[], &mut Fake::new()) else { panic!("expected a failure") };
    assert!(failure.message.contains("no memory for a workspace"), "{}", failure.message);
}

#[test]
fn regions_and_vector_math_come_from_torch() {
    let Some(abi) = torch() else { return };
    assert!(omp::is_parallel());
    assert!(abi.symbol(c"Sleef_expf8_u10avx2").is_some());
}

//! Tests `dynamlir-cuda` on the mock driver: loading, launching, unloading, and error messages.
//!
//! Each test that needs an environment of its own runs itself again in a process that has it.

use std::{env, ffi::c_void, path::PathBuf, process::Command, sync::Arc};

use dynamlir_cuda::{Argument, Context, Driver, Error, Kernel, Launch, Module, Stream};

/// The mock, which lies next to the test programs.
fn library() -> PathBuf {
    let mut folder = env::current_exe().expect("a program").parent().expect("a folder").to_owned();
    if folder.ends_with("deps") {
        folder.pop();
    }
    folder.join("libdynamlir_cuda_mock.so")
}

/// Runs a test by its name in a process with this environment; returns `None` inside that process, where the test must proceed.
fn again(test: &str, environment: &[(&str, &str)]) -> Option<()> {
    if env::var_os("DYNAMLIR_CUDA_MOCK_AGAIN").is_some() {
        return None;
    }
    let mut command = Command::new(env::current_exe().expect("a program"));
    command.args(["--exact", test, "--nocapture"]).env("DYNAMLIR_CUDA_MOCK_AGAIN", "1").envs(environment.iter().copied());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// y[i] = x[i] + x[i ^ 1] within one warp; the neighbour's value is obtained by a shuffle.
const PTX: &str = r"
.version 7.1
.target sm_80
.address_size 64
.visible .entry neighbours(
	.param .u64 .ptr .align 4 neighbours_param_0,
	.param .u64 .ptr .align 4 neighbours_param_1
)
.maxntid 32, 1, 1
{
	.reg .b32 	%r<5>;
	.reg .b64 	%rd<8>;
	ld.param.b64 	%rd1, [neighbours_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	ld.param.b64 	%rd3, [neighbours_param_1];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd5, %r1, 4;
	add.s64 	%rd6, %rd2, %rd5;
	ld.global.b32 	%r2, [%rd6];
	shfl.sync.bfly.b32 	%r3, %r2, 1, 31, -1;
	add.rn.f32 	%r4, %r2, %r3;
	add.s64 	%rd7, %rd3, %rd5;
	st.global.b32 	[%rd7], %r4;
	ret;
}
";

fn launch() -> Launch {
    let argument = |written| Argument { alignment: 4, written };
    Launch { name: "neighbours".into(), grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, arguments: vec![argument(false), argument(true)] }
}

fn context() -> Arc<Context> {
    Context::of(&Driver::load(library()).expect("the mock is built"), 0).expect("there is one device")
}

fn load(ptx: &str, launch: &Launch) -> Result<Vec<Kernel>, Error> {
    Module::load(&context(), ptx, std::slice::from_ref(launch))
}

fn run(kernel: &Kernel, x: &mut [f32], y: &mut [f32]) -> Result<(), Error> {
    let row = [x.as_mut_ptr().cast::<c_void>(), y.as_mut_ptr().cast()];
    let context = Arc::clone(kernel.context());
    let entered = context.enter()?;
    // SAFETY: both have an element per thread, and the mock runs a launch at once.
    unsafe { kernel.launch(&entered, Stream(std::ptr::null_mut()), row.as_ptr()) }
}

#[test]
fn a_kernel_is_loaded_and_launched() {
    let kernels = load(PTX, &launch()).expect("it loads");
    let mut x: Vec<f32> = (0_u8..32).map(f32::from).collect();
    let mut y = vec![0.0; 32];
    run(&kernels[0], &mut x, &mut y).expect("it runs");
    let expected: Vec<f32> = (0_u8..32).map(|i| f32::from(i) + f32::from(i ^ 1)).collect();
    assert_eq!(y, expected);
    assert_eq!(context().chip().as_deref(), Ok("sm_90"));
}

#[test]
fn what_does_not_lie_right_is_not_launched() {
    let kernels = load(PTX, &Launch { arguments: vec![Argument { alignment: 16, written: false }; 2], ..launch() }).expect("it loads");
    let (mut x, mut y) = (vec![0.0; 40], vec![0.0; 40]);
    let at = x.iter().position(|element| std::ptr::from_ref(element) as usize % 16 == 4).expect("one of four");
    let error = run(&kernels[0], &mut x[at..], &mut y).expect_err("x is not aligned");
    assert!(matches!(error, Error::Misaligned { argument: 0, alignment: 16, .. }), "{error}");
}

#[test]
fn bad_code_is_told_with_what_the_assembler_says() {
    let error = load(&PTX.replace("add.rn.f32", "frobnicate.f32"), &launch()).err().expect("no such instruction").to_string();
    assert!(error.contains("the code of neighbours: CUDA_ERROR_INVALID_PTX (218)") && error.contains("frobnicate.f32"), "{error}");
    let error = load(&PTX.replace("sm_80", "sm_100"), &launch()).err().expect("an older device").to_string();
    assert!(error.contains("code for sm_100 on a device of sm_90"), "{error}");
    let error = load(&PTX.replace(".version 7.1", ".version 99.0"), &launch()).err().expect("an older driver").to_string();
    assert!(error.contains("(222)") && error.contains("update it"), "{error}");
    let error = load(PTX, &Launch { name: "others".into(), ..launch() }).err().expect("no such entry").to_string();
    assert!(error.starts_with("kernel others cannot be launched: cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND"), "{error}");
}

#[test]
fn a_kernel_whose_lanes_part_before_a_shuffle_is_found_out() {
    // Lane 0 skips the shuffle.
    let parting = PTX
        .replace("\tshfl", "\tsetp.eq.b32 \t%p1, %r1, 0;\n\t@%p1 bra \t$L__BB0_1;\n\tshfl")
        .replace("\tadd.rn.f32", "$L__BB0_1:\n\tadd.rn.f32");
    let kernels = load(&parting, &launch()).expect("it loads");
    let error = run(&kernels[0], &mut [0.0; 32], &mut [0.0; 32]).expect_err("the others wait for ever").to_string();
    assert!(error.starts_with("kernel neighbours cannot be launched: cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED (719)"), "{error}");
}

#[test]
fn large_shared_memory_is_asked_for_first() {
    let kernels = load(PTX, &Launch { shared_bytes: 100 << 10, ..launch() }).expect("it may have that");
    run(&kernels[0], &mut [0.0; 32], &mut [0.0; 32]).expect("it was asked for");
    let error = load(PTX, &Launch { shared_bytes: 300 << 10, ..launch() }).err().expect("no device has that").to_string();
    assert!(error.contains("it wants 307200 bytes of shared memory: cuFuncSetAttribute failed"), "{error}");
}

#[test]
fn modules_are_unloaded_with_their_last_kernel() {
    let log = env::temp_dir().join(format!("cuda-mock-{}.log", std::process::id()));
    let path = log.to_string_lossy().into_owned();
    if again("modules_are_unloaded_with_their_last_kernel", &[("DYNAMLIR_CUDA_MOCK_LOG", &path)]).is_some() {
        let lines = std::fs::read_to_string(&log).expect("a log");
        let _ = std::fs::remove_file(&log);
        let launched = "launch neighbours grid=[1, 1, 1] block=[32, 1, 1] shared=0 stream=0x0";
        assert_eq!(lines.lines().collect::<Vec<_>>(), ["load sm_80 neighbours", launched, "unload"]);
        return;
    }
    let kernels = load(PTX, &launch()).expect("it loads");
    let last = kernels[0].clone();
    drop(kernels);
    run(&last, &mut [0.0; 32], &mut [0.0; 32]).expect("it is still loaded");
}

#[test]
fn failures_on_demand_are_told() {
    if again("failures_on_demand_are_told", &[("DYNAMLIR_CUDA_MOCK_FAIL", "cuLaunchKernel=701@1")]).is_some() {
        return;
    }
    let kernels = load(PTX, &launch()).expect("it loads");
    run(&kernels[0], &mut [0.0; 32], &mut [0.0; 32]).expect("the first launch is fine");
    let error = run(&kernels[0], &mut [0.0; 32], &mut [0.0; 32]).expect_err("the second is not").to_string();
    assert!(error.contains("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): too many resources requested"), "{error}");
}

#[test]
fn an_old_driver_is_not_used() {
    if again("an_old_driver_is_not_used", &[("DYNAMLIR_CUDA_MOCK_VERSION", "11080")]).is_some() {
        return;
    }
    let error = Driver::load(library()).err().expect("it is too old").to_string();
    assert_eq!(error, "no CUDA driver: it serves CUDA 11.8, and 12.0 or later is needed: update it");
}

#[test]
fn a_machine_without_devices_is_told() {
    if again("a_machine_without_devices_is_told", &[("DYNAMLIR_CUDA_MOCK_FAIL", "cuInit=100")]).is_some() {
        return;
    }
    let error = Driver::load(library()).err().expect("there is no device").to_string();
    assert!(error.starts_with("cuInit failed: CUDA_ERROR_NO_DEVICE (100)") && error.contains("CUDA_VISIBLE_DEVICES"), "{error}");
}

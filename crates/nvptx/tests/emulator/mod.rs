//! Runs a kernel's device code on the host: one thread of the operating system per GPU thread, one block after another.
//!
//! The LLVM IR is the one that PTX is generated from. Calls of NVVM's intrinsics become calls of the functions here: thread and block
//! numbers, barriers, shuffles. libdevice's functions are replaced by the C library's. Shared memory is ordinary memory, since one block
//! runs at a time.

mod tensor_core;

use std::{
    cell::Cell,
    ffi::c_void,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread,
};

use dynamlir_codegen::packed;
use dynamlir_nvptx::Launch;
use inkwell::{OptimizationLevel, context::Context, memory_buffer::MemoryBuffer, module::Module};

const WARP: usize = 32;

/// The state shared by the threads of a block.
struct Block {
    all: Barrier,
    warps: Vec<Warp>,
}

struct Warp {
    all: Barrier,
    words: Vec<[AtomicU32; 16]>,
}

/// The position of a thread.
#[derive(Clone)]
struct Place {
    thread: [i64; 3],
    block: i64,
    linear: usize,
    shared: Arc<Block>,
}

thread_local! {
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

fn with<R>(f: impl FnOnce(&Place) -> R) -> R {
    PLACE.with(|cell| {
        let place = cell.take().expect("called from a kernel");
        let result = f(&place);
        cell.set(Some(place));
        result
    })
}

/// Publishes the values of each lane of the warp to the others, then lets each take some of them.
fn exchange<R>(put: &[u32], take: impl FnOnce(&[[AtomicU32; 16]], usize) -> R) -> R {
    with(|place| {
        let (warp, lane) = (&place.shared.warps[place.linear / WARP], place.linear % WARP);
        for (slot, &word) in warp.words[lane].iter().zip(put) {
            slot.store(word, SeqCst);
        }
        warp.all.wait();
        let result = take(&warp.words, lane);
        warp.all.wait();
        result
    })
}

extern "C" fn thread_x() -> i32 {
    with(|place| place.thread[0] as i32)
}
extern "C" fn thread_y() -> i32 {
    with(|place| place.thread[1] as i32)
}
extern "C" fn block_x() -> i32 {
    with(|place| place.block as i32)
}
extern "C" fn barrier(_number: i32) {
    with(|place| place.shared.all.wait());
}
extern "C" fn shuffle_word(_mask: i32, word: i32, distance: i32, _clamp: i32) -> i32 {
    exchange(&[word as u32], |words, lane| words[lane ^ distance as usize][0].load(SeqCst) as i32)
}
extern "C" fn shuffle_float(mask: i32, value: f32, distance: i32, clamp: i32) -> f32 {
    f32::from_bits(shuffle_word(mask, value.to_bits() as i32, distance, clamp) as u32)
}

/// Intrinsics and the functions that replace them.
fn functions() -> Vec<(&'static str, *const c_void)> {
    vec![
        ("read.ptx.sreg.tid.x", thread_x as *const c_void),
        ("read.ptx.sreg.tid.y", thread_y as *const c_void),
        ("read.ptx.sreg.ctaid.x", block_x as *const c_void),
        ("barrier.cta.sync.aligned.all", barrier as *const c_void),
        ("shfl.sync.bfly.i32", shuffle_word as *const c_void),
        ("shfl.sync.bfly.f32", shuffle_float as *const c_void),
        ("mma", tensor_core::multiply as *const c_void),
        ("f2tf32.rna", tensor_core::round as *const c_void),
    ]
}

/// A module in which calls of NVVM's intrinsics are calls of functions, and kernels are functions of the host.
fn on_host<'ctx>(context: &'ctx Context, module: &Module<'ctx>) -> Module<'ctx> {
    let text = module.print_to_string().to_string().replace("@llvm.nvvm.", "@emulated.").replace("ptx_kernel ", "");
    // libdevice's functions get the C library's names.
    let text = tensor_core::define(&text.replace("@__nv_", "@"));
    let buffer = MemoryBuffer::create_from_memory_range_copy(format!("{text}\0").as_bytes(), "host");
    context.create_module_from_ir(buffer).expect("the text is LLVM IR")
}

/// Calls a kernel of a host module on addresses.
pub fn call<'ctx>(context: &'ctx Context, module: &Module<'ctx>, name: &str, addresses: &[*mut u8], each: impl FnOnce(&(dyn Fn() + Sync))) {
    packed::add_wrappers(context, module, &[name.to_owned()]).expect("the kernel is there");
    let engine = module.create_jit_execution_engine(OptimizationLevel::None).expect("the host has a code generator");
    for (name, address) in functions() {
        if let Some(function) = module.get_function(&format!("emulated.{name}")) {
            engine.add_global_mapping(&function, address as usize);
        }
    }
    let address = engine.get_function_address(&format!("{name}{}", packed::SUFFIX)).expect("the wrapper was compiled");
    // SAFETY: the wrapper takes the address of a row of addresses, one per parameter.
    let entry: extern "C" fn(*const *mut u8) = unsafe { std::mem::transmute(address) };
    let row: Vec<usize> = addresses.iter().map(|address| *address as usize).collect();
    each(&|| entry(row.as_ptr().cast()));
}

/// Launches some blocks of a kernel.
pub fn launch<'ctx>(context: &'ctx Context, module: &Module<'ctx>, launch: &Launch, blocks: &[i64], addresses: &[*mut u8]) {
    let module = on_host(context, module);
    let [x, y, z] = launch.block;
    let threads = (x * y * z) as usize;
    call(context, &module, &launch.name, addresses, |run| {
        let warp = || Warp { all: Barrier::new(WARP), words: (0..WARP).map(|_| Default::default()).collect() };
        let shared = Arc::new(Block { all: Barrier::new(threads), warps: (0..threads / WARP).map(|_| warp()).collect() });
        thread::scope(|scope| {
            for linear in 0..threads {
                let shared = Arc::clone(&shared);
                let body = move || {
                    for &block in blocks {
                        let thread = [linear as i64 % x, linear as i64 / x % y, linear as i64 / (x * y)];
                        PLACE.set(Some(Place { thread, block, linear, shared: Arc::clone(&shared) }));
                        run();
                        shared.all.wait();
                    }
                };
                thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, body).expect("a thread");
            }
        });
    });
}

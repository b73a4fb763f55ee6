//! The OpenMP entry points that generated code calls, on the thread pool of torch's own OpenMP library.
//!
//! LLVM's lowering targets libomp's interface (`__kmpc_*`), while torch uses libgomp. Two pools in one process would compete for the cores,
//! so these few functions translate: a parallel region becomes one `GOMP_parallel` with torch's number of threads. Inside a region, and if
//! libgomp is unavailable, regions run on the calling thread alone.

mod fork;
mod schedule;

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::OnceLock;

use dynamlir_torch_abi::{Library, TorchAbi};

/// Runs a function on a team: function, its argument (borrowed), number of threads, flags.
type Parallel = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);
type Barrier = unsafe extern "C" fn();
type Query = unsafe extern "C" fn() -> c_int;

/// The functions used from libgomp.
struct Gomp {
    parallel: Parallel,
    barrier: Barrier,
    thread_num: Query,
    num_threads: Query,
    level: Query,
}

static GOMP: OnceLock<Option<Gomp>> = OnceLock::new();

/// The team that the current thread works in.
#[derive(Clone, Copy)]
struct Team {
    thread: u32,
    threads: u32,
    /// The number of enclosing regions that we opened.
    depth: u32,
}

thread_local! {
    static TEAM: Cell<Team> = const { Cell::new(Team { thread: 0, threads: 1, depth: 0 }) };
    /// The number of threads requested for the next region; 0 if none.
    static REQUESTED: Cell<u32> = const { Cell::new(0) };
}

fn load() -> Option<Gomp> {
    let library: Library = TorchAbi::get().ok()?.sibling("libgomp.so.1").ok()?;
    let symbol = |name: &CStr| library.symbol(name);
    // SAFETY: the types are those of libgomp's documented interface.
    unsafe {
        Some(Gomp {
            parallel: std::mem::transmute::<*mut c_void, Parallel>(symbol(c"GOMP_parallel")?),
            barrier: std::mem::transmute::<*mut c_void, Barrier>(symbol(c"GOMP_barrier")?),
            thread_num: std::mem::transmute::<*mut c_void, Query>(symbol(c"omp_get_thread_num")?),
            num_threads: std::mem::transmute::<*mut c_void, Query>(symbol(c"omp_get_num_threads")?),
            level: std::mem::transmute::<*mut c_void, Query>(symbol(c"omp_get_level")?),
        })
    }
}

/// Returns libgomp, searched for once after torch's ABI is initialized; before that, regions are serial and the search remains open.
fn gomp() -> Option<&'static Gomp> {
    if let Some(known) = GOMP.get() {
        return known.as_ref();
    }
    TorchAbi::get().ok()?;
    GOMP.get_or_init(load).as_ref()
}

/// Returns true if parallel regions run in parallel.
#[must_use]
pub fn is_parallel() -> bool {
    gomp().is_some()
}

/// Runs `body` on every thread of a new team.
fn run_region(body: &(dyn Fn() + Sync)) {
    let outer = TEAM.get();
    let requested = REQUESTED.replace(0);
    let pool = gomp().filter(|g| {
        // SAFETY: reads the level of the current thread. A region inside any other region runs serially.
        outer.depth == 0 && unsafe { (g.level)() } == 0
    });
    let threads = match pool {
        Some(_) if requested > 0 => requested as usize,
        Some(_) => TorchAbi::get().map_or(1, TorchAbi::num_threads),
        None => 1,
    };
    match pool {
        Some(gomp) if threads > 1 => {
            let mut body = body;
            // SAFETY: `body` outlives the call, which returns when every thread is done; `enter` restores its type.
            unsafe { (gomp.parallel)(enter, (&raw mut body).cast(), threads as c_uint, 0) }
        }
        _ => {
            TEAM.set(Team { thread: 0, threads: 1, depth: outer.depth + 1 });
            body();
        }
    }
    TEAM.set(outer);
}

/// The function that libgomp runs on each thread.
extern "C" fn enter(data: *mut c_void) {
    // SAFETY: `run_region` passes the address of this type, shared between threads and not written.
    let body = unsafe { *data.cast::<&(dyn Fn() + Sync)>() };
    let before = TEAM.get();
    if let Some(gomp) = gomp() {
        // SAFETY: queries about the calling thread.
        let (thread, threads) = unsafe { ((gomp.thread_num)(), (gomp.num_threads)()) };
        TEAM.set(Team { thread: thread as u32, threads: threads as u32, depth: before.depth + 1 });
    }
    body();
    TEAM.set(before);
}

extern "C" fn global_thread_num(_location: *const c_void) -> i32 {
    TEAM.get().thread as i32
}

extern "C" fn barrier(_location: *const c_void, _thread: i32) {
    if TEAM.get().threads > 1
        && let Some(gomp) = gomp()
    {
        // SAFETY: called by every thread of the team, as the generated code does.
        unsafe { (gomp.barrier)() }
    }
}

extern "C" fn push_num_threads(_location: *const c_void, _thread: i32, threads: i32) {
    REQUESTED.set(threads.max(0) as u32);
}

extern "C" fn for_static_fini(_location: *const c_void, _thread: i32) {}

/// Returns the address of an entry point by its libomp name.
pub(crate) fn symbol(name: &str) -> Option<*const c_void> {
    Some(match name {
        "__kmpc_global_thread_num" => global_thread_num as *const c_void,
        "__kmpc_fork_call" => fork::fork_call as *const c_void,
        "__kmpc_fork_call_if" => fork::fork_call_if as *const c_void,
        "__kmpc_push_num_threads" => push_num_threads as *const c_void,
        "__kmpc_barrier" => barrier as *const c_void,
        "__kmpc_for_static_init_4" => schedule::init_i32 as *const c_void,
        "__kmpc_for_static_init_4u" => schedule::init_u32 as *const c_void,
        "__kmpc_for_static_init_8" => schedule::init_i64 as *const c_void,
        "__kmpc_for_static_init_8u" => schedule::init_u64 as *const c_void,
        "__kmpc_for_static_fini" => for_static_fini as *const c_void,
        _ => return None,
    })
}

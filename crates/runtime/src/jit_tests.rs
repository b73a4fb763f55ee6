//! Links objects compiled by clang during the test.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// Compiles C to an object; returns None if clang is not installed, so that the test is skipped with a message.
fn compile(source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let clang = ["clang-22", "/usr/lib/llvm-22/bin/clang"].into_iter().find(|c| Command::new(c).arg("--version").output().is_ok());
    let Some(clang) = clang else {
        eprintln!("skipped: no clang");
        return None;
    };
    let mut child = Command::new(clang)
        .args(["-x", "c", "-", "-c", "-O2", "-fPIC", "-o", "-"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("clang starts");
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("clang reads");
    let out = child.wait_with_output().expect("clang ends");
    assert!(out.status.success());
    Some(out.stdout)
}

#[test]
fn a_kernel_is_linked_and_called() {
    let source = r"
        float expf(float);
        void scale__packed(void **p) { float *x = p[0], *y = p[1]; for (int i = 0; i < 4; i++) y[i] = expf(x[i]); }
    ";
    let Some(object) = compile(source, &[]) else {
        return;
    };
    let jit = Jit::link(&[&object]).expect("links");
    let kernel = jit.kernel("scale").expect("is there");
    drop(jit);
    let (mut x, mut y) = ([0.0_f32, 1.0, 2.0, -1.0], [0.0_f32; 4]);
    let row = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
    // SAFETY: both arguments are four floats, as the kernel expects.
    unsafe { kernel.call(row.as_ptr()) };
    assert!(x.iter().zip(&y).all(|(x, y)| (x.exp() - y).abs() < 1e-6), "{y:?}");
}

#[test]
fn objects_may_call_each_other() {
    let Some(a) = compile("int twice(int x) { return 2 * x; }", &[]) else {
        return;
    };
    let Some(b) = compile("int twice(int); void k__packed(int **p) { *p[0] = twice(21); }", &[]) else {
        return;
    };
    let kernel = Jit::link(&[&a, &b]).expect("links").kernel("k").expect("is there");
    let mut x = 0_i32;
    // SAFETY: one int.
    unsafe { kernel.call([(&raw mut x).cast()].as_ptr()) };
    assert_eq!(x, 42);
}

#[test]
fn parallel_loops_reach_the_entry_points() {
    let source = r"
        void k__packed(void **p) {
            long *x = p[0];
            #pragma omp parallel for schedule(static)
            for (unsigned long i = 0; i < 1000; i++) x[i] = (long)i * 3;
        }
    ";
    let Some(object) = compile(source, &["-fopenmp=libomp"]) else {
        return;
    };
    let kernel = Jit::link(&[&object]).expect("links").kernel("k").expect("is there");
    let mut x = vec![0_i64; 1000];
    // SAFETY: a thousand longs.
    unsafe { kernel.call([x.as_mut_ptr().cast()].as_ptr()) };
    assert!(x.iter().zip(0..).all(|(x, i)| *x == i * 3));
}

#[test]
fn unknown_functions_are_named() {
    let Some(object) = compile("void nobody_has_this(void); void k__packed(void **p) { nobody_has_this(); }", &[]) else {
        return;
    };
    let error = Jit::link(&[&object]).err().expect("is refused").to_string();
    assert!(error.contains("nobody_has_this"), "{error}");
}

#[test]
fn garbage_is_refused() {
    assert!(Jit::link(&[b"not an object"]).is_err());
    let Some(mut object) = compile("void k__packed(void **p) {}", &[]) else {
        return;
    };
    assert!(Jit::link(&[&object]).expect("links").kernel("other").is_err());
    object.truncate(object.len() / 2);
    assert!(Jit::link(&[&object]).is_err());
}

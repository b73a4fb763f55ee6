//! Lets this crate's own tests link LLVM. A program that uses the crate links LLVM once for the whole program, so nothing is passed on to
//! it.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    let prefix = env::var("LLVM_SYS_221_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".to_owned());
    for arg in [format!("-L{prefix}/lib"), "-lLLVM-22".to_owned(), format!("-Wl,-rpath,{prefix}/lib")] {
        println!("cargo:rustc-link-arg={arg}");
    }
}

//! Builds `dialects/dynamo` with `CMake`, the same description that C++ users have, and links it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let prefix = env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".into());
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    for folder in ["dialects/dynamo", "cmake"] {
        watch(&root.join(folder));
    }

    let built = cmake::Config::new(root.join("dialects/dynamo"))
        .generator("Ninja")
        .profile("Release")
        .define("CMAKE_C_COMPILER", format!("{prefix}/bin/clang"))
        .define("CMAKE_CXX_COMPILER", format!("{prefix}/bin/clang++"))
        .no_default_flags(true)
        .env("MLIR_SYS_220_PREFIX", &prefix)
        .build_target("all")
        .build();
    println!("cargo:rustc-link-search=native={}/build/lib", built.display());
    for library in ["DynamoPlugin", "DynamoCAPI", "DynamoDialect"] {
        println!("cargo:rustc-link-lib=static={library}");
    }

    // Read by the `dialect!` macro in src/ods.rs.
    println!("cargo:rustc-env=DYNAMO_TD_INCLUDE={}", root.join("dialects/dynamo/include").display());

    write_capi_linker_script(Path::new(&prefix), &out);
    println!("cargo:rustc-link-search=native={}", out.display());
}

/// mlir-sys links `-lMLIR-C`, which Debian does not ship, and `libMLIR.so` exports no C API. A linker script of
/// that name draws in the static C API archives, whose undefined symbols `libMLIR.so` then satisfies.
fn write_capi_linker_script(prefix: &Path, out: &Path) {
    let mut archives: Vec<_> = fs::read_dir(prefix.join("lib"))
        .expect("LLVM's library folder is readable")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with("libMLIRCAPI") && Path::new(name).extension().is_some_and(|e| e == "a"))
        })
        .map(|path| path.display().to_string())
        .collect();
    archives.sort();
    fs::write(out.join("libMLIR-C.so"), format!("GROUP ( {} )\n", archives.join(" "))).expect("OUT_DIR is writable");
}

/// Asks cargo to look at every file below `folder`.
fn watch(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the dialect's sources are readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            watch(&path);
        } else {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}

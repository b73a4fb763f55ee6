//! Builds `dialects/dynamo` with `CMake`, from the same description that C++ users have, and links it and MLIR.
//!
//! mlir-sys asks the linker for `-lMLIR-C -lMLIR -lLLVM-22 -lstdc++`. Under these names the linker finds linker scripts that are written
//! here. In development, one script adds the C API to the shared libraries. With `DYNAMLIR_STATIC_LLVM=1`, as in `scripts/wheel`, the
//! scripts name archives instead. Nothing else differs between the two.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let prefix = env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".into());
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let linked_statically = env::var("DYNAMLIR_STATIC_LLVM").is_ok_and(|value| value == "1");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    println!("cargo:rerun-if-env-changed=DYNAMLIR_STATIC_LLVM");
    for folder in ["dialects/dynamo", "cmake"] {
        watch(&root.join(folder));
    }

    let mut cmake = cmake::Config::new(root.join("dialects/dynamo"));
    if linked_statically {
        // Lets the linker leave out unused functions and data, as it can for LLVM.
        cmake.define("CMAKE_CXX_FLAGS", "-ffunction-sections -fdata-sections");
    }
    // Clippy's build scripts have output folders of their own; the C++ is compiled once for all of them.
    let shared = out.ancestors().nth(3).expect("cargo's folder of this profile").join("dynamo");
    let built = cmake
        .out_dir(shared)
        .generator("Ninja")
        .profile("Release")
        .define("CMAKE_C_COMPILER", format!("{prefix}/bin/clang"))
        .define("CMAKE_CXX_COMPILER", format!("{prefix}/bin/clang++"))
        .no_default_flags(true)
        .env("MLIR_SYS_220_PREFIX", &prefix)
        .build_target("all")
        .build();
    println!("cargo:rustc-link-search=native={}/build/lib", built.display());
    let older_libc = linked_statically.then_some("DynamoOlderLibc");
    for library in ["DynamoPlugin", "DynamoCAPI", "DynamoDialect"].into_iter().chain(older_libc) {
        println!("cargo:rustc-link-lib=static={library}");
    }

    // Read by src/ops.rs.
    let folders = [root.join("dialects/dynamo/include"), Path::new(&prefix).join("include")];
    let source = dynamlir_ods::generate("dynamo/Dynamo.td", &[&folders[0], &folders[1]]);
    let source = source.unwrap_or_else(|error| panic!("the dialect's ODS files: {error}"));
    fs::write(out.join("dynamo.rs"), source).expect("OUT_DIR is writable");

    write_linker_scripts(Path::new(&prefix), &out, linked_statically);
    println!("cargo:rustc-link-search=native={}", out.display());
}

/// Writes the linker scripts under the library names that mlir-sys passes to the linker.
///
/// Debian ships no libMLIR-C, and `libMLIR.so` exports no C API. The script named MLIR-C therefore pulls in the static archives of the C
/// API, whose undefined symbols `libMLIR.so` then resolves, or all the archives of MLIR and LLVM. From these the linker takes the members
/// that something refers to.
fn write_linker_scripts(prefix: &Path, out: &Path, linked_statically: bool) {
    let write = |library: &str, text: &str| fs::write(out.join(library), text).expect("OUT_DIR is writable");
    let group = |archives: &[PathBuf]| {
        let paths: Vec<_> = archives.iter().map(|path| path.display().to_string()).collect();
        format!("GROUP ( {} )\n", paths.join(" "))
    };
    if !linked_statically {
        write("libMLIR-C.so", &group(&archives(prefix, &["libMLIRCAPI"])));
        return;
    }
    let mut all = archives(prefix, &["libMLIR", "libLLVM"]);
    // Needed by LLVM, which compresses debug sections. zstd is missing if LLVM was built without it.
    all.extend(["libz.a", "libzstd.a"].iter().filter_map(|name| compilers_archive(prefix, name)));
    write("libMLIR-C.so", &group(&all));
    for library in ["libMLIR.so", "libLLVM-22.so"] {
        write(library, "/* Its archives are in libMLIR-C.so. */\n");
    }
    let standard = compilers_archive(prefix, "libstdc++.a").expect("a static libstdc++ comes with the C++ compiler");
    write("libstdc++.so", &group(&[standard]));
}

/// The archives in LLVM's library folder whose names start with one of `starts`, in order.
fn archives(prefix: &Path, starts: &[&str]) -> Vec<PathBuf> {
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        starts.iter().any(|start| name.starts_with(start)) && Path::new(name).extension().is_some_and(|extension| extension == "a")
    };
    let entries = fs::read_dir(prefix.join("lib")).expect("LLVM's library folder is readable");
    let mut found: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(is_wanted).collect();
    found.sort();
    found
}

/// The path of an archive as the C++ compiler finds it, if it does.
fn compilers_archive(prefix: &Path, name: &str) -> Option<PathBuf> {
    let answer = Command::new(prefix.join("bin/clang++")).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

/// Asks cargo to watch every file below `folder`.
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

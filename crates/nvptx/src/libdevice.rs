//! Finds `libdevice.10.bc`, NVIDIA's math library as LLVM bitcode.
//!
//! It is not shipped here: the CUDA toolkit contains it, and so does the triton package that torch's GPU builds depend on.
//! `DYNAMLIR_LIBDEVICE` names the file, or is `none`: then no such library is used, even if one is installed.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The file's name in all locations.
const NAME: &str = "libdevice.10.bc";

/// The library, if it is installed. `torch_lib` is the folder of torch's own libraries, next to which triton is looked for.
pub fn find(torch_lib: Option<&Path>) -> Option<PathBuf> {
    match env::var_os("DYNAMLIR_LIBDEVICE") {
        Some(given) if given == "none" => return None,
        Some(given) => return Some(given.into()),
        None => {}
    }
    let named = env::var_os("DYNAMLIR_TORCH_LIB").map(PathBuf::from);
    candidates(torch_lib.or(named.as_deref())).into_iter().find(|path| path.is_file())
}

fn candidates(torch_lib: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for toolkit in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from).chain(["/usr/local/cuda".into()]) {
        found.push(toolkit.join("nvvm/libdevice").join(NAME));
    }
    if let Some(packages) = torch_lib.and_then(|lib| lib.ancestors().nth(2)) {
        found.push(packages.join("triton/backends/nvidia/lib").join(NAME));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triton_is_looked_for_beside_torch() {
        let found = candidates(Some(Path::new("env/site-packages/torch/lib")));
        assert!(found.contains(&"env/site-packages/triton/backends/nvidia/lib/libdevice.10.bc".into()), "{found:?}");
    }
}

//! Errors between PTX and its run on a device, with advice on what to do.

/// A failure of the CUDA driver, or the lack of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no CUDA driver, or it lacks a function.
    #[error("no CUDA driver: {0}")]
    NoDriver(String),
    /// A call of the driver failed.
    #[error("{call} failed: {name} ({code}){}{}", explained(.text), advice(*.code))]
    Call {
        /// The driver's function.
        call: &'static str,
        /// The driver's status.
        code: i32,
        /// The driver's name of the status.
        name: String,
        /// The driver's description; may be empty.
        text: String,
    },
    /// The driver's assembler rejected code.
    #[error("{call} refused the code of {kernels}: {name} ({code}){}{}", explained(.log), advice(*.code))]
    Code {
        /// The driver's function.
        call: &'static str,
        /// The kernels in it, comma separated.
        kernels: String,
        /// The driver's status.
        code: i32,
        /// The driver's name of the status.
        name: String,
        /// The assembler's log, or else the driver's description.
        log: String,
    },
    /// A kernel could not be launched.
    #[error("kernel {kernel} cannot be launched: {why}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The reason.
        why: String,
    },
    /// Memory is not aligned as the code of a kernel requires.
    #[error("argument {argument} of kernel {kernel} is not aligned to {alignment} bytes")]
    Misaligned {
        /// The kernel.
        kernel: String,
        /// Its argument.
        argument: usize,
        /// The required alignment of its address.
        alignment: i64,
    },
}

fn explained(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Advice for users who see the error, if its name does not make it obvious.
fn advice(code: i32) -> &'static str {
    match code {
        3 => ". The process was forked after CUDA was started: start it with the spawn method",
        100 => ". CUDA_VISIBLE_DEVICES may hide the devices",
        222 => ". The driver is older than the code: update it, or name an older chip in DYNAMLIR_CUDA_CHIP",
        209 | 223 => ". The code is for another chip: DYNAMLIR_CUDA_CHIP should name this device's",
        // Every later call fails in the same way.
        700 | 710 | 714..=719 => ". The device's context is lost: the process must be started anew",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_failed_and_what_to_do() {
        let error = Error::Code {
            call: "cuModuleLoadDataEx",
            kernels: "softmax_0, gelu_1".into(),
            code: 222,
            name: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION".into(),
            log: "ptxas application ptx input, line 5; fatal : Unsupported .version 9.9\n".into(),
        };
        assert_eq!(
            error.to_string(),
            "cuModuleLoadDataEx refused the code of softmax_0, gelu_1: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): ptxas application ptx \
             input, line 5; fatal : Unsupported .version 9.9. The driver is older than the code: update it, or name an older chip in \
             DYNAMLIR_CUDA_CHIP"
        );
        let error = Error::Call { call: "cuCtxPushCurrent", code: 201, name: "CUDA_ERROR_INVALID_CONTEXT".into(), text: String::new() };
        assert_eq!(error.to_string(), "cuCtxPushCurrent failed: CUDA_ERROR_INVALID_CONTEXT (201)");
    }
}

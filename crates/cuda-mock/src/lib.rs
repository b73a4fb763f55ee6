//! A CUDA driver for tests, as a library to be named in `DYNAMLIR_CUDA_LIBRARY`.
//!
//! It has one device, whose memory is the process's own. A launch runs at once, thread by thread: the PTX is parsed when a module is loaded
//! and interpreted when a kernel is launched. This tests the text that LLVM wrote, launched in the way the runtime launches it. It is
//! stricter than hardware, which detects the following never or only sometimes:
//!
//! - a load or store of several elements at an address that is not aligned to all of them fails,
//! - a shuffle, product or barrier that not all threads of the warp or block reach fails,
//! - an instruction that is not known here fails when the module is loaded.
//!
//! It cannot test speed, interactions between threads that do not wait for each other, the results of the hardware's approximate functions
//! (they are computed exactly here), and NVIDIA's assembler (which `ptxas` tests).
//!
//! The environment controls its behaviour:
//!
//! | variable | meaning |
//! |---|---|
//! | `DYNAMLIR_CUDA_MOCK_LOG` | a file that gets a line per module and launch |
//! | `DYNAMLIR_CUDA_MOCK_FAIL` | `cuLaunchKernel=701`, or `cuLaunchKernel=701@3` for the fourth call: the status that a call returns |
//! | `DYNAMLIR_CUDA_MOCK_VERSION` | the result of `cuDriverGetVersion`; 12080 |
//! | `DYNAMLIR_CUDA_MOCK_CHIP` | the device's compute capability; 90 |

pub mod code;
pub mod driver;
pub mod number;
pub mod parse;
pub mod run;
pub mod state;
pub mod step;

//! A CUDA driver for tests, as a library to be named in `DYNAMLIR_CUDA_LIBRARY`.
//!
//! It has one device, whose memory is the process's own. A launch runs at once, thread by thread: the PTX is parsed when a module
//! is loaded and interpreted when a kernel is launched. So what is tested is the text that LLVM wrote, launched as the runtime
//! launches it. What it is strict about, hardware is not, or only now and then:
//!
//! - a load or store of several elements at an address that is not aligned to all of them fails,
//! - so does a shuffle, product or barrier that not all threads of the warp or block reach,
//! - and an instruction that is not known here, when the module is loaded.
//!
//! What it cannot tell: how fast anything is, what happens between threads that do not wait for each other, what the hardware's
//! approximate functions give (they are computed exactly here), and what NVIDIA's assembler makes of the text (`ptxas` does).
//!
//! The environment says how it behaves:
//!
//! | variable | meaning |
//! |---|---|
//! | `DYNAMLIR_CUDA_MOCK_LOG` | a file that gets a line per module and launch |
//! | `DYNAMLIR_CUDA_MOCK_FAIL` | `cuLaunchKernel=701`, or `cuLaunchKernel=701@3` for the fourth call: the status that a call returns |
//! | `DYNAMLIR_CUDA_MOCK_VERSION` | what `cuDriverGetVersion` says; 12080 |
//! | `DYNAMLIR_CUDA_MOCK_CHIP` | the device's compute capability; 90 |

pub mod code;
pub mod driver;
pub mod number;
pub mod parse;
pub mod run;
pub mod state;
pub mod step;

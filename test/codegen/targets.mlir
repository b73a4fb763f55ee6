// The text contains everything that passes know about a machine, as dynamo.target of the module. So one text gives the same code everywhere,
// also for machines other than this one. Here a kernel of stage 05 is lowered to LLVM IR for four processors, and for Arm's to
// instructions.

// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v3 --dynamlir-linalg-to-scheduled | FileCheck %s --check-prefixes=AVX2
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v4 --dynamlir-linalg-to-scheduled | FileCheck %s --check-prefixes=AVX512
// RUN: dynamlir-opt %s --dynamo-attach-target="cpu=generic triple=aarch64-unknown-linux-gnu features=+neon" \
// RUN:   --dynamlir-linalg-to-scheduled | FileCheck %s --check-prefixes=ARM
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-n1 --dynamlir-linalg-to-scheduled | FileCheck %s --check-prefixes=NEON
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-v2 --dynamlir-linalg-to-scheduled | FileCheck %s --check-prefixes=SVE
// RUN: dynamlir-opt %s --dynamlir-linalg-to-scheduled | FileCheck %s --check-prefixes=UNKNOWN --implicit-check-not=vector

// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v3 --dynamlir-linalg-to-scheduled --dynamlir-scheduled-to-bufferized \
// RUN:   --dynamlir-bufferized-to-llvm --dynamo-print-llvm-ir -o /dev/null | FileCheck %s --check-prefixes=IR,IR-AVX2
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v4 --dynamlir-linalg-to-scheduled --dynamlir-scheduled-to-bufferized \
// RUN:   --dynamlir-bufferized-to-llvm --dynamo-print-llvm-ir -o /dev/null | FileCheck %s --check-prefixes=IR,IR-AVX512
// RUN: dynamlir-opt %s --dynamo-attach-target="cpu=generic triple=aarch64-unknown-linux-gnu features=+neon" \
// RUN:   --dynamlir-linalg-to-scheduled --dynamlir-scheduled-to-bufferized --dynamlir-bufferized-to-llvm \
// RUN:   --dynamo-print-llvm-ir -o /dev/null | FileCheck %s --check-prefixes=IR,IR-ARM --implicit-check-not=Sleef
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-n1 --dynamlir-linalg-to-scheduled --dynamlir-scheduled-to-bufferized \
// RUN:   --dynamlir-bufferized-to-llvm --dynamo-print-llvm-ir -o /dev/null | llc -mcpu=neoverse-n1 | FileCheck %s --check-prefixes=ASM
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-v2 --dynamlir-linalg-to-scheduled --dynamlir-scheduled-to-bufferized \
// RUN:   --dynamlir-bufferized-to-llvm --dynamo-print-llvm-ir -o /dev/null | llc -mcpu=neoverse-v2 | FileCheck %s --check-prefixes=ASM
// RUN: dynamlir-opt %s --dynamo-attach-target="cpu=neoverse-v1 vector-bits=256" --dynamlir-linalg-to-scheduled \
// RUN:   --dynamlir-scheduled-to-bufferized --dynamlir-bufferized-to-llvm --dynamo-print-llvm-ir -o /dev/null \
// RUN:   | llc -mcpu=neoverse-v1 | FileCheck %s --check-prefixes=LONG

// Two of the processor's vectors at a time: of 256, 512 and 128 bits.
// AVX2: module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "x86-64-v3", "+avx,{{.*}}+movbe", vector_bits = 256, library_vector_bits = 256>}
// AVX2: vector<16xf32>
// AVX512: vector_bits = 512
// AVX512: vector<32xf32>
// ARM: #dynamo.target<"aarch64-unknown-linux-gnu", "generic", "+neon", vector_bits = 128, library_vector_bits = 128>
// ARM: vector<8xf32>
// Arm's processors are known by name, like the levels of Intel's architecture. The width of SVE's vectors is only known at run time, and is
// at least 128 bits: such a processor gets the same code as one with NEON.
// NEON: #dynamo.target<"aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", vector_bits = 128, library_vector_bits = 128>
// NEON: vector<8xf32>
// SVE: #dynamo.target<"aarch64-unknown-linux-gnu", "neoverse-v2", "+neon,+sve,+sve2", vector_bits = 128, library_vector_bits = 128>
// SVE: vector<8xf32>
// Nothing is assumed about a machine that is not named.
// UNKNOWN: linalg.generic

// IR-AVX2: target triple = "x86_64-unknown-linux-gnu"
// IR-AVX512: target triple = "x86_64-unknown-linux-gnu"
// IR-ARM: target datalayout = "e-m:e-{{.*}}i128:128
// IR-ARM: target triple = "aarch64-unknown-linux-gnu"
// IR: define void @add(ptr
// IR-AVX2: fadd <16 x float>
// IR-AVX512: fadd <32 x float>
// IR-ARM: fadd <8 x float>
// ASM-LABEL: add:
// ASM: ldp q{{[0-9]+}}, q{{[0-9]+}}, [x
// ASM: fadd v{{[0-9]+}}.4s
// ASM: fadd v{{[0-9]+}}.4s
// ASM: stp q
// ASM-LABEL: wave:
// An explicit vector width gives SVE's instructions, in code for processors with exactly this width.
// LONG-LABEL: add:
// LONG: ldr z{{[0-9]+}}, [x{{[0-9]+}}, #1, mul vl]
// LONG: fadd z{{[0-9]+}}.s
// LONG: fadd z{{[0-9]+}}.s
// LONG: str z
// LONG-LABEL: wave:
// IR: define void @wave(
// The library's vector variants are those of the target. So is the vector width, which is also recorded on the entries that kernels are
// inlined into.
// IR-AVX512: define void @wave__packed(ptr %0) #[[WIDE:[0-9]+]]
// IR-AVX512: attributes #[[WIDE]] = { "prefer-vector-width"="512" }
// IR-AVX2: "vector-function-abi-variant"="_ZGV_LLVM_N8v_expm1f(Sleef_expm1f8_u10avx2)"
// IR-AVX512: "vector-function-abi-variant"="_ZGV_LLVM_N8v_expm1f(Sleef_expm1f8_u10avx2),_ZGV_LLVM_N16v_expm1f(Sleef_expm1f16_u10avx512f)"

#map = affine_map<(d0) -> (d0)>
module {
  module @kernels {
    func.func @add(%x: memref<4096xf32> {llvm.noalias}, %out: memref<4096xf32> {llvm.noalias})
        attributes {dynamo.kernel, dynamo.domain = array<i64: 4096>, dynamo.reduced_dims = array<i64>,
                    dynamo.signature = (memref<4096xf32>) -> (memref<4096xf32>)} {
      %0 = bufferization.to_tensor %x restrict : memref<4096xf32> to tensor<4096xf32>
      %1 = tensor.empty() {dynamo.out = 0 : i64} : tensor<4096xf32>
      %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
          ins(%0 : tensor<4096xf32>) outs(%1 : tensor<4096xf32>) attrs = {dynamo.phase = 0 : i64} {
      ^bb0(%a: f32, %b: f32):
        %3 = arith.addf %a, %a : f32
        linalg.yield %3 : f32
      } -> tensor<4096xf32>
      bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4096xf32>, memref<4096xf32>) -> ()
      return
    }
    func.func @wave(%x: memref<4096xf32> {llvm.noalias}, %out: memref<4096xf32> {llvm.noalias})
        attributes {dynamo.kernel, dynamo.domain = array<i64: 4096>, dynamo.reduced_dims = array<i64>,
                    dynamo.signature = (memref<4096xf32>) -> (memref<4096xf32>)} {
      %0 = bufferization.to_tensor %x restrict : memref<4096xf32> to tensor<4096xf32>
      %1 = tensor.empty() {dynamo.out = 0 : i64} : tensor<4096xf32>
      %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
          ins(%0 : tensor<4096xf32>) outs(%1 : tensor<4096xf32>) attrs = {dynamo.phase = 0 : i64} {
      ^bb0(%a: f32, %b: f32):
        %3 = math.expm1 %a : f32
        linalg.yield %3 : f32
      } -> tensor<4096xf32>
      bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4096xf32>, memref<4096xf32>) -> ()
      return
    }
  }
}

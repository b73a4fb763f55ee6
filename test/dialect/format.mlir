// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-decompose | FileCheck %s

// The module of a dump states the number of its format, and the version of dynamlir that wrote it. Any version may have written it, as long
// as the format is the same. Passes leave both as they are.

// CHECK: module attributes {dynamo.format = #dynamo.format<1, "0.0.1-dev">, dynamo.target = #dynamo.target<
module attributes {dynamo.format = #dynamo.format<1, "0.0.1-dev">,
                   dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "generic", "">} {
  // CHECK: func.func @main
  func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>}) -> tensor<4xf32> attributes {dynamo.entry} {
    return %x : tensor<4xf32>
  }
}

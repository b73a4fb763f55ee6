// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics

// What the ops after outlining and planning may not look like.

// launch: on tensors or on memrefs.
func.func @f(%x: tensor<4xf32>, %m: memref<4xf32>) {
  // expected-error @+1 {{expected operands that are all tensors or all memrefs}}
  dynamo.launch @kernels::@k(%x, %m) : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{on memrefs has no results: the last operands are written}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%m: i64) {
  // expected-error @+1 {{operand #0 must be variadic of ranked tensor of any type values or strided memref of any type values}}
  dynamo.launch @kernels::@k(%m) : (i64) -> ()
  return
}

// -----

// workspace: bytes.
func.func @f() {
  // expected-error @+1 {{result #0 must be 1D memref of 8-bit signless integer values}}
  dynamo.workspace : memref<64xf32>
  return
}

// -----

// buffer: inside the workspace, also where the sum does not fit 64 bits.
func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{expected a byte offset that is not negative}}
  dynamo.buffer %ws[-64] : memref<64xi8> -> memref<4xf32>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{reaches byte 68 of a workspace of 64}}
  dynamo.buffer %ws[0] : memref<64xi8> -> memref<17xf32>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{reaches byte 80 of a workspace of 64}}
  dynamo.buffer %ws[64] : memref<64xi8> -> memref<4xf32>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{reaches byte 68 of a workspace of 64}}
  dynamo.buffer %ws[0] : memref<64xi8> -> memref<2xf32, strided<[16]>>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{reaches beyond any workspace}}
  dynamo.buffer %ws[0] : memref<64xi8> -> memref<3xf32, strided<[4611686018427387904]>>
  return
}

// -----

func.func @f(%ws: memref<64xi32>) {
  // expected-error @+1 {{operand #0 must be 1D memref of 8-bit signless integer values}}
  dynamo.buffer %ws[0] : memref<64xi32> -> memref<4xf32>
  return
}

// -----

// output_buffer: memory.
func.func @f() {
  // expected-error @+1 {{expected builtin.memref, but found 'tensor<4xf32>'}}
  dynamo.output_buffer : tensor<4xf32>
  return
}

// -----

// extern: schema and args as in dynamo.aten.
func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{expected a schema 'namespace.op.overload', got 'sin'}}
  dynamo.extern c_shim "sin"(%m) args [#dynamo.operand<0>] : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{args name operand 1 of 1}}
  dynamo.extern c_shim "aten.sin.default"(%m) outs(%m) args [#dynamo.operand<0>, #dynamo.operand<1>] : (memref<4xf32>) -> (), (memref<4xf32>)
  return
}

// -----

func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{operand 0 is named by no argument}}
  dynamo.extern c_shim "aten.sin.default"(%m) outs(%m) args [] : (memref<4xf32>) -> (), (memref<4xf32>)
  return
}

// -----

// check_range: the operand itself comes back.
func.func @f(%i: tensor<4xi64>) {
  // expected-error @+1 {{returns its operand if that is a tensor, else nothing}}
  dynamo.check_range %i in [0, 10) "index out of range" : (tensor<4xi64>) -> ()
  return
}

// -----

func.func @f(%i: memref<4xi64>) {
  // expected-error @+1 {{returns its operand if that is a tensor, else nothing}}
  dynamo.check_range %i in [0, 10) "index out of range" : (memref<4xi64>) -> tensor<4xi64>
  return
}

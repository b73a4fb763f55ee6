// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics

// Invalid forms of the ops after outlining and planning.

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

func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{expected a function of module @kernels, got @k}}
  dynamo.launch @k(%m) : (memref<4xf32>) -> ()
  return
}

// -----

// launch: a kernel gets only an address, so the operands must have exactly the layouts that it expects.
func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{there is no kernel @kernels::@missing}}
  dynamo.launch @kernels::@missing(%m) : (memref<4xf32>) -> ()
  return
}
module @kernels {
}

// -----

func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{has 1 operands, its kernel takes 2}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<4xf32>, memref<4xf32>)
}

// -----

// A size,
func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{operand 0 is 'memref<4xf32>', its kernel takes 'memref<8xf32>'}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<8xf32>)
}

// -----

// an element type,
func.func @f(%m: memref<4xf16>) {
  // expected-error @+1 {{operand 0 is 'memref<4xf16>', its kernel takes 'memref<4xi16>'}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf16>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<4xi16>)
}

// -----

// a bool that is not a byte,
func.func @f(%m: memref<4xi1>) {
  // expected-error @+1 {{operand 0 is 'memref<4xi1>', its kernel takes 'memref<4xi1>'}}
  dynamo.launch @kernels::@k(%m) : (memref<4xi1>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<4xi1>)
}

// -----

// a rank,
func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{operand 0 is 'memref<4xf32>', its kernel takes 'memref<2x2xf32>'}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<2x2xf32>)
}

// -----

// a stride,
func.func @f(%m: memref<2x4xf32, strided<[1, 2]>>) {
  // expected-error @+1 {{operand 0 is 'memref<2x4xf32, strided<[1, 2]>>', its kernel takes 'memref<2x4xf32>'}}
  dynamo.launch @kernels::@k(%m) : (memref<2x4xf32, strided<[1, 2]>>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<2x4xf32>)
}

// -----

// an offset that the kernel would add a second time,
func.func @f(%m: memref<4xf32, strided<[1], offset: 2>>) {
  // expected-error @+1 {{its kernel takes 'memref<4xf32, strided<[1], offset: 2>>'}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf32, strided<[1], offset: 2>>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<4xf32, strided<[1], offset: 2>>)
}

// -----

// an unknown number.
func.func @f(%m: memref<?xf32>) {
  // expected-error @+1 {{operand 0 has sizes or strides that are not numbers, which a launch hands over as 'sizes'}}
  dynamo.launch @kernels::@k(%m) : (memref<?xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<?xf32>)
}

// -----

// If the kernel takes bare pointers, the signature counts; without one, no operands are accepted.
func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{operand 0 is 'memref<4xf32>', its kernel takes 'memref<5xf32>'}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  llvm.func @k(!llvm.ptr) attributes {dynamo.signature = () -> memref<5xf32>}
}

// -----

func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{operand 0 is 'memref<4xf32>', its kernel takes '!llvm.ptr'}}
  dynamo.launch @kernels::@k(%m) : (memref<4xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  llvm.func @k(!llvm.ptr)
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected the result types of its kernel}}
  %0 = dynamo.launch @kernels::@k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(tensor<4xf32>) -> tensor<4xi1>
}

// -----

// workspace: bytes, and their number.
func.func @f() {
  // expected-error @+1 {{result #0 must be 1D memref of 8-bit signless integer values}}
  dynamo.workspace : memref<64xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{expected a number of bytes, got 'memref<?xi8>'}}
  dynamo.workspace : memref<?xi8>
  return
}

// -----

// buffer: inside the workspace and aligned to its elements, also if the sum does not fit into 64 bits.
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

func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{reaches 4 bytes before its workspace}}
  dynamo.buffer %ws[4] : memref<64xi8> -> memref<3xf32, strided<[-1]>>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{expected a byte offset that is a multiple of the element's 8 bytes}}
  dynamo.buffer %ws[12] : memref<64xi8> -> memref<1xf64>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) {
  // expected-error @+1 {{expected elements of a torch type, got 'memref<4xindex>'}}
  dynamo.buffer %ws[0] : memref<64xi8> -> memref<4xindex>
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

func.func @f() {
  // expected-error @+1 {{expected a fresh tensor: no offset, and strides that are not negative}}
  dynamo.output_buffer : memref<4xf32, strided<[1], offset: 2>>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{expected a fresh tensor: no offset, and strides that are not negative}}
  dynamo.output_buffer : memref<4xf32, strided<[-1]>>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{is larger than any memory}}
  dynamo.output_buffer : memref<4x4xf32, strided<[4611686018427387904, 1]>>
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

func.func @f(%m: memref<4xf32>) {
  // expected-error @+1 {{expected either outs or results}}
  dynamo.extern c_shim "aten.sin.default"(%m) outs(%m) args [#dynamo.operand<0>] : (memref<4xf32>) -> memref<4xf32>, (memref<4xf32>)
  return
}

// -----

// check_range: its result is the operand itself.
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

// -----

func.func @f(%i: memref<4xi32>) {
  // expected-error @+1 {{expected indices of type i64, got 'memref<4xi32>'}}
  dynamo.check_range %i in [0, 10) "index out of range" : (memref<4xi32>) -> ()
  return
}

// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics

// Errors of sizes that are expressions, each at its location.

// The text of an expression.
// expected-error @+1 {{division by zero}}
func.func private @f() attributes {test = #dynamo.expr<s0 floordiv 0>}

// -----

// expected-error @+1 {{division by zero}}
func.func private @f() attributes {test = #dynamo.expr<s0 mod (s1 - s1)>}

// -----

// expected-error @+1 {{integer overflow}}
func.func private @f() attributes {test = #dynamo.expr<s0*9223372036854775807 + s0>}

// -----

// expected-error @+1 {{the number is too large}}
func.func private @f() attributes {test = #dynamo.expr<s0 + 9223372036854775808>}

// -----

// expected-error @+1 {{expected a number, a symbol or `(`}}
func.func private @f() attributes {test = #dynamo.expr<s0*>}

// -----

// expected-error @+1 {{expected a number, a symbol or `(`}}
func.func private @f() attributes {test = #dynamo.expr<>}

// -----

// expected-error @+1 {{expected a number, a symbol or `(`}}
func.func private @f() attributes {test = #dynamo.expr<rows>}

// -----

// Another spelling of s1 would be a second form of the same expression.
// expected-error @+1 {{expected a number, a symbol or `(`}}
func.func private @f() attributes {test = #dynamo.expr<s01>}

// -----

// expected-error @+1 {{expected an operator}}
func.func private @f() attributes {test = #dynamo.expr<s0 s1>}

// -----

// expected-error @+1 {{expected '>'}}
func.func private @f() attributes {test = #dynamo.expr<s0 / 2>}

// -----

// expected-error @+1 {{expected `(`}}
func.func private @f() attributes {test = #dynamo.expr<min s0>}

// -----

// Sizes of a tensor: one per dimension, a number where the shape has a number, an expression for a `?`.
// expected-error @+1 {{expected a size per dimension: 2 dimensions, #dynamo.sizes<s0>}}
func.func private @f(tensor<?x4xf32, #dynamo.sizes<s0>>)

// -----

// expected-error @+1 {{dimension 1 is 4 in the shape, and 5 in #dynamo.sizes<s0, 5>}}
func.func private @f(tensor<?x4xf32, #dynamo.sizes<s0, 5>>)

// -----

// expected-error @+1 {{dimension 0 is 2 in the shape, and s0 in #dynamo.sizes<s0, 4>: an expression stands at a `?`}}
func.func private @f(tensor<2x4xf32, #dynamo.sizes<s0, 4>>)

// -----

// expected-error @+1 {{dimension 1 is ? in the shape, and 4 in #dynamo.sizes<s0, 4>}}
func.func private @f(tensor<?x?xf32, #dynamo.sizes<s0, 4>>)

// -----

// There is only one form for one meaning: if all sizes are numbers, they are in the shape.
// expected-error @+1 {{expected an expression among the sizes}}
func.func private @f(tensor<?x4xf32, #dynamo.sizes<s0 - s0 + 2, 4>>)

// -----

// Mutable tensors.
// expected-error @+1 {{expected one stride per dimension: 2 sizes, 1 strides}}
func.func private @f(!dynamo.tensor<[s0, 4]xf32, [4]>)

// -----

// expected-error @+1 {{`?` and expressions do not mix}}
func.func private @f(!dynamo.tensor<[s0, 4]xf32, [?, s0]>)

// -----

// expected-error @+1 {{expected sizes that are not negative, got -1}}
func.func private @f(!dynamo.tensor<[s0, -1]xf32, [1, 1]>)

// -----

// expected-error @+1 {{expected a storage offset that is not negative, got -4}}
func.func private @f(!dynamo.tensor<[s0]xf32, [1], s0 - s0 - 4>)

// -----

// Declarations: on a function, each symbol once, with possible values.
// expected-error @+1 {{'dynamo.symbols' belongs to a function}}
module attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
}

// -----

// expected-error @+1 {{'dynamo.symbols' must be an array of #dynamo.symbol, got 3}}
func.func private @f() attributes {dynamo.symbols = 3}

// -----

// expected-error @+1 {{'dynamo.symbols' must be an array of #dynamo.symbol, got "s0"}}
func.func private @f() attributes {dynamo.symbols = ["s0"]}

// -----

// expected-error @+1 {{'dynamo.symbols' declares s0 twice}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0>, #dynamo.symbol<s0, min = 4>]}

// -----

// expected-error @+1 {{expected a symbol such as s0, got 'rows'}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<rows>]}

// -----

// expected-error @+1 {{'size' is not a field of a symbol}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, size = 4>]}

// -----

// expected-error @+1 {{'min' is said twice}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, min = 4, min = 5>]}

// -----

// expected-error @+1 {{expected 'min' not to be negative, got -1}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, min = -1>]}

// -----

// expected-error @+1 {{s0 has no value: there is no multiple of 1 from 8 to 4}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, min = 8, max = 4>]}

// -----

// expected-error @+1 {{s0 has no value: there is no multiple of 8 from 9 to 15}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, min = 9, max = 15, divisor = 8>]}

// -----

// expected-error @+1 {{expected a divisor of at least 1, got 0}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, divisor = 0>]}

// -----

// expected-error @+1 {{the hint 12 is not a value of s0}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, divisor = 8, hint = 12>]}

// -----

// expected-error @+1 {{the hint 64 is not a value of s0}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, max = 32, hint = 64>]}

// -----

// expected-error @+1 {{s0 comes from a dimension: expected its argument, too}}
func.func private @f() attributes {dynamo.symbols = [#dynamo.symbol<s0, dim = 1>]}

// -----

// The source of a symbol: a size that is exactly this symbol.
// expected-error @+1 {{'dynamo.symbols' finds s0 in argument 1 of 1}}
func.func private @f(tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 1, dim = 0>]}

// -----

// expected-error @+1 {{'dynamo.symbols' finds s0 in dimension 1 of argument 0, which has 1 of them}}
func.func private @f(tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 1>]}

// -----

// expected-error @+1 {{'dynamo.symbols' finds s0 in dimension 0 of argument 0, which is s0*2 in}}
func.func private @f(tensor<?xf32, #dynamo.sizes<s0*2>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]}

// -----

// expected-error @+1 {{'dynamo.symbols' finds s0 in dimension 0 of argument 0, which is 4 in}}
func.func private @f(!dynamo.tensor<4xf32, [1]>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]}

// -----

// expected-error @+1 {{'dynamo.symbols' finds s0 in dimension 0 of argument 0, which is ? in}}
func.func private @f(tensor<?xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]}

// -----

// expected-error @+1 {{'dynamo.symbols' finds s0 in argument 0, which is not an index but}}
func.func private @f(tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0>]}

// -----

// expected-error @+1 {{'dynamo.symbols' finds s0 nowhere: an entry says which argument has it}}
func.func private @f() attributes {dynamo.entry, dynamo.symbols = [#dynamo.symbol<s0>]}

// -----

// An undeclared symbol is an error where it is used: in a type, in an attribute, in an operation of another dialect.
func.func @f(%x: tensor<?xf32, #dynamo.sizes<s1>>) attributes {dynamo.symbols = [#dynamo.symbol<s1, argument = 0, dim = 0>]} {
  // expected-error @+1 {{names the symbol s0, which 'dynamo.symbols' of @f does not declare}}
  %0 = dynamo.slice %x starts [s0] steps [1] : tensor<?xf32, #dynamo.sizes<s1>> -> tensor<1xf32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) {
  // expected-error @+1 {{names the symbol s0, which 'dynamo.symbols' of @f does not declare}}
  %0 = dynamo.exp %x : tensor<?xf32, #dynamo.sizes<s0>>
  return
}

// -----

// expected-error @+1 {{names the symbol s0, which 'dynamo.symbols' of @f does not declare}}
func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.entry} {
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{names the symbol s1, which 'dynamo.symbols' of @f does not declare}}
  return {size = #dynamo.expr<s0 + s1>}
}

// -----

// Sizes must be equal for all values of the symbols, and bounds must hold for at least one.
func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>, %y: tensor<?xi1, #dynamo.sizes<s1>>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1, argument = 1, dim = 0>]} {
  // expected-error @+1 {{expected operands and results of one shape, got 'tensor<?xi1, #dynamo.sizes<s1>>' and 'tensor<?xf32, #dynamo.sizes<s0>>'}}
  %0 = dynamo.select %y, %x, %x : tensor<?xi1, #dynamo.sizes<s1>>, tensor<?xf32, #dynamo.sizes<s0>>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1>]} {
  // expected-error @+1 {{expected as many elements, got s0 and s1}}
  %0 = dynamo.reshape %x : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?xf32, #dynamo.sizes<s1>>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0*9223372036854775807>>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{has a number of elements that does not fit 64 bits}}
  %0 = dynamo.reshape %x : tensor<?xf32, #dynamo.sizes<s0*9223372036854775807>> -> tensor<?x2xf32, #dynamo.sizes<s0*9223372036854775807, 2>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{expected a result of shape [4, s0], got 'tensor<4x?xf32, #dynamo.sizes<4, s0 + 1>>'}}
  %0 = dynamo.permute %x dims [1, 0] : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<4x?xf32, #dynamo.sizes<4, s0 + 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{expected a result of shape [4, s0], got 'tensor<4x?xf32>'}}
  %0 = dynamo.permute %x dims [1, 0] : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<4x?xf32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1>]} {
  // expected-error @+1 {{operand dimension 0 of size s0 does not broadcast to size s1}}
  %0 = dynamo.broadcast %x dims [0] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?xf32, #dynamo.sizes<s1>>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{slice leaves dimension 0 of size s0}}
  %0 = dynamo.slice %x starts [1] steps [1] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?xf32, #dynamo.sizes<s0>>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{expected starts that are not negative, got -s0}}
  %0 = dynamo.slice %x starts [-s0] steps [1] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<1xf32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{window reaches element s0*2 - 2 of s0}}
  %0 = dynamo.as_strided %x strides [2] offset 0 : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?xf32, #dynamo.sizes<s0>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{expected equal batch dimensions and equal sizes of k}}
  %0 = dynamo.matmul %x, %x batch 0 : tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  return
}

// -----

// Memory. The size of a workspace in bytes is in its type, or is an expression.
func.func @f() attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{says how many bytes it has in its type: 'bytes' is for an expression}}
  %ws = dynamo.workspace bytes s0*4 : memref<64xi8>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{expected a number of bytes, got 'memref<?xi8>'}}
  %ws = dynamo.workspace bytes 64 : memref<?xi8>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{names the symbol s0, which 'dynamo.symbols' of @f does not declare}}
  %ws = dynamo.workspace bytes s0*4 : memref<?xi8>
  return
}

// -----

// A buffer is inside the workspace, aligned to its elements; its sizes agree with its type.
func.func @f() attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  %ws = dynamo.workspace bytes s0*4 : memref<?xi8>
  // expected-error @+1 {{reaches byte s0*8 of a workspace of s0*4}}
  %b = dynamo.buffer %ws[s0*4] sizes [s0] : memref<?xi8> -> memref<?xf32>
  return
}

// -----

func.func @f() attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  %ws = dynamo.workspace bytes s0*4 : memref<?xi8>
  // expected-error @+1 {{reaches byte s0*4 + 4 of a workspace of s0*4}}
  %b = dynamo.buffer %ws[4] sizes [s0] : memref<?xi8> -> memref<?xf32>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected a byte offset that is a multiple of the element's 4 bytes}}
  %b = dynamo.buffer %ws[s0*2] : memref<64xi8> -> memref<1xf32>
  return
}

// -----

func.func @f(%ws: memref<64xi8>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected a byte offset that is not negative}}
  %b = dynamo.buffer %ws[-s0*4] : memref<64xi8> -> memref<1xf32>
  return
}

// -----

func.func @f(%ws: memref<?xi8>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected a number of 'sizes' per dimension of 'memref<?x4xf32>', got #dynamo.sizes<s0>}}
  %b = dynamo.buffer %ws[0] sizes [s0] : memref<?xi8> -> memref<?x4xf32>
  return
}

// -----

func.func @f(%ws: memref<?xi8>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{its 'sizes' are [s0, 5], and in its type [?, 4]}}
  %b = dynamo.buffer %ws[0] sizes [s0, 5] : memref<?xi8> -> memref<?x4xf32>
  return
}

// -----

func.func @f(%ws: memref<?xi8>) {
  // expected-error @+1 {{has 'sizes' without an expression: its type says them}}
  %b = dynamo.buffer %ws[0] sizes [2, 4] : memref<?xi8> -> memref<2x4xf32>
  return
}

// -----

func.func @f(%ws: memref<?xi8>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected 'strides': its layout is not row-major}}
  %b = dynamo.buffer %ws[0] sizes [s0, 4] : memref<?xi8> -> memref<?x4xf32, strided<[?, 1]>>
  return
}

// -----

func.func @f() attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{has 'strides' that are expressions, and no 'sizes'}}
  %b = dynamo.output_buffer strides [s0, 1] : memref<?x4xf32, strided<[?, 1]>>
  return
}

// -----

func.func @f() attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{its 'strides' are [s0, 2], and in its type [?, 1]}}
  %b = dynamo.output_buffer sizes [4, s0] strides [s0, 2] : memref<4x?xf32, strided<[?, 1]>>
  return
}

// -----

// A launch passes as many sizes as the kernel takes, after its memory.
func.func @f(%x: memref<?xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{hands over 2 sizes, its kernel takes 1}}
  dynamo.launch @kernels::@k(%x) sizes [s0, 4] : (memref<?xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<?xf32>, index)
}

// -----

func.func @f(%x: memref<?xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{hands over 0 sizes, its kernel takes 1}}
  dynamo.launch @kernels::@k(%x) : (memref<?xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  llvm.func @k(!llvm.ptr, i64) attributes {dynamo.signature = (memref<?xf32>) -> ()}
}

// -----

func.func @f(%x: tensor<4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{hands sizes to a kernel on memrefs only: the types of tensors say them}}
  dynamo.launch @kernels::@k(%x) sizes [s0] : (tensor<4xf32>) -> ()
  return
}
module @kernels {
  func.func private @k(tensor<4xf32>)
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{operand 0 is 'memref<?x4xf32>', its kernel takes 'memref<?x8xf32>'}}
  dynamo.launch @kernels::@k(%x) sizes [s0] : (memref<?x4xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<?x8xf32>, index)
}

// -----

// The smallest number is MLIR's `?`, not a size.
func.func @f(%x: tensor<8xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{is not a size: -9223372036854775808 stands for `?`}}
  %0 = dynamo.slice %x starts [-9223372036854775808] steps [1] : tensor<8xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @f(%x: tensor<4xi64>) {
  // expected-error @+1 {{is not a size: -9223372036854775808 stands for `?`}}
  dynamo.check_range %x in [-9223372036854775808, 4) "m" : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

// expected-error @+1 {{is not a size: -9223372036854775808 stands for `?`}}
func.func private @f(tensor<?x?xf32, #dynamo.sizes<s0, -9223372036854775808>>)

// -----

// An entry declares all symbols that are used in it.
func.func @f(%n: index) attributes {dynamo.entry} {
  // expected-error @+1 {{names the symbol s7, which 'dynamo.symbols' of @f does not declare}}
  %0 = tensor.empty(%n) : tensor<?xf32, #dynamo.sizes<s7>>
  return
}

// -----

// A kernel that assumes more than its launches guarantee would be wrong for some of them.
func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, min = 3>]} {
  // expected-error @+1 {{its kernel takes more for granted of s0 than is declared here}}
  dynamo.launch @kernels::@k(%x) : (tensor<?xf32, #dynamo.sizes<s0>>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, min = 3, divisor = 2>]}
}

// -----

func.func @f(%x: memref<?xf32>) {
  // expected-error @+1 {{operand 0 has sizes or strides that are not numbers, which a launch hands over as 'sizes'}}
  dynamo.launch @kernels::@k(%x) : (memref<?xf32>) -> ()
  return
}
module @kernels {
  // expected-note @+1 {{the kernel is here}}
  func.func private @k(memref<?xf32>)
}

// -----

func.func @f(%x: tensor<1x12x8x8xf32>, %w: tensor<?x4x3x3xf32, #dynamo.sizes<s0, 4, 3, 3>>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected 3 groups of channels}}
  %0 = dynamo.convolution %x, %w strides [1, 1] padding [0, 0] dilation [1, 1] groups 3
      : tensor<1x12x8x8xf32>, tensor<?x4x3x3xf32, #dynamo.sizes<s0, 4, 3, 3>> -> tensor<1x?x6x6xf32, #dynamo.sizes<1, s0, 6, 6>>
  return
}

// -----

func.func @f(%n: index) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, max = 100>]} {
  %ws = dynamo.workspace bytes s0*4 : memref<?xi8>
  // expected-error @+1 {{reaches byte 4000 of a workspace of s0*4}}
  %b = dynamo.buffer %ws[0] : memref<?xi8> -> memref<1000xf32>
  return
}

// -----

func.func @f(%n: index) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0>]} {
  %ws = dynamo.workspace bytes s0*64 : memref<?xi8>
  // expected-error @+1 {{expected 'strides' not to be negative, got -s0*100}}
  %b = dynamo.buffer %ws[0] sizes [s0, 4] strides [-s0*100, 1] : memref<?xi8> -> memref<?x4xf32, strided<[?, 1]>>
  return
}

// -----

func.func @f(%n: index) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0>]} {
  // expected-error @+1 {{expected the number of bytes not to be negative, got -s0}}
  %ws = dynamo.workspace bytes -s0 : memref<?xi8>
  return
}

// -----

// expected-error @+1 {{expected 'dynamo.offset' of argument 0 not to be negative, got -s0}}
func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.offset = #dynamo.expr<-s0>}) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  return
}

// -----

// expected-error @+1 {{expected a view in 'dynamo.outputs' not to be negative, got -s0}}
func.func @f(%x: tensor<?xf32, #dynamo.sizes<s0>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>],
    dynamo.outputs = [#dynamo.output<arg_view 0, [s0], [1], -s0>]} {
  return
}

// -----

// The sizes recorded on a view, an argument in memory and a library result must equal the numbers in their types.
func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{its 'sizes' are [s0, 5], and in its type [?, 4]}}
  %v = dynamo.view %x[0] sizes [s0, 5] strides [4, 1] : memref<?x4xf32> -> memref<?x4xf32>
  return
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{its 'strides' are [4, 2], and in its type [4, 1]}}
  %v = dynamo.view %x[0] sizes [s0, 4] strides [4, 2] : memref<?x4xf32> -> memref<?x4xf32>
  return
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected a number of 'sizes' per dimension of 'memref<?x4xf32>', got #dynamo.sizes<s0>}}
  %v = dynamo.view %x[0] sizes [s0] strides [4, 1] : memref<?x4xf32> -> memref<?x4xf32>
  return
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{its offset is s0*4, and in its type 0}}
  %v = dynamo.view %x[s0*4] sizes [2, 4] strides [4, 1] : memref<?x4xf32> -> memref<2x4xf32>
  return
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected the offset not to be negative, got -s0*4}}
  %v = dynamo.view %x[s0*-4] sizes [2, 4] strides [4, 1] : memref<?x4xf32> -> memref<2x4xf32, strided<[4, 1], offset: ?>>
  return
}

// -----

// expected-error @+1 {{'dynamo.sizes' of argument 0 are not those of 'memref<?x4xf32>', got #dynamo.sizes<s0, 5>}}
func.func @f(%x: memref<?x4xf32> {dynamo.sizes = #dynamo.sizes<s0, 5>}) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  return
}

// -----

// expected-error @+1 {{'dynamo.sizes' of argument 0 must have a size per dimension of memory, got #dynamo.sizes<s0>}}
func.func @f(%x: memref<?x4xf32> {dynamo.sizes = #dynamo.sizes<s0>}) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  return
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{its 'sizes' are [s0, 5], and in its type [?, 4]}}
  %v = dynamo.extern c_shim "aten.relu.default"(%x) args [#dynamo.operand<0>] {sizes = [#dynamo.sizes<s0, 5>]} : (memref<?x4xf32>) -> memref<?x4xf32>
  return
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected 'sizes' of each result, got []}}
  %v = dynamo.extern c_shim "aten.relu.default"(%x) args [#dynamo.operand<0>] {sizes = []} : (memref<?x4xf32>) -> memref<?x4xf32>
  return
}

// -----

func.func @f(%x: memref<?x4xf32>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // expected-error @+1 {{expected sizes in 'strides', got unit}}
  %v = dynamo.extern c_shim "aten.relu.default"(%x) args [#dynamo.operand<0>] {strides = [unit]} : (memref<?x4xf32>) -> memref<?x4xf32>
  return
}

// -----

// expected-error @+1 {{'dynamo.assumed' must be a string such as "s0 <= s1; s0 mod 4 == 0", got 4 : i64}}
func.func @f(%x: memref<?x4xf32>) attributes {dynamo.assumed = 4, dynamo.symbols = [#dynamo.symbol<s0>]} {
  return
}

// -----

// Given the assumption, this is always negative; without it, that is not known.
func.func @f(%x: memref<?x?xf32>) attributes {dynamo.assumed = "s0 < s1", dynamo.symbols = [#dynamo.symbol<s0>, #dynamo.symbol<s1>]} {
  // expected-error @+1 {{expected the offset not to be negative, got s0 - s1}}
  %0 = dynamo.view %x[s0 - s1] sizes [s0] strides [1] : memref<?x?xf32> -> memref<?xf32, strided<[1], offset: ?>>
  return
}

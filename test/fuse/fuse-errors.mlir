// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-verify-kernels

// Invalid forms of stage 03.

module {
  module @kernels {
    // expected-error@+1 {{expected only functions marked dynamo.kernel in module @kernels}}
    func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error@+1 {{a kernel needs 'dynamo.domain'}}
    func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.kernel} {
      return %x : tensor<4xf32>
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error@+1 {{expected a domain without unit dims, got [4, 1]}}
    func.func @k(%x: tensor<4x1xf32>) attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 1>, dynamo.reduced_dims = array<i64>} {
      return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error@+1 {{expected argument of shape [4, 8] (domain) or [4] (row), got tensor<8xf32>}}
    func.func @k(%x: tensor<8xf32>) attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
      return
    }
  }
}

// -----

module {
  module @kernels {
    func.func @k(%x: tensor<4x8xf32>) -> tensor<8xf32> attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
      // expected-error@+1 {{expected 'dynamo.reduce' of the domain over [1], got dims [0] of tensor<4x8xf32>}}
      %0 = dynamo.reduce sum %x dims [0] : tensor<4x8xf32> -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
  }
}

// -----

module {
  module @kernels {
    func.func @k(%x: tensor<4xf32>) -> tensor<4x4xf32> attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 4>, dynamo.reduced_dims = array<i64: 1>} {
      // expected-error@+1 {{expected 'dynamo.broadcast' of a row over the domain, dims [0]}}
      %0 = dynamo.broadcast %x dims [1] : tensor<4xf32> -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }
  }
}

// -----

module {
  module @kernels {
    func.func @k(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 4>, dynamo.reduced_dims = array<i64>} {
      // expected-error@+1 {{'dynamo.permute' may not stand in a kernel}}
      %0 = dynamo.permute %x dims [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }
  }
}

// -----

module {
  module @kernels {
    func.func @k(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 4>, dynamo.reduced_dims = array<i64>} {
      %0 = dynamo.scan sum %x dim 1 : tensor<4x4xf32>
      %1 = dynamo.neg %0 : tensor<4x4xf32>
      // expected-error@+1 {{expected the scan to be the only result of its kernel}}
      return %1 : tensor<4x4xf32>
    }
  }
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'dynamo.neg' may not stand outside a kernel}}
  %0 = dynamo.neg %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

module {
  module @kernels {
    func.func @computed_table(%x: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xf32> attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
      %t = dynamo.neg %x : tensor<4xf32>
      // expected-error@+1 {{expected the table to be an argument that nothing but gathers and products read}}
      %g = dynamo.gather %t[%i] : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
      return %g : tensor<4xf32>
    }
  }
}

// -----

module {
  module @kernels {
    func.func @table_and_operand(%x: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xf32> attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
      // expected-error@+1 {{expected the table to be an argument that nothing but gathers and products read}}
      %g = dynamo.gather %x[%i] : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
      %r = dynamo.add %g, %x : tensor<4xf32>
      return %r : tensor<4xf32>
    }
  }
}

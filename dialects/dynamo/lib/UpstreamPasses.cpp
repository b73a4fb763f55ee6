//===- UpstreamPasses.cpp - The MLIR passes that we use -------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that our pipelines name (crates/codegen/src/pipelines.rs), and
// those of the GPU pipelines. As with the dialects, passes not registered here
// are not linked into the wheel.
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

/// From GPU kernels to the NVVM dialect.
static void registerGpuPasses() {
  registerConvertGpuOpsToNVVMOpsPass();
  registerConvertNVGPUToNVVMPass();
  registerConvertNVVMToLLVMPass();
  registerConvertParallelLoopToGpuPass();
  registerConvertVectorToSCFPass();
  registerGpuKernelOutliningPass();
  registerGpuLaunchSinkIndexComputationsPass();
  registerGpuMapParallelLoopsPass();
}

void dynamoRegisterUpstreamPasses() {
  // Cleanup.
  registerCanonicalizerPass();
  registerCSEPass();
  registerLoopInvariantCodeMotionPass();
  registerSymbolDCEPass();
  // Tensors to buffers.
  bufferization::registerBufferLoopHoistingPass();
  bufferization::registerEmptyTensorEliminationPass();
  bufferization::registerEmptyTensorToAllocTensorPass();
  bufferization::registerOneShotBufferizePass();
  bufferization::registerPromoteBuffersToStackPass();
  // Buffers to loops, loops to branches and threads.
  registerConvertLinalgToLoopsPass();
  registerSCFForallToParallelLoopPass();
  registerConvertSCFToOpenMPPass();
  registerSCFToControlFlowPass();
  registerLowerAffinePass();
  memref::registerExpandStridedMetadataPass();
  arith::registerArithExpandOpsPass();
  // To the LLVM dialect.
  registerArithToLLVMConversionPass();
  registerConvertControlFlowToLLVMPass();
  registerConvertFuncToLLVMPass();
  registerConvertIndexToLLVMPass();
  registerConvertMathToLibmPass();
  registerConvertMathToLLVMPass();
  registerConvertOpenMPToLLVMPass();
  registerConvertVectorToLLVMPass();
  registerFinalizeMemRefToLLVMConversionPass();
  registerUBToLLVMConversionPass();
  registerReconcileUnrealizedCastsPass();
  registerGpuPasses();
}

#ifndef COMPILER_IR_PDCOPS_TD
#define COMPILER_IR_PDCOPS_TD

include "compiler/ir/PdcDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"


/// Operands are results of this dialect's operations in the same block (in a unit also its block
/// arguments) and tensors have element types and layouts that pdc knows: passes rely on both.
def Pdc_KnownValues : NativeOpTrait<"KnownValues"> { let cppNamespace = "::pdc::ir"; }

class Pdc_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pdc_Dialect, mnemonic, !listconcat([Pdc_KnownValues], traits)>;

def Pdc_Value : AnyTypeOf<[AnyTensor, NoneType]>;

def Pdc_MemoryOp : Pdc_Op<"memory", [Symbol, ParentOneOf<["::mlir::ModuleOp", "ProgramOp"]>]> {
  let summary = "named memory";
  let description = [{
    Everything that outlives one microbatch's computation or comes from outside: weights, inputs,
    running statistics, optimizer state, gradient sums, metrics. After staging also the activations
    that go from a forward to a backward task, and inboxes and outboxes. `initial` is a number that
    fills it (a label that says nothing, for padded samples of an input), its elements, or "file": the
    weights file has it under this name. `depth` is the number of copies
    (versions or microbatches), `home` its place; both are set at level 4. `transfers` lists the
    #pdc.transfer of an inbox (one) or an outbox (one per destination). `variable` is its C++ name.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Pdc_Role:$role, Pdc_Rate:$rate,
                       TypeAttrOf<AnyTensor>:$type, OptionalAttr<AnyAttr>:$initial,
                       OptionalAttr<I64Attr>:$depth, OptionalAttr<Pdc_HomeAttr>:$home,
                       OptionalAttr<ArrayAttr>:$transfers, OptionalAttr<StrAttr>:$variable);
  let assemblyFormat = "$sym_name $role $rate `:` $type attr-dict";
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
  let hasVerifier = 1;
}

def Pdc_ReadOp : Pdc_Op<"read", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemRead]>]> {
  let summary = "the value of a memory";
  let arguments = (ins FlatSymbolRefAttr:$memory);
  let results = (outs AnyTensor:$value);
  let assemblyFormat = "$memory attr-dict `:` type($value)";
}

def Pdc_WriteOp : Pdc_Op<"write", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemWrite]>]> {
  let summary = "gives a memory a new value; never a copy, since homes are assigned so";
  let arguments = (ins AnyTensor:$value, FlatSymbolRefAttr:$memory);
  let assemblyFormat = "$value `to` $memory attr-dict `:` type($value)";
}

def Pdc_WeightVersionOp : Pdc_Op<"weight_version", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemRead]>]> {
  let summary = "a weight's value at a version";
  let description = [{
    `latest`: after the newest commit; `of_microbatch`: the version that this microbatch's forward
    pass read (weight stashing); `at_entry`: the version that stood at stage 0 when the microbatch
    entered (vertical sync); `previous`: the one before that which the microbatches before its update
    make (2BW).
  }];
  let arguments = (ins FlatSymbolRefAttr:$memory, Pdc_Version:$version);
  let results = (outs AnyTensor:$value);
  let assemblyFormat = "$memory $version attr-dict `:` type($value)";
}

def Pdc_CommitOp : Pdc_Op<"commit", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemWrite]>]> {
  let summary = "gives a weight its next version";
  let arguments = (ins AnyTensor:$value, FlatSymbolRefAttr:$memory);
  let assemblyFormat = "$value `to` $memory attr-dict `:` type($value)";
}

def Pdc_AccumulateOp : Pdc_Op<"accumulate", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds a microbatch's value to a sum that an update reads";
  let description = [{
    The only passage from microbatch rate to update rate. What is added first after an update
    overwrites the sum. `fused` (level 4): the producing kernel adds in place. `continues` (level 4):
    others of its stage have added to the sum in the same microbatch.
  }];
  let arguments = (ins AnyTensor:$value, FlatSymbolRefAttr:$memory, UnitAttr:$fused, UnitAttr:$continues);
  let assemblyFormat = "$value `into` $memory attr-dict `:` type($value)";
}

def Pdc_AbsentOp : Pdc_Op<"absent", [Pure]> {
  let summary = "stands for an optional operand that is left out";
  let results = (outs NoneType:$value);
  let assemblyFormat = "attr-dict";
}

def Pdc_NodeOp : Pdc_Op<"node", [Pure]> {
  let summary = "one operator";
  let description = [{
    The operator's rules (shapes, reference, gradient, cost) are in compiler/operators. `name` is the
    ONNX node's name, or for nodes that the compiler makes a name derived from it; unique in its
    function. `origin` is the forward node that a backward or update node comes from. `onnx_attributes`
    are ONNX's by name. Results that nobody reads may still be there.
  }];
  let arguments = (ins Variadic<Pdc_Value>:$operands, StrAttr:$op, StrAttr:$name,
                       DictionaryAttr:$onnx_attributes, OptionalAttr<StrAttr>:$origin,
                       OptionalAttr<Pdc_Phase>:$phase, OptionalAttr<Pdc_Rate>:$rate);
  let results = (outs Variadic<AnyTensor>:$results);
  let assemblyFormat = "$op $name `(` $operands `)` $onnx_attributes (`origin` $origin^)? (`phase` $phase^)? (`rate` $rate^)? attr-dict `:` functional-type($operands, $results)";
  let hasCanonicalizeMethod = 1;
}

def Pdc_UnitOp : Pdc_Op<"unit", [IsolatedFromAbove, Pure, SingleBlock]> {
  let summary = "nodes that become one kernel";
  let description = [{
    At most one hero (library call or reduction) with an elementwise prologue and epilogue; on GPUs a
    normalisation also has the convolution of fp16 before it, whose result the unit yields, and a
    matrix product what fuse-products puts beside it. Block arguments stand for the operands.
    `origin` is the forward unit that this unit is planned with (its own name for forward units).
    `kernel` and layouts in the types are set by choose-kernels, costs by estimate-cost, `stage` by
    assign-stages, `homes` (one per result) by assign-homes. A unit without kernel is a view: its
    result is its first operand under another shape. One with `parts`, set by assign-homes, is a Split or
    Concat that moves nothing: they say how many bytes behind the whole's begin each result of the
    one, or operand of the other, lies in it. `in_place` lists pairs (operand, result) that may share memory. `variable` is the C++ name of the kernel, `result_variables` those of the
    results.
  }];
  let arguments = (ins Variadic<Pdc_Value>:$operands, StrAttr:$name, StrAttr:$origin,
                       Pdc_Phase:$phase, Pdc_Rate:$rate, OptionalAttr<Pdc_KernelAttr>:$kernel,
                       OptionalAttr<F64Attr>:$flops, OptionalAttr<F64Attr>:$bytes,
                       OptionalAttr<F64Attr>:$seconds, OptionalAttr<I64Attr>:$stage,
                       OptionalAttr<ArrayAttr>:$homes, OptionalAttr<DenseI64ArrayAttr>:$in_place,
                       OptionalAttr<DenseI64ArrayAttr>:$parts,
                       OptionalAttr<StrAttr>:$variable, OptionalAttr<ArrayAttr>:$result_variables);
  let results = (outs Variadic<AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Pdc_CutOp : Pdc_Op<"cut", [Pure]> {
  let summary = "a value crosses from one stage to another";
  let arguments = (ins AnyTensor:$value, I64Attr:$from, I64Attr:$to);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$value `from` $from `to` $to attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Pdc_ProgramOp : Pdc_Op<"program", [Symbol, SymbolTable, HasParent<"::mlir::ModuleOp">, NoTerminator, SingleBlock,
                                       IsolatedFromAbove, NoRegionArguments]> {
  let summary = "what a rank runs, or several as replicas: memories, stages, rows";
  let description = [{
    A symbol table of its own: a memory that two programs share (a metric, a tied weight) is in both,
    under the same name. `arena` is its size in bytes and `regions` lists {name, offset, stride,
    copies}; both are set by plan-memory. `workspace` bytes at the start of region "scratch" are for
    the libraries that kernels call.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DenseI64ArrayAttr:$ranks,
                       OptionalAttr<I64Attr>:$arena, OptionalAttr<I64Attr>:$workspace,
                       OptionalAttr<ArrayAttr>:$regions);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `ranks` $ranks attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Pdc_StageOp : Pdc_Op<"stage", [HasParent<"ProgramOp">, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "a convex part of the graph: its tasks";
  let arguments = (ins I64Attr:$id, OptionalAttr<DenseI64ArrayAttr>:$slots,
                       OptionalAttr<I64Attr>:$versions);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$id attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Pdc_TaskOp : Pdc_Op<"task", [HasParent<"StageOp">, SingleBlock, NoRegionArguments,
                                 SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "what a stage does in one phase, for one microbatch or one update";
  let arguments = (ins Pdc_Phase:$phase);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$phase attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Pdc_YieldOp : Pdc_Op<"yield", [Pure, Terminator, ParentOneOf<["UnitOp", "TaskOp"]>]> {
  let summary = "ends a unit or a task";
  let arguments = (ins Variadic<AnyTensor>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Pdc_ScheduleOp : Pdc_Op<"schedule", [HasParent<"ProgramOp">, NoTerminator, NoRegionArguments]> {
  let summary = "the rows of a rank";
  let description = [{
    `evaluation` schedules have phase evaluate in `repeat`. Synchronous schedules have one minibatch
    in `warm_up`. In `repeat` microbatches are relative to the iteration, in `drain` to the first
    microbatch that is still in flight. A program of several ranks, the replicas of its stages, has
    rows for each `rank`. `weights` says which version the forward and backward tasks of an
    asynchronous schedule read where it is not the newest at the forward pass.
  }];
  let arguments = (ins StrAttr:$name, BoolAttr:$asynchronous, I64Attr:$microbatches, I64Attr:$period,
                       UnitAttr:$evaluation, OptionalAttr<I64Attr>:$rank,
                       OptionalAttr<Pdc_Version>:$weights);
  let regions = (region AnyRegion:$warm_up, AnyRegion:$repeat, AnyRegion:$drain);
  let assemblyFormat = "$name attr-dict-with-keyword `warm_up` $warm_up `repeat` $repeat `drain` $drain";
  let hasVerifier = 1;
}

def Pdc_RunOp : Pdc_Op<"run", [HasParent<"ScheduleOp">]> {
  let summary = "runs a task";
  let arguments = (ins I64Attr:$stage, Pdc_Phase:$phase, I64Attr:$microbatch);
  let assemblyFormat = "$stage $phase $microbatch attr-dict";
  let hasVerifier = 1;
}

def Pdc_SendOp : Pdc_Op<"send", [HasParent<"ScheduleOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "sends an outbox to a rank";
  let arguments = (ins FlatSymbolRefAttr:$memory, I64Attr:$stage, I64Attr:$microbatch, I64Attr:$peer, I64Attr:$tag);
  let assemblyFormat = "$memory `stage` $stage `microbatch` $microbatch `to` $peer `tag` $tag attr-dict";
  let hasVerifier = 1;
}

def Pdc_RecvOp : Pdc_Op<"recv", [HasParent<"ScheduleOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "receives into an inbox from a rank";
  let arguments = (ins FlatSymbolRefAttr:$memory, I64Attr:$stage, I64Attr:$microbatch, I64Attr:$peer, I64Attr:$tag);
  let assemblyFormat = "$memory `stage` $stage `microbatch` $microbatch `from` $peer `tag` $tag attr-dict";
  let hasVerifier = 1;
}

def Pdc_AllReduceOp : Pdc_Op<"all_reduce", [HasParent<"ScheduleOp">]> {
  let summary = "sums memories over all ranks that hold them, in rank order";
  let description = [{
    With a `stage`, over the replicas of that stage, for its update behind `microbatch`: gradients are
    summed and states averaged.
  }];
  let arguments = (ins ArrayAttr:$memories, OptionalAttr<I64Attr>:$stage,
                       OptionalAttr<I64Attr>:$microbatch);
  let assemblyFormat = "$memories attr-dict";
  let hasVerifier = 1;
}

#endif

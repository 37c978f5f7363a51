#ifndef COMPILER_IR_PDCDIALECT_TD
#define COMPILER_IR_PDCDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Pdc_Dialect : Dialect {
  let name = "pdc";
  let cppNamespace = "::pdc::ir";
  let summary = "training graphs, split into the programs of a pipeline";
  let description = [{
    One small dialect with four levels. **graph**: entry functions over shared memory; each value
    has a rate. **cut**: each unit has a stage and each value that crosses stages a `pdc.cut`.
    **staged**: one `pdc.program` per rank, with stages and tasks; no value crosses a task.
    **scheduled**: rows, transfers, homes in the arena, names.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Pdc_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::pdc::ir";
}

def Pdc_Role : Pdc_Enum<"Role", "what a memory is for", [
  I32EnumAttrCase<"Weight", 0, "weight">, I32EnumAttrCase<"Derived", 1, "derived">,
  I32EnumAttrCase<"Constant", 2, "constant">, I32EnumAttrCase<"Input", 3, "input">,
  I32EnumAttrCase<"State", 4, "state">, I32EnumAttrCase<"Optimizer", 5, "optimizer">,
  I32EnumAttrCase<"Gradient", 6, "gradient">, I32EnumAttrCase<"Activation", 7, "activation">,
  I32EnumAttrCase<"Scratch", 8, "scratch">, I32EnumAttrCase<"Metric", 9, "metric">,
  I32EnumAttrCase<"Inbox", 10, "inbox">, I32EnumAttrCase<"Outbox", 11, "outbox">,
  I32EnumAttrCase<"Gathered", 12, "gathered">]>;

def Pdc_Rate : Pdc_Enum<"Rate", "how often a value changes", [
  I32EnumAttrCase<"Once", 0, "once">, I32EnumAttrCase<"Version", 1, "version">,
  I32EnumAttrCase<"Microbatch", 2, "microbatch">, I32EnumAttrCase<"Update", 3, "update">]>;

def Pdc_Phase : Pdc_Enum<"Phase", "when a node runs", [
  I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"BackwardInput", 2, "backward_input">,
  I32EnumAttrCase<"BackwardWeight", 3, "backward_weight">, I32EnumAttrCase<"Update", 4, "update">,
  I32EnumAttrCase<"Prepare", 5, "prepare">, I32EnumAttrCase<"Evaluate", 6, "evaluate">]>;

def Pdc_Version : Pdc_Enum<"Version", "which version of a weight", [
  I32EnumAttrCase<"Latest", 0, "latest">, I32EnumAttrCase<"OfMicrobatch", 1, "of_microbatch">,
  I32EnumAttrCase<"AtEntry", 2, "at_entry">, I32EnumAttrCase<"Previous", 3, "previous">]>;

class Pdc_Attr<string name, string attrMnemonic> : AttrDef<Pdc_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Pdc_LayoutAttr : Pdc_Attr<"Layout", "layout"> {
  let summary = "physical order of a tensor, as an encoding of its type";
  let description = [{
    A oneDNN format tag: letters are dimensions from the outermost to the innermost stride, an upper
    case letter is blocked, and `16b` is an inner block of 16 elements of dimension b; blocked
    dimensions are padded up: with zeros, but for rows that are padded alone (pad-rows), whose padding nobody
    reads. No layout means row-major.
  }];
  let parameters = (ins StringRefParameter<"format tag">:$tag);
  let assemblyFormat = "`<` $tag `>`";
}

def Pdc_KernelAttr : Pdc_Attr<"Kernel", "kernel"> {
  let summary = "the runtime kernel of a unit and the fields of its description";
  let description = [{
    `name` is a class of runtime/kernels and `fields` are the members of its description, in order of
    their names; compiler/devices makes them and the printer prints them. `workspace` bounds the
    library's scratch memory in bytes. `accumulates`: the kernel can add to its results; with
    `adds_to_last` to the last one alone.
    `multiplies_plain`: on CPUs it needs oneDNN's products of plain matrices.
  }];
  let parameters = (ins StringRefParameter<"kernel">:$name, "::mlir::DictionaryAttr":$fields,
                        "int64_t":$workspace, "bool":$accumulates,
                        DefaultValuedParameter<"bool", "false">:$multipliesPlain,
                        DefaultValuedParameter<"bool", "false">:$addsToLast);
  let assemblyFormat = "`<` $name `,` $fields `,` `workspace` `=` $workspace `,` `accumulates` `=` $accumulates (`multiplies_plain` `=` $multipliesPlain^)? (`adds_to_last` `=` $addsToLast^)? `>`";
}

def Pdc_HomeAttr : Pdc_Attr<"Home", "home"> {
  let summary = "where a value lives: a region of the arena and bytes from the start of a copy";
  let parameters = (ins StringRefParameter<"region">:$region, "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $region `,` $offset `,` $bytes `>`";
}

def Pdc_TransferAttr : Pdc_Attr<"Transfer", "transfer"> {
  let summary = "a tensor's way from one stage to another, once per microbatch; its tag is unique";
  let parameters = (ins "int64_t":$tag, "int64_t":$from, "int64_t":$to);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif

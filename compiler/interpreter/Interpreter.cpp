#include "compiler/interpreter/Interpreter.h"

#include "compiler/Error.h"
#include "compiler/interpreter/Levels.h"

#include <cmath>

namespace pdc {

using namespace interpreter;

/// A module's schedule for training; null below level 4.
static ir::ScheduleOp findTraining(mlir::ModuleOp module) {
  for (auto program : module.getOps<ir::ProgramOp>())
    for (auto schedule : program.getBody().getOps<ir::ScheduleOp>())
      if (!schedule.getEvaluation())
        return schedule;
  return {};
}

static bool isReported(ir::Role role) {
  return role == ir::Role::Weight || role == ir::Role::Optimizer || role == ir::Role::State ||
         role == ir::Role::Metric;
}

/// Several programs may hold a memory: a metric's parts are added, copies must agree.
static void report(std::map<std::string, Tensor> &contents, Machines &machines, Machine &machine,
                   const std::string &name, Memory &memory) {
  if (memory.role == ir::Role::Metric) {
    contents.insert_or_assign(name, *machines.total(name));
    return;
  }
  Tensor value = memory.role == ir::Role::Weight
                     ? machine.readVersion(name, ir::Version::Latest, {})
                     : memory.held.at(0).value;
  auto [it, isNew] = contents.emplace(name, value);
  if (!isNew && it->second.data != value.data)
    throw Error("memory '" + name + "': the copy of program '" + machine.getName() +
                "' differs from another program's");
}

std::map<std::string, Tensor> interpret(mlir::ModuleOp module, const InterpreterInput &input) {
  if (input.microbatches < 1 || input.updates < 0 || input.evaluations < 0)
    throw Error("the interpreter needs at least one microbatch per update");
  ir::ScheduleOp training = findTraining(module);
  bool asynchronous = module->hasAttr("pdc.asynchronous");
  Machines machines{input, asynchronous, asynchronous ? 1 : input.microbatches, {}, {}};
  if (training) {
    machines.asynchronous = training.getAsynchronous();
    machines.microbatches = training.getMicrobatches();
  }
  if (module.getOps<ir::ProgramOp>().empty())
    runGraph(machines, module);
  else if (!training)
    runStaged(machines, module);
  else
    runScheduled(machines, module);
  std::map<std::string, Tensor> contents;
  for (const auto &machine : machines.machines)
    for (auto &[name, memory] : machine->all())
      if (isReported(memory.role))
        report(contents, machines, *machine, name, memory);
  return contents;
}

static bool isNear(const Tensor &a, const Tensor &b, double tolerance, std::string &difference) {
  if (a.type.shape != b.type.shape) {
    difference = "has type " + a.type.toString() + " before and " + b.type.toString() + " after";
    return false;
  }
  double largest = 0;
  for (double element : a.data)
    largest = std::max(largest, std::abs(element));
  for (size_t i = 0; i < a.data.size(); ++i)
    if (!(std::abs(a.data[i] - b.data[i]) <= tolerance * std::max(largest, 1e-30))) {
      difference = "element " + std::to_string(i) + " is " + std::to_string(a.data[i]) +
                   " before and " + std::to_string(b.data[i]) + " after";
      return false;
    }
  return true;
}

bool computesTheSame(mlir::ModuleOp before, mlir::ModuleOp after, double tolerance,
                     std::string &difference) {
  InterpreterInput input;
  for (mlir::ModuleOp module : {before, after})
    if (ir::ScheduleOp training = findTraining(module))
      input.microbatches = training.getMicrobatches();
  std::map<std::string, Tensor> first = interpret(before, input), second = interpret(after, input);
  for (const auto &[name, value] : first) {
    auto other = second.find(name);
    std::string detail = "is gone after";
    if (other != second.end() && isNear(value, other->second, tolerance, detail))
      continue;
    difference = "memory '" + name + "': " + detail;
    return false;
  }
  return true;
}

} // namespace pdc

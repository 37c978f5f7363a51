#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <optional>

namespace pdc {
#define GEN_PASS_DEF_JOINPRODUCTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Nodes that add up what each row of their factors gives: products A^T B of two, sums of the
/// columns of one. What they make together one of them makes of all rows.
using Terms = SmallVector<NodeOp>;

/// How many factors the node has; 0: it is no such node of the backward pass.
size_t countFactors(NodeOp node) {
  auto isMatrix = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() == 2;
  };
  if (!node || !node.getOrigin() || node.getNumOperands() != 2 || !isMatrix(node.getOperand(0)))
    return 0;
  const Attributes attributes = toAttributes(node.getOnnxAttributes());
  if (node.getOp() == "Gemm")
    return attributes.integer("transA", 0) != 0 && attributes.integer("transB", 0) == 0 ? 2 : 0;
  if (node.getOp() != "ReduceSum")
    return 0;
  const std::optional<Tensor> axes = constantOf(node.getOperand(1));
  return axes && axes->data == std::vector<double>{0} ? 1 : 0;
}

/// Whether one node can stand for both.
bool areAlike(NodeOp a, NodeOp b) {
  return a.getOp() == b.getOp() && a.getOnnxAttributes() == b.getOnnxAttributes() &&
         a.getResult(0).getType() == b.getResult(0).getType();
}

/// The largest group of alike nodes with so many factors among those that make the values; empty
/// where there is none of several.
Terms termsAmong(ArrayRef<Value> values, size_t count) {
  SmallVector<Terms> groups;
  for (Value value : values) {
    auto node = value.getDefiningOp<NodeOp>();
    if (countFactors(node) != count)
      continue;
    auto *group = llvm::find_if(groups, [&](Terms &one) { return areAlike(one.front(), node); });
    if (group == groups.end())
      groups.push_back({node});
    else
      group->push_back(node);
  }
  auto bySize = [](const Terms &a, const Terms &b) { return a.size() < b.size(); };
  auto *largest = llvm::max_element(groups, bySize);
  return largest == groups.end() || largest->size() < 2 ? Terms() : *largest;
}

/// What a sum adds up, and what those sums do that it alone reads: steps far apart have their own.
SmallVector<Value> addendsOf(NodeOp sum) {
  SmallVector<Value> found;
  for (Value value : sum.getOperands()) {
    auto inner = value.getDefiningOp<NodeOp>();
    if (inner && inner.getOp() == "Sum" && inner.getOrigin() && value.hasOneUse())
      llvm::append_range(found, addendsOf(inner));
    else
      found.push_back(value);
  }
  return found;
}

SmallVector<Value> factors(const Terms &terms, size_t which) {
  return llvm::map_to_vector(terms, [&](NodeOp term) { return term.getOperand(which); });
}

/// The node before another that puts these matrices below one another, in this or in any order:
/// there is one where a sequence was cut into its steps.
NodeOp findStacked(ArrayRef<Value> matrices, Operation *before, bool inOrder) {
  for (Operation *user : matrices.front().getUsers()) {
    auto concat = dyn_cast<NodeOp>(user);
    if (concat && concat.getOp() == "Concat" && concat->isBeforeInBlock(before) &&
        concat.getNumOperands() == matrices.size() &&
        toAttributes(concat.getOnnxAttributes()).integer("axis", 1) == 0 &&
        (inOrder ? llvm::equal(concat.getOperands(), matrices)
                 : std::is_permutation(matrices.begin(), matrices.end(), concat->operand_begin())))
      return concat;
  }
  return {};
}

/// Brings the terms into the order in which their factors are stacked.
void orderAs(NodeOp stacked, size_t which, Terms &terms) {
  Terms ordered;
  for (Value matrix : stacked.getOperands()) {
    auto *found =
        llvm::find_if(terms, [&](NodeOp term) { return term.getOperand(which) == matrix; });
    ordered.push_back(*found);
    terms.erase(found);
  }
  terms = std::move(ordered);
}

/// What one node can make.
struct Candidate {
  Terms terms;                 ///< in one order for all factors: rows of two terms never meet
  SmallVector<NodeOp> stacked; ///< by factor; none: its matrices are to be copied
};

Candidate candidateOf(Terms terms, size_t count, Operation *before) {
  for (size_t which = 0; which < count; ++which)
    if (NodeOp known = findStacked(factors(terms, which), before, false)) {
      orderAs(known, which, terms);
      break;
    }
  Candidate candidate{terms, {}};
  for (size_t which = 0; which < count; ++which)
    candidate.stacked.push_back(findStacked(factors(terms, which), before, true));
  return candidate;
}

/// Whether copying the factors that are not stacked yet moves fewer numbers than writing all terms
/// but one and reading them again.
bool pays(const Candidate &candidate) {
  auto elements = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getNumElements();
  };
  int64_t copied = 0;
  for (auto [which, known] : llvm::enumerate(candidate.stacked))
    if (!known)
      for (Value matrix : factors(candidate.terms, which))
        copied += elements(matrix);
  const auto fewer = static_cast<int64_t>(candidate.terms.size()) - 1;
  return copied <= fewer * elements(NodeOp(candidate.terms.front()).getResult(0));
}

/// Joins what is added up in one function.
class Joining {
public:
  explicit Joining(func::FuncOp function)
      : function(function), module(function->getParentOfType<ModuleOp>()), symbols(module),
        names(function) {}

  void run() {
    for (auto accumulate : function.getOps<AccumulateOp>())
      into[accumulate.getMemory()] = accumulate;
    // Products before sums of columns, which read what those have stacked.
    for (const size_t count : {2, 1}) {
      joinSums(count);
      for (auto memory : llvm::make_early_inc_range(module.getOps<MemoryOp>()))
        if (memory.getRole() == Role::Weight)
          joinUses(memory, count);
    }
  }

private:
  void joinSums(size_t count);
  void joinSum(NodeOp sum, size_t count);
  SmallVector<AccumulateOp> usesOf(MemoryOp weight);
  void joinUses(MemoryOp weight, size_t count);
  Value join(const Candidate &candidate, Operation *before, StringRef origin);

  func::FuncOp function;
  ModuleOp module;
  SymbolTable symbols;
  NodeNames names;
  llvm::StringMap<AccumulateOp> into; ///< by memory
};

/// A sum before those that it reads, which it may leave without users.
void Joining::joinSums(size_t count) {
  SmallVector<NodeOp> sums;
  for (auto node : function.getOps<NodeOp>())
    if (node.getOp() == "Sum" && node.getOrigin())
      sums.push_back(node);
  for (NodeOp sum : llvm::reverse(sums)) {
    joinSum(sum, count);
    if (sum.use_empty())
      sum.erase();
  }
}

void Joining::joinSum(NodeOp sum, size_t count) {
  const SmallVector<Value> values = addendsOf(sum);
  const Terms terms = termsAmong(values, count);
  if (terms.empty())
    return;
  const Candidate candidate = candidateOf(terms, count, sum);
  if (!pays(candidate))
    return;
  SmallVector<Value> left{join(candidate, sum, *sum.getOrigin())};
  for (Value value : values)
    if (!llvm::is_contained(terms, value.getDefiningOp()))
      left.push_back(value);
  if (left.size() > 1)
    return sum->setOperands(left);
  sum.getResult(0).replaceAllUsesWith(left.front());
}

/// Where the gradients of the uses are summed, in their order.
SmallVector<AccumulateOp> Joining::usesOf(MemoryOp weight) {
  SmallVector<AccumulateOp> uses;
  while (AccumulateOp next = into.lookup(gradientName(weight.getSymName(), uses.size())))
    uses.push_back(next);
  return uses;
}

/// The gradient of joined uses is summed where that of the first was, and what it reads of the
/// others may have to be sent there: uses apart would each hold a gradient of their own.
void Joining::joinUses(MemoryOp weight, size_t count) {
  const SmallVector<AccumulateOp> uses = usesOf(weight);
  auto gradientOf = [](AccumulateOp use) -> Value { return use.getValue(); };
  const Terms terms = termsAmong(llvm::map_to_vector(uses, gradientOf), count);
  auto isTerm = [&](AccumulateOp use) {
    return llvm::is_contained(terms, use.getValue().getDefiningOp());
  };
  const SmallVector<AccumulateOp> joined(llvm::make_filter_range(uses, isTerm));
  if (joined.empty())
    return;
  AccumulateOp last = *llvm::max_element(
      joined, [](AccumulateOp a, AccumulateOp b) { return a->isBeforeInBlock(b); });
  const Candidate candidate = candidateOf(terms, count, last->getBlock()->getTerminator());
  if (!pays(candidate))
    return;
  // The product of all inputs stacks the gradients of steps behind the last of them.
  for (NodeOp stacked : candidate.stacked)
    if (stacked && last->isBeforeInBlock(stacked))
      last->moveAfter(stacked);
  SmallVector<AccumulateOp> left;
  for (AccumulateOp use : uses)
    if (use == joined.front())
      left.push_back(last);
    else if (!isTerm(use))
      left.push_back(use);
  last.getValueMutable().set(join(candidate, last, *NodeOp(terms.front()).getOrigin()));
  for (AccumulateOp use : joined)
    if (use != last)
      use.erase();
  for (size_t number = 0; number < uses.size(); ++number) {
    const std::string sum = gradientName(weight.getSymName(), number);
    if (number < left.size()) {
      left[number].setMemory(sum);
      into[sum] = left[number];
    } else {
      symbols.erase(symbols.lookup(sum));
      into.erase(sum);
    }
  }
}

/// One node instead of the terms.
Value Joining::join(const Candidate &candidate, Operation *before, StringRef origin) {
  OpBuilder builder(before);
  auto add = [&](StringRef op, ValueRange operands, const Attributes &attributes) -> Value {
    return createNode(builder, before->getLoc(), op, names.unique(origin + "/grad/" + op), operands,
                      attributes, origin)
        .getResult(0);
  };
  NodeOp like = candidate.terms.front();
  SmallVector<Value> operands(like.getOperands());
  for (size_t which = 0; which < candidate.stacked.size(); ++which)
    if (NodeOp known = candidate.stacked[which])
      operands[which] = known.getResult(0);
    else
      operands[which] = add("Concat", factors(candidate.terms, which), {{"axis", int64_t(0)}});
  return add(like.getOp(), operands, toAttributes(like.getOnnxAttributes()));
}

struct JoinProducts : pdc::impl::JoinProductsBase<JoinProducts> {
  using JoinProductsBase::JoinProductsBase;

  void runOnOperation() override {
    auto join = [&] {
      if (auto train = getOperation().lookupSymbol<func::FuncOp>("train"))
        Joining(train).run();
      return success();
    };
    if (failed(runChecked(getOperation(), join)))
      signalPassFailure();
  }
};

} // namespace

#include "passes/ConstantRows.h"

#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace mlir;
using pdc::ir::NodeOp;

namespace pdc {

namespace {

/// Runs of all rows together: beyond, as in tables of any numbers, little is saved.
constexpr size_t kMostRuns = 1 << 20;

/// Nodes between a mask and its constants.
constexpr int kMostNodes = 64;

bool isComparison(llvm::StringRef op) {
  return op == "Less" || op == "LessOrEqual" || op == "Greater" || op == "GreaterOrEqual" ||
         op == "Equal";
}

/// Whether results go on in steps where operands do.
bool keepsSteps(llvm::StringRef op) {
  return op == "Add" || op == "Sub" || op == "Neg" || op == "Cast" || op == "Where";
}

/// What masks are made of.
bool isFollowed(llvm::StringRef op) {
  return isComparison(op) || keepsSteps(op) || op == "And" || op == "Or" || op == "Xor" ||
         op == "Not" || op == "Mul" || op == "Max" || op == "Min";
}

bool isWhole(double value) { return std::abs(value) < 0x1p53 && std::trunc(value) == value; }

double elementAt(const Run &run, int64_t place) {
  return run.step == 0 ? run.first : run.first + run.step * double(place - run.begin);
}

void appendRun(Runs &runs, const Run &run) {
  const bool goesOn = !runs.empty() && runs.back().step == run.step &&
                      elementAt(runs.back(), run.begin) == run.first;
  if (!goesOn)
    runs.push_back(run);
}

/// A number is a row of one.
std::vector<int64_t> shapeOfRows(const TensorType &type) {
  return type.shape.empty() ? std::vector<int64_t>{1} : type.shape;
}

std::optional<RunRows> rowsOfConstant(const Tensor &tensor) {
  RunRows found{tensor.type.element, shapeOfRows(tensor.type), {}, {}};
  found.held.assign(found.shape.begin(), found.shape.end() - 1);
  size_t count = 0;
  for (int64_t row = 0; row < product(found.held); ++row) {
    found.rows.push_back(runsOf(tensor, row * found.shape.back(), found.shape.back()));
    if (count += found.rows.back().size(); count > kMostRuns)
      return std::nullopt;
  }
  return found;
}

/// The runs of an elementwise node's result.
class Combination {
public:
  Combination(NodeOp node, std::vector<const RunRows *> operands)
      : facts(node), op(node.getOp()), operands(std::move(operands)),
        type(toTensorType(node.getResult(0).getType())) {}

  std::optional<RunRows> make() {
    RunRows result{type.element, shapeOfRows(type), {}, {}};
    keys = result.shape.back();
    hold(result);
    if (!divideRows(result.held))
      return std::nullopt;
    const std::vector<double> first = evaluate(&Segment::begin);
    const bool isStepped = llvm::any_of(segments, [](const Segment &s) { return s.isStepped; });
    const std::vector<double> second = isStepped ? evaluate(&Segment::probe) : first;
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment &segment = segments[i];
      const double step = second[i] == first[i] ? 0 : second[i] - first[i];
      if (segment.isStepped && !mayStep(segment, step))
        return std::nullopt;
      result.rows.resize(size_t(segment.row) + 1);
      appendRun(result.rows.back(), {segment.begin, first[i], segment.isStepped ? step : 0});
    }
    return result;
  }

private:
  /// Keys of a row within which each operand has one run.
  struct Segment {
    int64_t row, begin, probe; ///< `probe`: the element that tells how results go on
    std::vector<const Run *> runs;
    bool isStepped;
  };

  /// Rows repeat where those of all operands do.
  void hold(RunRows &result) {
    result.held.assign(result.shape.size() - 1, 1);
    for (const RunRows *operand : operands)
      for (size_t d = 0; d < operand->held.size(); ++d) {
        int64_t &size = result.held[d + result.held.size() - operand->held.size()];
        size = std::max(size, operand->held[d]);
      }
  }

  bool divideRows(const std::vector<int64_t> &held) {
    std::vector<std::vector<int64_t>> strides;
    for (const RunRows *operand : operands)
      strides.push_back(broadcastStrides(operand->held, held));
    std::vector<int64_t> index(held.size());
    for (int64_t row = 0; row < product(held); ++row, advance(index, held)) {
      std::vector<const Runs *> runs;
      for (size_t i = 0; i < operands.size(); ++i)
        runs.push_back(&operands[i]->rows[size_t(offsetOf(index, strides[i]))]);
      divideRow(row, runs);
      if (segments.size() > kMostRuns)
        return false;
    }
    return true;
  }

  void divideRow(int64_t row, const std::vector<const Runs *> &runs) {
    std::set<int64_t> begins;
    for (const Runs *operand : runs)
      for (const Run &run : *operand)
        begins.insert(run.begin);
    if (isComparison(op))
      for (int64_t begin : std::vector<int64_t>(begins.begin(), begins.end()))
        addCrossing(begins, runAt(*runs[0], begin), runAt(*runs[1], begin), begin);
    for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
      const int64_t end = std::next(begin) == begins.end() ? keys : *std::next(begin);
      Segment segment{row, *begin, isComparison(op) ? end - 1 : *begin + 1, {}, false};
      for (const Runs *operand : runs) {
        segment.runs.push_back(&runAt(*operand, *begin));
        segment.isStepped |= end - *begin > 1 && segment.runs.back()->step != 0;
      }
      if (!segment.isStepped)
        segment.probe = *begin;
      segments.push_back(std::move(segment));
    }
  }

  static const Run &runAt(const Runs &runs, int64_t place) {
    auto next = std::upper_bound(runs.begin(), runs.end(), place,
                                 [](int64_t place, const Run &run) { return place < run.begin; });
    return *std::prev(next);
  }

  /// Where what two runs compare to changes.
  void addCrossing(std::set<int64_t> &begins, const Run &a, const Run &b, int64_t begin) const {
    const double slope = a.step - b.step;
    if (slope == 0)
      return;
    const double crossing = double(begin) + (elementAt(b, begin) - elementAt(a, begin)) / slope;
    const auto next = begins.upper_bound(begin);
    const int64_t end = next == begins.end() ? keys : *next;
    for (double place : {std::ceil(crossing), std::floor(crossing) + 1})
      if (place > double(begin) && place < double(end))
        begins.insert(int64_t(place));
  }

  /// Whether the result of a segment is known by two elements of it.
  bool mayStep(const Segment &segment, double step) const {
    if (isComparison(op))
      return step == 0;
    const bool areWhole = llvm::all_of(segment.runs, [](const Run *run) {
      return run->step == 0 || (isWhole(run->first) && isWhole(run->step));
    });
    return keepsSteps(op) && areWhole && std::isfinite(step) &&
           type.element != ElementType::boolean;
  }

  /// By the operator's reference, one element of each segment.
  std::vector<double> evaluate(int64_t Segment::*place) const {
    const auto count = static_cast<int64_t>(segments.size());
    std::vector<Tensor> values;
    for (size_t i = 0; i < operands.size(); ++i) {
      values.push_back(Tensor::zeros({operands[i]->element, {count}}));
      for (size_t s = 0; s < segments.size(); ++s)
        values[i].data[s] = elementAt(*segments[s].runs[i], segments[s].*place);
    }
    std::vector<const TensorType *> types;
    std::vector<const Tensor *> inputs;
    for (const Tensor &value : values) {
      types.push_back(&value.type);
      inputs.push_back(&value);
    }
    const NodeView whole = facts.view();
    return evaluateNode(facts.rules(), {whole.op, whole.name, whole.attributes, types, inputs, 1},
                        inputs)[0]
        .data;
  }

  NodeFacts facts;
  std::string op;
  std::vector<const RunRows *> operands;
  pdc::TensorType type;
  int64_t keys = 1;
  std::vector<Segment> segments;
};

/// Of a view that leaves rows whole, or a repetition; nothing for others.
std::optional<RunRows> movedRows(NodeOp node, const RunRows &rows) {
  RunRows result{
      rows.element, shapeOfRows(toTensorType(node.getResult(0).getType())), {}, rows.rows};
  std::vector<int64_t> sizes = rows.held;
  if (node.getOp() == "Expand") {
    sizes.insert(sizes.begin(), result.shape.size() - rows.shape.size(), 1);
    result.held = sizes;
    return result;
  }
  sizes.push_back(rows.shape.back());
  const auto seen = seenAs(rows.shape, result.shape, sizes);
  if (!seen || result.shape.back() != rows.shape.back())
    return std::nullopt;
  result.held.assign(seen->begin(), seen->end() - 1);
  return result;
}

} // namespace

Runs runsOf(const Tensor &tensor, int64_t firstElement, int64_t count) {
  const double *row = tensor.data.data() + firstElement;
  auto difference = [&](int64_t i) { return row[i + 1] - row[i]; };
  Runs runs;
  for (int64_t i = 0; i < count;) {
    // Two different elements are two runs: a step takes three.
    const bool isStepped = i + 2 < count && tensor.type.element != ElementType::boolean &&
                           isWhole(row[i]) && isWhole(difference(i)) &&
                           difference(i) == difference(i + 1);
    runs.push_back({i, row[i], isStepped ? difference(i) : 0});
    const double step = runs.back().step;
    for (++i; i < count && (step == 0 ? row[i] == row[i - 1] : difference(i - 1) == step);)
      ++i;
  }
  return runs;
}

std::optional<std::vector<int64_t>> seenAs(const std::vector<int64_t> &from,
                                           const std::vector<int64_t> &to,
                                           const std::vector<int64_t> &sizes) {
  std::vector<int64_t> seen;
  size_t d = 0;
  auto passOnes = [&] {
    while (d < from.size() && from[d] == 1)
      ++d;
  };
  for (int64_t size : to) {
    passOnes();
    if (size != 1 && (d == from.size() || from[d] != size))
      return std::nullopt;
    seen.push_back(size == 1 ? 1 : sizes[d++]);
  }
  passOnes();
  return d == from.size() ? std::optional(seen) : std::nullopt;
}

ConstantRows::Entry ConstantRows::entryOf(Value value, int depth, Known &known) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  const Entry entry = follow(value, depth, known);
  known.try_emplace(value, entry);
  return entry;
}

ConstantRows::Entry ConstantRows::follow(Value value, int depth, Known &known) {
  auto node = value.getDefiningOp<NodeOp>();
  if (!node || node->getNumResults() != 1 || depth > kMostNodes)
    return {};
  const bool moves = isViewNode(node) || node.getOp() == "Expand";
  if (!isConstant(node) && !moves && !isFollowed(node.getOp()))
    return {};
  Key key = {node.getOpAttr().getAsOpaquePointer(), node.getOnnxAttributes().getAsOpaquePointer(),
             value.getType().getAsOpaquePointer()};
  std::vector<const RunRows *> operands;
  for (Value operand : node.getOperands()) {
    const auto [address, rows] = entryOf(operand, depth + 1, known);
    if (!address)
      return {};
    key.push_back(address);
    operands.push_back(rows);
  }
  auto [found, isNew] = entries.try_emplace(key);
  const bool isEmpty = toTensorType(value.getType()).elementCount() == 0;
  if (isNew && !isEmpty && llvm::all_of(operands, [](auto *rows) { return rows != nullptr; })) {
    std::optional<RunRows> made = isConstant(node) ? rowsOfConstant(*constantOf(value))
                                  : moves          ? movedRows(node, *operands[0])
                                                   : Combination(node, operands).make();
    if (made)
      found->second = std::make_unique<RunRows>(std::move(*made));
  }
  return {&found->first, found->second.get()};
}

} // namespace pdc

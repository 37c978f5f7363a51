#include "runtime/cuda/AttentionPlan.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>

namespace pdc::runtime::cuda {

namespace {

using Sizes = OperationGraph::Sizes;

Sizes turned(Sizes sizes) {
  std::swap(sizes[2], sizes[3]);
  return sizes;
}

cudnnDataType_t storedTypeOf(const AttentionFields &f) {
  return factorsOf(f.compute, f.name) == Factors::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

constexpr int64_t aligned(int64_t bytes) {
  return ceilDivide(bytes, kWorkspaceAlignment) * kWorkspaceAlignment;
}

/// What is computed at once.
AttentionFields partOf(AttentionFields f, AttentionPlan::Use use) {
  if (use != AttentionPlan::Use::gradients)
    return f;
  if (f.batchTogether > 0)
    f.batch = f.batchTogether;
  if (f.keyHeadsTogether > 0) {
    f.heads = f.heads / f.keyHeads * f.keyHeadsTogether;
    f.keyHeads = f.keyHeadsTogether;
  }
  return f;
}

/// The sums of dy * y, which the library wants in memory.
int64_t ownBytesOf(const AttentionFields &f, AttentionPlan::Use use) {
  return use == AttentionPlan::Use::gradients
             ? aligned(f.batch * f.heads * f.queries * 4) + kWorkspaceAlignment
             : 0;
}

/// Of a score that a query does not see. Before 9.10 the library computes with the smallest number.
float hiddenScore() {
  return cudnnGetVersion() < 91000 ? std::numeric_limits<float>::lowest()
                                   : -std::numeric_limits<float>::infinity();
}

/// 9.10.0 and 9.10.1 are known for wrong results of attention.
bool isTrusted(size_t version) { return version != 91000 && version != 91001; }

/// What is left for the library.
KernelRules beside(KernelRules rules, int64_t ownBytes) {
  rules.workspace -= std::min(rules.workspace, size_t(ownBytes));
  return rules;
}

} // namespace

AttentionPlan::AttentionPlan(const PlanTarget &target, const KernelRules &rules,
                             const AttentionFields &fields, Use use)
    : whole(fields), fields(partOf(fields, use)), type(storedTypeOf(fields)),
      ownBytes(ownBytesOf(this->fields, use)), graph(fields.name),
      plan(describe(target, use), target, beside(rules, ownBytes), fields.name) {}

/// Queries (0), keys, values or what is made (3) as [batch, heads, rows, width]; `isTurned`: the
/// last two the other way round.
AttentionPlan::Tensor AttentionPlan::operand(int number, bool isTurned) {
  const AttentionRows rows(whole, number);
  const Sizes sizes = {fields.batch, AttentionRows(fields, number).heads, rows.rows, rows.width};
  const Sizes strides = {rows.first(1, 0), rows.first(0, 1), rows.stride(), 1};
  return isTurned ? graph.inMemory(type, turned(sizes), turned(strides))
                  : graph.inMemory(type, sizes, strides);
}

/// A call points to it, at the next place.
AttentionPlan::Tensor AttentionPlan::given(Tensor tensor) {
  ids.push_back(graph.idOf(tensor));
  return tensor;
}

AttentionPlan::Tensor AttentionPlan::number(float value) {
  return numbers.emplace_back(graph.number(value));
}

Descriptor AttentionPlan::describe(const PlanTarget &target, Use use) {
  if (use == Use::gradients)
    describeGradients();
  else
    describeResults(use);
  for (Tensor number : numbers) {
    ids.push_back(graph.idOf(number));
    numberPointers.push_back(graph.valueOf(number));
  }
  return graph.finish(target);
}

/// Scaled products of queries and keys, and what the mask adds.
AttentionPlan::Tensor AttentionPlan::scores(Tensor q, Tensor turnedKeys,
                                            std::optional<Tensor> mask) {
  Tensor products = graph.between({fields.batch, fields.heads, fields.queries, fields.keys});
  graph.multiply(q, turnedKeys, products);
  Tensor scaled = graph.made(CUDNN_POINTWISE_MUL, {products, number(float(fields.scale))});
  return mask ? graph.made(CUDNN_POINTWISE_ADD, {scaled, *mask}) : scaled;
}

/// Minus infinity where a query comes before a key.
AttentionPlan::Tensor AttentionPlan::seen(Tensor scores) {
  if (!fields.causal)
    return scores;
  const Sizes &sizes = graph.sizesOf(scores);
  Tensor row = graph.between(sizes, CUDNN_DATA_INT32),
         column = graph.between(sizes, CUDNN_DATA_INT32);
  graph.index(2, scores, row);
  graph.index(3, scores, column);
  Tensor sees = graph.made(CUDNN_POINTWISE_CMP_GE, {row, column}, CUDNN_DATA_BOOLEAN);
  return graph.made(CUDNN_POINTWISE_BINARY_SELECT, {scores, number(hiddenScore()), sees});
}

std::optional<AttentionPlan::Tensor> AttentionPlan::mask() {
  if (fields.maskStrides.empty())
    return std::nullopt;
  auto sizesOf = [](const AttentionFields &f) {
    Sizes sizes = {f.batch, f.heads, f.queries, f.keys};
    for (size_t d = 0; d < 4; ++d)
      sizes[d] = f.maskStrides[d] ? sizes[d] : 1;
    return sizes;
  };
  return graph.inMemory(CUDNN_DATA_FLOAT, sizesOf(fields), packedStrides(sizesOf(whole)));
}

/// A number for each row.
AttentionPlan::Sizes AttentionPlan::ofRows() const {
  return {fields.batch, fields.heads, fields.queries, 1};
}

/// The logarithms that forward and backward share.
AttentionPlan::Tensor AttentionPlan::sumsOfRows() {
  return given(graph.inMemory(CUDNN_DATA_FLOAT, ofRows(),
                              packedStrides({whole.batch, whole.heads, whole.queries, 1})));
}

void AttentionPlan::describeResults(Use use) {
  const Sizes perRow = ofRows();
  const Tensor q = given(operand(0)), k = given(operand(1, true)), v = given(operand(2));
  const std::optional<Tensor> added = mask();
  if (added)
    given(*added);
  const Tensor y = given(operand(3));
  const Tensor masked = seen(scores(q, k, added));
  // 1. The largest score of each row, and exponentials relative to it.
  const Tensor most = graph.between(perRow), sum = graph.between(perRow);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, masked, most);
  const Tensor powers =
      graph.made(CUDNN_POINTWISE_EXP, {graph.made(CUDNN_POINTWISE_SUB, {masked, most})});
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  // 2. The logarithm of their sum, without which the library does not see attention in it.
  const Tensor logSums = use == Use::resultsAndSums ? sumsOfRows() : graph.between(perRow);
  graph.apply(CUDNN_POINTWISE_ADD, {most, graph.made(CUDNN_POINTWISE_LOG, {sum})}, logSums);
  // 3. Shares, rounded as the library's tensor cores take them, times the values.
  graph.multiply(graph.made(CUDNN_POINTWISE_DIV, {powers, sum}, type), v, y);
}

/// result = the transpose of shares x right, summed over the heads that share keys.
void AttentionPlan::multiplyTurned(Tensor shares, Tensor right, Tensor result) {
  const Tensor across =
      graph.between(turned(graph.sizesOf(shares)), turned(graph.stridesOf(shares)), type);
  graph.reshape(shares, across);
  if (fields.keyHeads == fields.heads)
    return graph.multiply(across, right, result);
  Sizes sizes = graph.sizesOf(result);
  sizes[1] = fields.heads;
  const Tensor ofEveryHead = graph.between(sizes, packedStrides(sizes), type);
  graph.multiply(across, right, ofEveryHead);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, ofEveryHead, result);
}

/// With shares p and g = dy v^T: ds = scale p (g - sum(dy y)), from which dq = ds k, dk = ds^T q,
/// dv = p^T dy. No sums in the order in which blocks end: dq is one product.
void AttentionPlan::describeGradients() {
  const Sizes perRow = ofRows();
  const Sizes perPair = {fields.batch, fields.heads, fields.queries, fields.keys};
  const Tensor dy = given(operand(3)), q = given(operand(0)), k = given(operand(1, true));
  const Tensor v = given(operand(2, true)), y = given(operand(3));
  const Tensor logSums = sumsOfRows();
  const std::optional<Tensor> added = mask();
  if (added)
    given(*added);
  const Tensor dq = given(operand(0)), dk = given(operand(1)), dv = given(operand(2));
  const Tensor sums = given(graph.inMemory(CUDNN_DATA_FLOAT, perRow, packedStrides(perRow)));
  // 1. sum(dy y), times 1, which is where dropout would stand.
  const Tensor whole = graph.between(perRow);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.made(CUDNN_POINTWISE_MUL, {dy, y}), whole);
  graph.apply(CUDNN_POINTWISE_MUL, {whole, number(1)}, sums);
  // 2. Shares again.
  const Tensor relative = graph.made(CUDNN_POINTWISE_SUB, {scores(q, k, added), logSums});
  const Tensor shares = graph.made(CUDNN_POINTWISE_EXP, {seen(relative)});
  multiplyTurned(shares, dy, dv);
  // 3. Gradients of scores.
  const Tensor gradients = graph.between(perPair);
  graph.multiply(dy, v, gradients);
  const Tensor centred = graph.made(CUDNN_POINTWISE_SUB, {gradients, sums});
  const Tensor products = graph.made(CUDNN_POINTWISE_MUL, {centred, shares});
  const Tensor ds = graph.made(CUDNN_POINTWISE_MUL, {products, number(float(fields.scale))});
  multiplyTurned(ds, q, dk);
  const Tensor keys = graph.between(turned(graph.sizesOf(k)), turned(graph.stridesOf(k)), type);
  graph.reshape(k, keys);
  graph.multiply(ds, keys, dq);
}

void AttentionPlan::call(const Run &run, std::vector<const void *> pointers) {
  pointers.insert(pointers.end(), numberPointers.begin(), numberPointers.end());
  plan(run, ids, pointers);
}

void AttentionPlan::results(const Run &run, const void *q, const void *k, const void *v,
                            const void *mask, void *y, float *logSums) {
  std::vector<const void *> pointers = {q, k, v};
  for (const void *next : {mask, static_cast<const void *>(y), static_cast<const void *>(logSums)})
    if (next)
      pointers.push_back(next);
  call(run, std::move(pointers));
}

void AttentionPlan::gradients(const Run &run, std::initializer_list<const void *> operands,
                              const float *logSums, const void *mask,
                              std::initializer_list<void *> made) {
  std::vector<const void *> pointers(operands);
  pointers.push_back(logSums);
  if (mask)
    pointers.push_back(mask);
  pointers.insert(pointers.end(), made.begin(), made.end());
  pointers.push_back(static_cast<std::byte *>(alignedWorkspace(run)) +
                     aligned(plan.workspaceBytes()));
  for (int64_t b = 0; b < whole.batch; b += fields.batch)
    for (int64_t keyHead = 0; keyHead < whole.keyHeads; keyHead += fields.keyHeads)
      call(run, partFrom(pointers, b, keyHead));
}

/// The pointers of `gradients` to the part that begins at a sample and a head of keys.
std::vector<const void *> AttentionPlan::partFrom(std::vector<const void *> pointers, int64_t b,
                                                  int64_t keyHead) const {
  const int64_t head = keyHead * (whole.heads / whole.keyHeads);
  auto next = pointers.begin();
  auto advance = [&](int64_t elements, int64_t bytes) {
    *next = static_cast<const std::byte *>(*next) + elements * bytes;
    ++next;
  };
  auto advanceOperands = [&](std::initializer_list<int> numbers) {
    for (int number : numbers)
      advance(AttentionRows(whole, number).first(b, number == 1 || number == 2 ? keyHead : head),
              2);
  };
  advanceOperands({3, 0, 1, 2, 3});
  advance((b * whole.heads + head) * whole.queries, 4);
  if (!whole.maskStrides.empty())
    advance(b * whole.maskStrides[0] + head * whole.maskStrides[1], 4);
  advanceOperands({0, 1, 2});
  return pointers;
}

namespace {

/// What a plan depends on.
std::vector<double> keyOf(const AttentionFields &f, AttentionPlan::Use use) {
  std::vector<double> key = {f.scale, double(f.compute == std::string_view("bf16"))};
  for (int64_t number : {int64_t(use), f.batch, f.batchTogether, f.causal, f.heads, f.keyHeads,
                         f.keyHeadsTogether, f.keys, f.queries, f.width, f.valueWidth})
    key.push_back(double(number));
  for (const Dimensions &list : {f.maskStrides, f.rowsFirst})
    key.insert(key.end(), list.begin(), list.end());
  return key;
}

} // namespace

std::shared_ptr<AttentionPlan> sharedPlan(const Device &device, const AttentionFields &fields,
                                          AttentionPlan::Use use) {
  if (!areNarrow(factorsOf(fields.compute, fields.name)))
    return nullptr;
  const PlanTarget target{networkHandle(), nullptr}; // outlives the plans
  thread_local std::map<std::vector<double>, std::shared_ptr<AttentionPlan>> plans;
  const auto [found, isNew] = plans.try_emplace(keyOf(fields, use));
  if (!isNew)
    return found->second;
  auto made = std::make_shared<AttentionPlan>(
      target, KernelRules{true, true, workspaceRoom(device)}, fields, use);
  if (*made && isTrusted(cudnnGetVersion()))
    return found->second = std::move(made);
  std::fprintf(
      stderr,
      "warning: unit '%s': cuDNN %zu has no fused attention that is right, in a fixed order "
      "and within %zu bytes of workspace on this GPU (of %zu kernels); a slower one without "
      "tensor cores takes its place\n",
      fields.name, cudnnGetVersion(), workspaceRoom(device), made->candidates());
  return nullptr;
}

} // namespace pdc::runtime::cuda

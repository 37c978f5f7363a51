#include "runtime/cuda/AttentionPlan.h"

#include "runtime/ShapeText.h"
#include "runtime/cuda/AttentionVersions.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

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

/// With numbers that are added in the place of other masks, of a past, and of turns.
AttentionFields asTold(AttentionFields f) {
  if (!AddedMask::isNeeded(f))
    return f;
  f.maskStrides = AddedMask(f).strides();
  f.causal = f.causal && !AddedMask::hidesKeys(f);
  f.boolean = f.past = f.masks = 0;
  return f;
}

/// What is computed at once.
AttentionFields partOf(AttentionFields f) {
  if (f.batchTogether > 0)
    f.batch = f.batchTogether;
  if (f.keyHeadsTogether > 0) {
    f.heads = f.heads / f.keyHeads * f.keyHeadsTogether;
    f.keyHeads = f.keyHeadsTogether;
  }
  return f;
}

/// Whether sums are made that no result asks for: they tell which rows see nothing.
bool keepsSums(const AttentionFields &f) { return f.guarded && f.results.size() == 1; }

/// Those sums, or a part's of dy * y, which the library wants in memory.
int64_t sumBytesOf(const AttentionFields &whole, const AttentionFields &part,
                   AttentionPlan::Use use) {
  if (use != AttentionPlan::Use::gradients)
    return keepsSums(whole) ? aligned(whole.batch * whole.heads * whole.queries * 4) : 0;
  return aligned(part.batch * part.heads * part.queries * 4);
}
int64_t keptBytesOf(const AttentionFields &f) {
  return f.ratio > 0 ? aligned(f.batch * f.heads * f.queries * f.keys * 2) : 0;
}
int64_t maskBytesOf(const AttentionFields &f) {
  return AddedMask::isNeeded(f) ? aligned(AddedMask(f).elements() * 4) : 0;
}

/// What a plan depends on.
std::string problemOf(const AttentionFields &f, AttentionPlan::Use use) {
  constexpr const char *uses[] = {"attention", "attention with its sums", "gradients of attention"};
  std::ostringstream text;
  text.precision(17);
  text << uses[size_t(use)] << " in " << f.compute << ": " << f.batch << " x " << f.heads
       << " heads, " << f.keyHeads << " of keys, " << f.queries << " queries and " << f.keys
       << " keys of " << f.width << ", values of " << f.valueWidth << ", scale " << f.scale
       << ", dropped " << f.ratio << ", causal " << f.causal << " behind " << f.past << ", mask "
       << shapeText(f.maskStrides) << (f.boolean ? " of booleans" : "") << ", rows first "
       << shapeText(f.rowsFirst) << ", together " << f.batchTogether << " and "
       << f.keyHeadsTogether;
  if (f.masks != 0)
    text << ", in turn " << f.masks;
  if (f.joined != 0)
    text << ", in one tensor " << f.joined;
  if (f.makesMaskGradient())
    text << ", and of the mask";
  if (keepsSums(f))
    text << ", with sums that are not asked for";
  return text.str();
}

/// What is left for the library.
KernelRules beside(KernelRules rules, int64_t ownBytes) {
  rules.workspace -= std::min(rules.workspace, size_t(ownBytes));
  return rules;
}

} // namespace

float AttentionPlan::hiddenScore() { return hiddenScoreOf(cudnnGetVersion()); }

AttentionPlan::AttentionPlan(const PlanTarget &target, const KernelRules &rules,
                             const AttentionFields &given, Use use, Tuning *tuning)
    : whole(asTold(given)), fields(partOf(whole)), type(storedTypeOf(given)),
      sumBytes(sumBytesOf(whole, fields, use)), keptBytes(keptBytesOf(fields)),
      maskBytes(maskBytesOf(given)),
      maskGradientBytes(given.makesMaskGradient() ? aligned(2 * fields.maskGradientElements()) : 0),
      graph(given.name), plan(describe(target, use), target, beside(rules, ownBytes()), given.name,
                              tuning, problemOf(given, use)) {}

/// As [batch, heads, rows, width]; `isTurned`: the last two the other way round.
AttentionPlan::Tensor AttentionPlan::operand(Kind number, bool isTurned) {
  const AttentionRows rows(whole, number);
  const Sizes sizes = {fields.batch, AttentionRows(fields, number).heads, rows.rows, rows.width};
  const Sizes strides = {rows.sampleStride(), rows.headStride(), rows.stride(), 1};
  return isTurned ? graph.inMemory(type, turned(sizes), turned(strides))
                  : graph.inMemory(type, sizes, strides);
}

/// A call points to it, at the next place.
AttentionPlan::Tensor AttentionPlan::given(Tensor tensor, Kind kind) {
  ids.push_back(graph.idOf(tensor));
  kinds.push_back(kind);
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

/// Of what is computed with a mask of `f`.
AttentionPlan::Sizes AttentionPlan::ofMask(const AttentionFields &f) {
  Sizes sizes = {f.batch, f.heads, f.queries, f.keys};
  for (size_t d = 0; d < 4; ++d)
    sizes[d] = f.maskStrides[d] ? sizes[d] : 1;
  return sizes;
}

std::optional<AttentionPlan::Tensor> AttentionPlan::mask() {
  if (fields.maskStrides.empty())
    return std::nullopt;
  return given(graph.inMemory(CUDNN_DATA_FLOAT, ofMask(fields), packedStrides(ofMask(whole))),
               kMask);
}

std::optional<AttentionPlan::Tensor> AttentionPlan::kept() {
  if (keptBytes == 0)
    return std::nullopt;
  const Sizes sizes = {fields.batch, fields.heads, fields.queries, fields.keys};
  return given(graph.inMemory(type, sizes, packedStrides(sizes)), kPlace);
}

/// By which what dropout keeps grows.
float AttentionPlan::growth() const { return float(1 / (1 - fields.ratio)); }

/// Shares behind dropout.
AttentionPlan::Tensor AttentionPlan::dropped(Tensor shares, std::optional<Tensor> kept,
                                             cudnnDataType_t made) {
  const Tensor left = graph.made(CUDNN_POINTWISE_MUL, {shares, *kept});
  return graph.made(CUDNN_POINTWISE_MUL, {left, number(growth())}, made);
}

/// A number for each row.
AttentionPlan::Sizes AttentionPlan::ofRows() const {
  return {fields.batch, fields.heads, fields.queries, 1};
}

/// The logarithms that forward and backward share.
AttentionPlan::Tensor AttentionPlan::sumsOfRows() {
  return given(graph.inMemory(CUDNN_DATA_FLOAT, ofRows(),
                              packedStrides({whole.batch, whole.heads, whole.queries, 1})),
               kRows);
}

void AttentionPlan::describeResults(Use use) {
  const Sizes perRow = ofRows();
  const Tensor q = given(operand(kQueries), kQueries), k = given(operand(kKeys, true), kKeys);
  const Tensor v = given(operand(kValues), kValues);
  const std::optional<Tensor> added = mask(), kept = this->kept();
  const Tensor y = given(operand(kResults), kResults);
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
  const Tensor shares =
      graph.made(CUDNN_POINTWISE_DIV, {powers, sum}, kept ? CUDNN_DATA_FLOAT : type);
  graph.multiply(kept ? dropped(shares, kept, type) : shares, v, y);
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
/// dv = p^T dy; behind dropout g and the p of dv are what it keeps of them. The factor by which g
/// grows then comes last and divides the sums meanwhile, as in the graphs of the library's own
/// frontend. No sums in the order in which blocks end: dq is one product.
void AttentionPlan::describeGradients() {
  const Sizes perRow = ofRows();
  const Sizes perPair = {fields.batch, fields.heads, fields.queries, fields.keys};
  const Tensor dy = given(operand(kResults), kResults), q = given(operand(kQueries), kQueries);
  const Tensor k = given(operand(kKeys, true), kKeys), v = given(operand(kValues, true), kValues);
  const Tensor y = given(operand(kResults), kResults), logSums = sumsOfRows();
  const std::optional<Tensor> added = mask(), kept = this->kept();
  const Tensor dq = given(operand(kQueries), kQueries), dk = given(operand(kKeys), kKeys);
  const Tensor dv = given(operand(kValues), kValues);
  const Tensor sums =
      given(graph.inMemory(CUDNN_DATA_FLOAT, perRow, packedStrides(perRow)), kPlace);
  // 1. sum(dy y), times a number, which the library looks for.
  const Tensor whole = graph.between(perRow);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.made(CUDNN_POINTWISE_MUL, {dy, y}), whole);
  graph.apply(CUDNN_POINTWISE_MUL, {whole, number(float(1 - fields.ratio))}, sums);
  // 2. Shares again.
  const Tensor relative = graph.made(CUDNN_POINTWISE_SUB, {scores(q, k, added), logSums});
  const Tensor shares = graph.made(CUDNN_POINTWISE_EXP, {seen(relative)});
  multiplyTurned(kept ? dropped(shares, kept, CUDNN_DATA_FLOAT) : shares, dy, dv);
  // 3. Gradients of scores.
  const Tensor gradients = graph.between(perPair);
  graph.multiply(dy, v, gradients);
  const Tensor arriving = kept ? graph.made(CUDNN_POINTWISE_MUL, {gradients, *kept}) : gradients;
  const Tensor centred = graph.made(CUDNN_POINTWISE_SUB, {arriving, sums});
  Tensor products = graph.made(CUDNN_POINTWISE_MUL, {centred, shares});
  if (kept)
    products = graph.made(CUDNN_POINTWISE_MUL, {products, number(growth())});
  if (maskGradientBytes) {
    const Sizes sizes = ofMask(fields);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products,
                 given(graph.inMemory(type, sizes, packedStrides(sizes)), kPlace));
  }
  const Tensor ds = graph.made(CUDNN_POINTWISE_MUL, {products, number(float(fields.scale))});
  multiplyTurned(ds, q, dk);
  const Tensor keys = graph.between(turned(graph.sizesOf(k)), turned(graph.stridesOf(k)), type);
  graph.reshape(k, keys);
  graph.multiply(ds, keys, dq);
}

std::byte *AttentionPlan::own(const Run &run, int64_t offset) const {
  return static_cast<std::byte *>(alignedWorkspace(run)) + offset;
}

float *AttentionPlan::sumsPlace(const Run &run) const {
  return keepsSums(whole) ? reinterpret_cast<float *>(own(run, 0)) : nullptr;
}

float *AttentionPlan::maskPlace(const Run &run) const {
  return maskBytes ? reinterpret_cast<float *>(own(run, sumBytes + keptBytes)) : nullptr;
}

void *AttentionPlan::keptPlace(const Run &run) const {
  return keptBytes ? own(run, sumBytes) : nullptr;
}

const void *AttentionPlan::maskGradientPlace(const Run &run) const {
  return maskGradientBytes ? own(run, sumBytes + keptBytes + maskBytes) : nullptr;
}

/// By how many bytes a pointer is further in the part that begins at a sample and a head of keys.
int64_t AttentionPlan::advance(Kind kind, int64_t b, int64_t keyHead) const {
  const int64_t head = keyHead * (whole.heads / whole.keyHeads);
  switch (kind) {
  case kRows:
    return 4 * (b * whole.heads + head) * whole.queries;
  case kMask:
    return 4 * (b * whole.maskStrides[0] + head * whole.maskStrides[1]);
  case kPlace:
    return 0;
  default:
    return 2 *
           AttentionRows(whole, kind).first(b, kind == kKeys || kind == kValues ? keyHead : head);
  }
}

void AttentionPlan::call(const Run &run, const std::vector<const void *> &pointers, FirstRun first,
                         const PartAction &before, const PartAction &after) {
  for (int64_t b = 0; b < whole.batch; b += fields.batch)
    for (int64_t keyHead = 0; keyHead < whole.keyHeads; keyHead += fields.keyHeads) {
      const int64_t head = keyHead * (whole.heads / whole.keyHeads);
      if (before)
        before(fields, b, head);
      std::vector<const void *> part;
      for (size_t i = 0; i < kinds.size(); ++i)
        part.push_back(static_cast<const std::byte *>(pointers[i]) + advance(kinds[i], b, keyHead));
      part.insert(part.end(), numberPointers.begin(), numberPointers.end());
      plan(run, ids, part, own(run, ownBytes()), first);
      if (after)
        after(fields, b, head);
    }
}

void AttentionPlan::results(const Run &run, const void *q, const void *k, const void *v,
                            const void *mask, void *y, float *logSums, const PartAction &before) {
  std::vector<const void *> pointers = {q, k, v};
  const void *const others[] = {mask, keptPlace(run), y, logSums};
  std::ranges::copy_if(others, std::back_inserter(pointers), [](auto *next) { return next; });
  call(run, pointers, firstRunWhere(y != q && y != k && y != v && y != mask), before);
}

void AttentionPlan::gradients(const Run &run, std::initializer_list<const void *> operands,
                              const float *logSums, const void *mask,
                              std::initializer_list<void *> made, const PartAction &before,
                              const PartAction &after) {
  std::vector<const void *> pointers(operands);
  pointers.push_back(logSums);
  const bool isApart = std::ranges::none_of(made, [&](const void *result) {
    return result == mask || std::ranges::find(pointers, result) != pointers.end();
  });
  const void *const others[] = {mask, keptPlace(run)};
  std::ranges::copy_if(others, std::back_inserter(pointers), [](auto *next) { return next; });
  pointers.insert(pointers.end(), made.begin(), made.end());
  pointers.push_back(own(run, 0));
  if (maskGradientBytes)
    pointers.push_back(maskGradientPlace(run));
  call(run, pointers, firstRunWhere(isApart), before, after);
}

std::shared_ptr<AttentionPlan> sharedPlan(const Device &device, const AttentionFields &fields,
                                          AttentionPlan::Use use) {
  if (!areNarrow(factorsOf(fields.compute, fields.name)))
    return nullptr;
  const PlanTarget target{networkHandle(), nullptr}; // outlives the plans
  using Key = std::pair<const Tuning *, std::string>;
  thread_local std::map<Key, std::shared_ptr<AttentionPlan>> plans;
  const auto [found, isNew] = plans.try_emplace(Key(device.tuning, problemOf(fields, use)));
  if (!isNew)
    return found->second;
  auto made = std::make_shared<AttentionPlan>(
      target, KernelRules{true, true, workspaceRoom(device), !device.exact}, fields, use,
      device.tuning);
  if (*made && isTrusted(cudnnGetVersion(), fields, use == AttentionPlan::Use::gradients))
    return found->second = std::move(made);
  std::fprintf(
      stderr,
      "warning: unit '%s': cuDNN %zu has no fused attention that is right, in a fixed order "
      "and within %zu bytes of workspace on this GPU (of %s); a slower one without "
      "tensor cores takes its place\n",
      fields.name, cudnnGetVersion(), workspaceRoom(device), made->describeCandidates().c_str());
  return nullptr;
}

} // namespace pdc::runtime::cuda

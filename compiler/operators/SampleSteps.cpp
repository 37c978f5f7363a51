#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <numeric>

/// What depends on how many steps each sample has, or had: ReverseSequence, TensorScatter.
namespace pdc {

/// Of each sample the first steps, so many as it has, in the other order.
static std::vector<NodeValue> composeReverseSequence(CompositionBuilder &b) {
  const TensorType x = b.type(b.input(0));
  const int64_t time = b.attributes().integer("time_axis", 0),
                batch = b.attributes().integer("batch_axis", 1);
  if (x.rank() < 2 || time < 0 || time > 1 || batch != 1 - time ||
      b.type(b.input(1)).shape != std::vector<int64_t>{x.shape[batch]})
    b.refuse("input " + x.toString() + " along axis " + std::to_string(time) + ", samples along " +
             std::to_string(batch) + ", lengths " + b.type(b.input(1)).toString() +
             ", expected axes 0 and 1 and one length per sample");
  const int64_t steps = x.shape[time], samples = x.shape[batch];
  std::vector<int64_t> across = {1, 1};
  across[batch] = samples;
  NodeValue lengths = reshaped(b, add(b, "Cast", {b.input(1)}, {{"to", int64_t(7)}}), across);
  std::vector<int64_t> step, sample;
  for (int64_t i = 0; i < steps * samples; ++i) {
    step.push_back(time == 0 ? i / samples : i % steps);
    sample.push_back(time == 0 ? i % samples : i / steps * steps);
  }
  const std::vector<int64_t> both = {x.shape[0], x.shape[1]};
  NodeValue here = b.constant(integersOf(both, step));
  NodeValue last = add(b, "Sub", {lengths, number(b, ElementType::i64, 1)});
  NodeValue turned =
      add(b, "Where", {add(b, "Less", {here, lengths}), add(b, "Sub", {last, here}), here});
  if (time == 0)
    turned = add(b, "Mul", {turned, number(b, ElementType::i64, static_cast<double>(samples))});
  NodeValue places = add(b, "Add", {turned, b.constant(integersOf(both, sample))});
  // A length that the steps have not would take rows of another sample.
  NodeValue fits = add(
      b, "And",
      {add(b, "GreaterOrEqual", {lengths, number(b, ElementType::i64, 0)}),
       add(b, "LessOrEqual", {lengths, number(b, ElementType::i64, static_cast<double>(steps))})});
  places = add(b, "Where", {fits, places, add(b, "OutsideRow", {lengths})});
  NodeValue rows = reshaped(b, b.input(0), {steps * samples, product(x.shape, 2)});
  NodeValue found = add(b, "Gather", {rows, places}, {{"axis", int64_t(0)}});
  return {reshaped(b, found, x.shape)};
}

/// Writes the update behind the place that each sample names, as caches of keys and values grow.
static std::vector<NodeValue> composeTensorScatter(CompositionBuilder &b) {
  const TensorType cache = b.type(b.input(0)), update = b.type(b.input(1));
  const int64_t axis = axisFromStart(b, b.attributes().integer("axis", -2));
  const std::string mode = b.attributes().string("mode", "linear");
  std::vector<int64_t> fits = update.shape;
  if (update.rank() == cache.rank())
    fits[axis] = cache.shape[axis];
  if (fits != cache.shape || axis < 1 || update.shape[axis] > cache.shape[axis] ||
      (mode != "linear" && mode != "circular"))
    b.refuse("mode '" + mode + "' writes " + update.toString() + " into " + cache.toString() +
             " along axis " + std::to_string(axis) +
             ", expected linear or circular, no axis of samples, and no more than there are");
  std::vector<int64_t> along(cache.shape.size(), 1), starts = along;
  starts[0] = cache.shape[0];
  along[axis] = update.shape[axis];
  std::vector<int64_t> steps(static_cast<size_t>(update.shape[axis]));
  std::iota(steps.begin(), steps.end(), 0);
  NodeValue places = b.constant(integersOf(along, steps));
  if (b.input(2))
    places = add(b, "Add", {places, reshaped(b, b.input(2), starts)});
  if (mode == "circular")
    places =
        add(b, "Mod", {places, number(b, ElementType::i64, static_cast<double>(cache.shape[axis]))},
            {{"fmod", int64_t(0)}});
  NodeValue indices = add(b, "Expand", {places, b.constant(Tensor::vector(update.shape))});
  return {add(b, "ScatterElements", {b.input(0), indices, b.input(1)}, {{"axis", axis}})};
}

std::span<const ComposedOperator> sampleStepForms() {
  static const ComposedOperator operators[] = {
      {{.name = "ReverseSequence",
        .firstOpset = 10,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}, {"sequence_lens"}},
        .outputs = {{"Y"}}},
       composeReverseSequence},
      {{.name = "TensorScatter",
        .firstOpset = 24,
        .lastOpset = kLastOpset,
        .inputs = {{"past_cache"}, {"update"}, {"write_indices", true}},
        .outputs = {{"present_cache"}}},
       composeTensorScatter},
  };
  return operators;
}

} // namespace pdc

#pragma once

#include "compiler/onnx/Loss.h"

namespace pdc {

/// Samples per microbatch when the file or `bound` fixes it: the first dimension of the first input
/// that has one, unless that is 1 and another's has a name that the user gave. Empty when that
/// dimension is a name without a number, which the plan then binds.
std::optional<int64_t> fixedMicrobatchSize(const Model &model,
                                           const std::map<std::string, int64_t> &bound = {});

/// Gives numbers to the named dimensions of inputs and outputs: those of options, those that
/// weights beside inputs leave no other size, and the microbatch's where an exporter has made up
/// the name of an input's first dimension.
class Binding {
public:
  /// `microbatchSize` is for the name that is the inputs' first dimension, 0 when the file fixes
  /// it. Throws for a size that contradicts the file and for names that no input or output has.
  Binding(const Model &model, int64_t microbatchSize,
          const std::map<std::string, int64_t> &dimensions);

  int64_t microbatchSize() const { return batch; }
  /// The same with one sample more per microbatch; nothing where the file fixes their number.
  std::optional<Binding> withAnotherSample() const;
  /// Whether the file, an option or a weight says its size.
  bool knows(const Dimension &dimension) const;
  /// Throws for a name without a number, with an example of how to give one.
  TensorType typeOf(const ModelValue &value) const;

  /// Whether an input of that type has a row for each sample of a microbatch: where the file leaves
  /// their number open, by the name of its first dimension, whatever the size of a microbatch.
  bool isOfSamples(const ModelValue &input, const TensorType &type) const;

private:
  void bindSamples(const Model &model);

  int64_t batch = 0;
  std::set<std::string> batchNames; ///< empty where the file fixes the number of samples
  std::map<std::string, int64_t> numbers;
};

} // namespace pdc

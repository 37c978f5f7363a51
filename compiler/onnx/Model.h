#pragma once

#include "compiler/operators/Operator.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace pdc {

/// A dimension of a graph input or output: a number, or a name that `--bind` or the plan gives one.
struct Dimension {
  std::optional<int64_t> value;
  std::string symbol;
};

struct ModelValue {
  std::string name;
  ElementType element = ElementType::f32;
  std::vector<Dimension> shape;
  bool isNumber = false; ///< it is said that there are no dimensions
};

/// What a dimension is called that the file has no name for: x_dim0.
inline std::string unnamedDimension(const std::string &value, int index) {
  return value + "_dim" + std::to_string(index);
}

/// As in "f32[batch,10]".
std::string typeText(const ModelValue &value);

/// Random numbers that stand for a tensor, made when they are asked for.
struct Draw {
  bool normal = false;
  double first = 0, second = 1; ///< mean and deviation, or low and high
  uint64_t seed = 0;
};

/// A tensor of the model that is stored, not computed: in the file, beside it, as one repeated
/// value (ConstantOfShape) or to be drawn. The bytes are read only when asked for.
struct Initializer {
  std::string name;
  TensorType type;
  std::optional<double> fill;
  /// Little-endian bytes in the file `file` (model or external data) or held here, of `stored`
  /// elements where these are not the type's.
  std::string bytes;
  std::filesystem::path file;
  uint64_t offset = 0;
  uint64_t length = 0;
  /// Written as a Constant node or made from an attribute: never trained unless asked for.
  bool literal = false;
  std::optional<Draw> draw = {};
  std::optional<ElementType> stored = {};
  /// ONNX's name of the integer type in the file where the elements are widened to i64.
  std::string widened = {};
};

struct ModelNode {
  std::string name; ///< unique, never empty
  std::string op;
  Attributes attributes;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

/// What the file itself says of its training.
struct ModelTraining {
  std::string loss;                 ///< the value that is minimised
  std::set<std::string> parameters; ///< the initializers that an optimizer updates
  std::string optimizer;            ///< as `--optimizer` takes it
  std::string origin;               ///< what says the optimizer: training_info, or a file
  /// Optimizer states that do not begin at one number, by their names in a checkpoint
  /// (NAME/exp_avg).
  std::map<std::string, Initializer> states;
  std::set<std::string> undecayed;  ///< parameters without weight decay, where others have it
  std::map<std::string, double> rateFactors; ///< of parameters whose rate is not the optimizer's
};

/// Stages that the file's own annotations give its nodes (pipeline_stage of IR 11).
struct ModelPartition {
  std::string configuration;
  int64_t devices = 0; ///< 0 where it says none
  std::map<std::string, int> stages; ///< node -> stage
};

/// What a tensor was to the network that PyTorch's exporter was given. A constant is in no
/// state_dict.
enum class ExportedKind { parameter, buffer, constant };

/// What PyTorch's exporter (the one of torch.export) says of a network's tensors.
struct ExporterMetadata {
  /// Of initializers; empty where the file does not tell. What the exporter made itself is not in
  /// it.
  std::map<std::string, ExportedKind> kinds;
  std::optional<ExportedKind> kindOf(const std::string &name) const {
    auto known = kinds.find(name);
    return known == kinds.end() ? std::nullopt : std::optional(known->second);
  }
  /// Initializers that the exporter made itself, by folding constants.
  std::set<std::string> folded;
  /// Of those, and of single numbers, a parameter that they were computed from.
  std::map<std::string, std::string> foldedFrom;
  /// What the exporter says to have computed of buffers, constants and shapes alone.
  std::set<std::string> ofNoParameter;
  /// Parameters of the network that are no initializers any more, of a graph that was optimized.
  std::vector<std::string> lostParameters;
  /// Buffers that a step of the network changes, and the values that become their next ones.
  std::set<std::string> changedBuffers, nextBuffers;
};

struct ConditionGraph;

/// A checked ONNX model: opset differences gone (each node in the newest supported opset's form), functions inlined,
/// sorted topologically, every name unique.
struct Model {
  std::string name; ///< file name, for messages and headers
  std::vector<ModelValue> inputs;
  std::vector<ModelValue> outputs;
  std::map<std::string, Initializer> initializers;
  std::vector<ModelNode> nodes;
  std::optional<ModelTraining> training = {};
  std::vector<ModelPartition> partitions = {};
  ExporterMetadata metadata = {};
  std::string producer = {};         ///< the tool that wrote the file, by its own word
  std::set<ElementType> widths = {}; ///< of floating-point numbers in the file, all f32 here
  std::string sharded = {}; ///< a node whose sharding_spec is not followed, where there is one
  /// Where numbers of named dimensions may decide otherwise which branches were taken.
  std::shared_ptr<const ConditionGraph> conditions = {};
};

/// Files beside a training graph of ONNX Runtime; empty: `checkpoint` and `optimizer_model.onnx` in the
/// model's folder.
struct ArtifactFiles {
  std::filesystem::path checkpoint;
  std::filesystem::path optimizer;
  bool needsOptimizer = true; ///< no other optimizer is given
};

/// Where external data may lie.
struct ModelFolder {
  std::filesystem::path path = {}; ///< empty: of a model that is in no file, whose data is refused
  /// Of a model that is a link, the folder that the file lies in: links beside it may lead there,
  /// too. So does Hugging Face's cache keep models.
  std::filesystem::path linked = {};
};

/// Reads and checks a model. `dimensions` are numbers of named dimensions, which may decide between
/// branches. Throws Error for anything unreadable, malformed or not supported, naming the node, the
/// operator, the opset and what is supported.
Model readModel(const std::filesystem::path &path, const ArtifactFiles &files = {},
                const std::map<std::string, int64_t> &dimensions = {});

/// The same for a model held in memory. `name` stands in messages.
Model parseModel(std::string_view bytes, const std::string &name, const ModelFolder &folder = {});

/// What numbers of this type are computed in: floating-point ones in f32.
ElementType computedElement(ElementType element);

/// Makes it a tensor of what its elements are computed in. Of no other width than the type's so far.
void makeComputed(Initializer &initializer);

/// The initializer's elements; throws Error when the file does not hold them.
std::string readBytes(const Initializer &initializer);

/// The initializer as numbers, for values that the compiler looks at; throws Error when it has more
/// elements than such a value ever has.
Tensor readTensor(const Initializer &initializer);

/// The same of the width that it has in the file.
Tensor readAsStored(Initializer initializer);

/// What a table of at least two dimensions holds beside zeros, if nothing else: ones, or numbers
/// that hide what they are added to from a softmax.
enum class MaskKind { none, flags, hides };
MaskKind kindOfMask(const Initializer &initializer);

/// Binds every symbolic dimension of that name.
void bindDimension(Model &model, const std::string &symbol, int64_t value);

/// A readable listing (`pdc --stop-after=import`).
std::string toString(const Model &model);

} // namespace pdc

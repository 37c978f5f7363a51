#pragma once

#include "passes/ConstantRows.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <optional>

/// How the patterns of recognise-composites read what exporters have written.
namespace pdc {

/// The node of that operator which makes a value, or null.
ir::NodeOp maker(mlir::Value value, llvm::StringRef op);

/// Empty where it is not known.
mlir::ArrayRef<int64_t> shapeOf(mlir::Value value);

/// Dimension d of a Transpose's result is dimension [d] of its operand.
std::vector<int64_t> permutationOf(ir::NodeOp transpose);

/// Of a node whose `axis` is 0 where it is left out, counted from 0.
int64_t axisOf(ir::NodeOp node);

/// Whether it is a ReluGrad that the gradient of a BatchNormalization reads, whose kernel masks as
/// it reads.
bool isMaskedByNormalisation(ir::NodeOp node);

/// A constant of one element.
std::optional<double> numberOf(mlir::Value value);

/// Whether it is that constant, as exporters write numbers in f32.
bool isNumber(mlir::Value value, double expected);

/// A product of several factors, whatever the order and the brackets: its constants are one number.
struct Product {
  explicit Product(mlir::Value value) { multiply(value, true); }

  double number = 1;
  llvm::SmallVector<mlir::Value> factors;

private:
  void multiply(mlir::Value value, bool isWhole);
};

/// What views of it are made of: the same elements in the same order.
mlir::Value beforeViews(mlir::Value value);

/// A Reshape before `root`, with the constant that it reads.
mlir::Value reshaped(mlir::OpBuilder &builder, ir::NodeOp root, llvm::StringRef name,
                     mlir::Value value, const std::vector<int64_t> &shape, NodeNames &names);

/// The value under a shape: itself, or a Reshape before `root` with its name and the suffix.
mlir::Value inShape(mlir::OpBuilder &builder, ir::NodeOp root, llvm::StringRef suffix,
                    mlir::Value value, const std::vector<int64_t> &shape, NodeNames &names);

/// Erases the views, transpositions and Splits that nobody reads any more, from the makers of
/// `values` back.
void eraseUnread(mlir::ArrayRef<mlir::Value> values);

/// What is written in a pattern's place. A null operand is one that is left out.
struct Composite {
  llvm::StringRef op;
  llvm::SmallVector<mlir::Value> operands;
  Attributes attributes = {};
  size_t results = 1;
  /// Under which the first operands are read; their own where there is none.
  llvm::SmallVector<std::vector<int64_t>, 3> shapes = {};
};

/// What attention asks of a mask that depends on constants alone.
struct MaskFacts {
  /// By how many rows a query sees beyond its own, where the mask lets each see what is before it,
  /// and nothing else.
  std::optional<int64_t> past;
  bool everyRowSees = false;
  bool allSeen = false; ///< hides and adds nothing
  /// Whether it hides a key by a finite number that it adds.
  bool hidesFinitely = false;
  bool hidesLater = false; ///< whether no query sees a key behind its own place
  /// Whether each query sees the key at its own place, or the last key, by nothing or 0.
  bool seesOwn = false;
};

/// The layers of a network ask the same of the same masks, which are large.
class ConstantMasks {
public:
  /// Null where the value depends on more than constants, or in ways that are not followed.
  /// `isInverted`: of a mask that says what is hidden.
  const MaskFacts *find(mlir::Value mask, bool isInverted);

private:
  ConstantRows rows;
  std::map<std::pair<const void *, bool>, MaskFacts> facts;
};

/// Replaces a sum that is a rotary position embedding, x cos + (-x2, x1) sin of both halves of a
/// width or of neighbours in it, by one RotateHalves; false where it is none.
bool recogniseRotation(ir::NodeOp root, NodeNames &names);

/// From its last node, an Add: LayerNormalization as networks write it themselves.
std::optional<Composite> matchLayerNormalization(ir::NodeOp root);

/// From its last node, a Mul: RMSNormalization.
std::optional<Composite> matchRootMeanSquare(ir::NodeOp root);

/// From its last node, a GroupNormalization as exporters write it: an InstanceNormalization of each
/// sample's groups, which a view brings together, and numbers per channel behind it, or none.
std::optional<Composite> matchGroupNormalization(ir::NodeOp root);

/// From its last node, Max and Min with numbers that PyTorch's newer exporter says to be a clamp:
/// the bounds of one Clip. Of a logarithm, as nn.BCELoss has it, whoever wrote it.
std::optional<Composite> matchClip(ir::NodeOp root);

/// From its last node, a Div: LRN of an odd size, as PyTorch writes nn.LocalResponseNorm, by a mean
/// over squares whose channels are brought where pooling takes pixels.
std::optional<Composite> matchLocalResponse(ir::NodeOp root);

/// Lets a GroupNormalization make what a Swish makes of it, where nobody else reads its result.
void takeSwish(ir::NodeOp swish);

/// Lets a SoftmaxAttention read keys and values, or queries too, as one tensor where they are the
/// parts of a Split that nobody else reads.
void joinOperands(ir::NodeOp attention, NodeNames &names);

/// Lets a SoftmaxAttention whose rows come before samples have samples first where a transposition
/// put rows there, before the layers that its operands are made by, or takes them back behind those
/// that read its result: nn.MultiheadAttention of batch_first transposes what it is given.
void readSamplesFirst(ir::NodeOp attention, NodeNames &names);

/// Heads that are as wide as that, and so many times wider than there are keys, have scores that
/// are small beside them.
inline constexpr int64_t kWideHead = 128, kManyTimes = 3;

/// Softmax attention of several heads, from its last node: the product with the values, or a
/// transposition of its result to [batch, rows, heads, width]. Where an exporter has taken batch
/// and heads together, as PyTorch's nn.MultiheadAttention does, they are the heads of one sample.
/// Adds nodes before `root` only where it finds one.
std::optional<Composite> matchAttention(ir::NodeOp root, ConstantMasks &masks, NodeNames &names);

/// Whether an attention that ends with this product has masks that no one mask stands for.
bool hasOtherMasks(ir::NodeOp last, ConstantMasks &masks);

/// Of attentions that matchAttention has left as products and a softmax: one warning for all that
/// the same stands in the way of.
void warnOfAttentionInParts(mlir::func::FuncOp function, ConstantMasks &masks);

} // namespace pdc

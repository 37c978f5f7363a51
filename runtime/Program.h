#pragma once

#include "runtime/Main.h"

#include <cstdint>
#include <span>

/// The contract between generated sources and the runtime. Generated code fills one constant
/// `Program` and derives `Tasks`; the runtime obeys. Any change here raises kContractVersion.
namespace pdc::runtime {

class Accelerator;
class ReplicaSums;
class Tuning;
struct DeviceSupport;

inline constexpr int kContractVersion = 13;

/// What is stored. What a product is computed in is its kernel's field `compute`.
enum class ElementType : uint8_t { f32, i64, i32, u8, f16, bf16 };
enum class Role : uint8_t {
  weight,
  derived,
  constant,
  input,
  state,
  optimizer,
  gradient,
  activation,
  scratch,
  metric,
  inbox,
  outbox,
  gathered ///< a gradient that another stage sums, of a weight that both hold
};
enum class Phase : uint8_t {
  forward,
  backward,
  backwardInput,
  backwardWeight,
  update,
  prepare,
  evaluate
};

/// A part of the arena that exists in `copies` copies, `stride` bytes apart: fixed memory (1 copy),
/// the ring of weight versions, the microbatch slots of a stage, scratch (1 copy), evaluation.
struct Region {
  const char *name;
  int64_t offset; ///< bytes from the arena's start; a multiple of 64
  int64_t stride; ///< bytes per copy; a multiple of 64
  int copies;
};

/// A home: region and bytes from the start of a copy.
struct Place {
  int region;
  int64_t offset;
};

/// file: the weights file has it. constants: constants.safetensors has it. An input's `fill` is
/// the label of samples that pad the last batch of an evaluation.
enum class Initial : uint8_t { none, fill, file, constants };

/// A named memory: what is loaded, saved, fed with data or reported. Activations have no entry.
struct Memory {
  const char *name; ///< ONNX tensor name: the key in checkpoints
  Role role;
  ElementType element;
  std::span<const int64_t> shape; ///< logical shape
  const char *layout = "";        ///< oneDNN format tag such as "ABcd16b16a"; "" is row-major
  Place place;
  int64_t bytes; ///< in that layout, padding included
  Initial initial = Initial::none;
  double fill = 0;
  bool versioned = false; ///< lives in a ring of versions
};

/// allReduce: losses over all ranks. reduceGradients: gradients over the replicas of a stage.
enum class StepKind : uint8_t { run, send, receive, allReduce, reduceGradients };

/// One row of a rank; see compiler/schedule/Schedule.h. Neighbouring sends and receives are one
/// group.
struct Step {
  StepKind kind;
  Phase phase;
  int stage;
  /// Relative to the iteration in `repeat` and to the drain point in `drain`; of an update and its
  /// sum the last one that it includes, of all replicas.
  int64_t microbatch;
  int transfer; ///< send, receive: index into Program::transfers
};

/// A tensor that crosses ranks once per microbatch, as this rank sees it.
struct Transfer {
  const char *tensor;
  ElementType element;
  /// Ranks of the other stage, its replicas: microbatch k goes to peers[k % size].
  std::span<const int> peers;
  int tag;     ///< the same on both ends, unique per edge
  int stage;   ///< the stage of this rank that produces or consumes it
  Phase phase; ///< the phase of this rank's task that produces or first reads it
  Place place; ///< inside the microbatch's (or evaluation's) slot
  int64_t bytes;
};

/// A tensor that one stage of this rank gives to another: copied once the task that makes it has
/// run.
struct Move {
  const char *tensor;
  int fromStage;
  Phase phase; ///< of the task that makes it
  Place from;  ///< inside the microbatch's (or evaluation's) slot of its stage, as `to` is
  int toStage;
  Place to;
  int64_t bytes;
};

/// The rank at the other end of a microbatch's transfer.
inline int peerOf(const Transfer &transfer, int64_t microbatch) {
  return transfer.peers[size_t(microbatch) % transfer.peers.size()];
}

/// When a rank runs what. A schedule that empties the pipeline at each update has all rows of one
/// step in `step`; an asynchronous one runs warmUp once, repeat any number of times, then drain; an
/// evaluation is `repeat` alone.
struct Rows {
  std::span<const Step> step{};
  std::span<const Step> warmUp{};
  std::span<const Step> repeat{};
  std::span<const Step> drain{};
  int64_t period = 0; ///< microbatches per iteration of `repeat`
};

struct StageInfo {
  int id;
  std::span<const int> ranks;     ///< its replicas: microbatch k runs on ranks[k % size]
  int slotRegion;                 ///< Program::regions index of its microbatch slots
  int evaluationRegion;           ///< the same for `evaluate`
  std::span<const int> slotTable; ///< slot of microbatch k of r replicas: slotTable[k / r % size]
  int versionRegion;              ///< ring of weight versions; -1: one version, in the fixed region
  double forwardSeconds;          ///< predicted, for the trace and the summary
  double backwardSeconds;
  /// What replicas bring together at each update, as indices into Program::memories: gradients are
  /// summed, in the order in which the backward pass makes them, and states (running statistics)
  /// averaged. Empty without replicas.
  std::span<const int> gradients, states;
};

/// What a task sees of one run: base addresses of the copies it may touch. Every accessor is an
/// address computation only.
class Run {
public:
  template <class T = float> T *fixed(int64_t offset) const { return at<T>(fixedBase, offset); }
  template <class T = float> T *scratch(int64_t offset) const { return at<T>(scratchBase, offset); }
  template <class T = float> T *slot(int64_t offset) const { return at<T>(slotBase, offset); }
  /// The newest version of a weight; in an update, the one to be replaced.
  template <class T = float> T *latest(int64_t offset) const { return at<T>(latestBase, offset); }
  /// The version that this microbatch reads, in its forward pass as in its backward pass.
  template <class T = float> T *ofMicrobatch(int64_t offset) const {
    return at<T>(stashedBase, offset);
  }
  /// The version that an update (and the prepare task after it) writes.
  template <class T = float> T *next(int64_t offset) const { return at<T>(nextBase, offset); }
  /// Whether sums over microbatches start anew: gradients and metrics are overwritten, not added
  /// to.
  bool first() const { return startsSums; }
  /// The first `count` of StageInfo::gradients have all their sums: those over replicas may begin.
  void gradientsMade(int count) const;

  std::byte *fixedBase = nullptr, *scratchBase = nullptr, *slotBase = nullptr;
  std::byte *latestBase = nullptr, *stashedBase = nullptr, *nextBase = nullptr;
  bool startsSums = true;
  ReplicaSums *sums =
      nullptr; ///< of the last backward pass before an update, where there are replicas
  /// Of the accelerator: kernels put their work into it and return. Null on the CPU.
  void *queue = nullptr;
  /// Where an update that makes a weight NaN says so, with a 1. Null: nobody asks.
  int *lost = nullptr;

private:
  template <class T> static T *at(std::byte *base, int64_t offset) {
    return reinterpret_cast<T *>(base + offset);
  }
};

/// What kernels need when they are created.
struct Device {
  int threads = 1;
  /// Bytes the compiler set aside for library workspaces in `scratch` of every task.
  int64_t workspaceBytes = 0;
  /// Only algorithms that give the same bits every time.
  bool exact = false;
  /// Where kernels that can be computed in several ways have them measured; null: nowhere.
  Tuning *tuning = nullptr;
};

/// The tasks of one stage: those that it does not define have nothing to do. Kernels are members,
/// created once. The backward pass is one task or, where rows run input and weight gradients apart,
/// two.
class Tasks {
public:
  virtual ~Tasks() = default;
  virtual void prepare(const Run &) {}
  virtual void forward(const Run &) {}
  virtual void backward(const Run &) {}
  virtual void backwardInput(const Run &) {}
  virtual void backwardWeight(const Run &) {}
  virtual void update(const Run &) {}
  virtual void evaluate(const Run &) {}
};

/// Everything a rank runs. Replicas of a stage differ in their rank and rows only.
struct Program {
  int contractVersion;
  const char *model;
  const char *planHash; ///< the same in all programs of a plan
  int rank;
  int ranks;
  const char *schedule; ///< name
  bool asynchronous;
  bool exact;
  int threads;
  /// Per update of the whole model; asynchronous, where updates do not sum them: 1, a step of the
  /// run.
  int64_t microbatches;
  /// Updates by which the weights of a microbatch are older than all that the microbatches before
  /// it make, at every stage; -1: they are the newest when its forward pass begins.
  int versionLag = -1;
  int64_t microbatchSize; ///< samples
  /// Where a run says no other. Updates read the input `pdc.learning_rate` or, of weights with a
  /// factor of their own, `pdc.learning_rate.times_F`, which begins as the factor.
  double learningRate = 0.01;
  int64_t arenaBytes;
  int fixedRegion, scratchRegion;
  int64_t workspaceBytes;
  std::span<const Region> regions;
  std::span<const Memory> memories;
  std::span<const Transfer> transfers;
  std::span<const Move> moves = {};
  Rows training;
  Rows evaluation;
  std::span<const StageInfo> stages;
  /// The caller owns what it returns. (No unique_ptr: <memory> is a third of what a stage's source
  /// takes to compile.)
  Tasks *(*createTasks)(int stage, const Device &device);
  double secondsPerMinibatch; ///< predicted
  /// Null: the CPU.
  const DeviceSupport *device = nullptr;
};

} // namespace pdc::runtime

#pragma once

#include "runtime/Executor.h"

#include <map>
#include <string>

namespace pdc::runtime {

/// The most steps, epochs or microbatches in all that a checkpoint may count: more than any run
/// makes, and what is computed from them stays in int64_t.
inline constexpr int64_t kMostCounted = int64_t(1) << 40;

inline constexpr const char *kCheckpointIndex = "model.safetensors.index.json";

/// Of the network, but not trained: frozen weights and buffers.
bool isKept(const Memory &memory);
/// Whether a checkpoint holds it.
bool isSaved(const Memory &memory);

/// Where a run stands. `epoch` and `cursor` (microbatches into it) say what is read next.
struct TrainingState {
  int64_t step = 0; ///< minibatches trained on
  /// That this rank's weights have had: one for each step, or fewer where an asynchronous stage's
  /// replicas sum theirs. Of a checkpoint, by its parts, where they are fewer.
  int64_t updates = 0;
  std::map<std::string, int64_t> updatesOfParts = {};
  int64_t epoch = 0;
  int64_t cursor = 0;
  uint64_t seed = 0;
  LossScale lossScale;
  std::map<std::string, std::string> options; ///< the run was told (Options::decisive)
  std::string run;                            ///< its name in the folder it saves in
  int64_t samples = 0;                        ///< of the training data; 0: not told
  std::map<std::string, int64_t> dataFiles;   ///< their fingerprints, by input
};

/// Writes DIR/step-NNNNNN: what each rank owns, an index, state.json; it appears under its name
/// only when all of it is on the disk. Called by all ranks; returns the folder.
std::string saveCheckpoint(const Program &program, const Executor &executor, Control &control,
                           const std::string &directory, const TrainingState &state);

/// All but the tensors.
TrainingState readState(const Program &program, const std::string &checkpoint);

/// Loads this rank's part, whatever number of ranks wrote it, with the updates that it has had, and
/// adds the fingerprints of the checkpoint's files by their names.
void loadTensors(const Program &program, const Executor &executor, const std::string &checkpoint,
                 TrainingState &state, std::map<std::string, int64_t> &fingerprints);

} // namespace pdc::runtime

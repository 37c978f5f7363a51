#pragma once

#include "compiler/schedule/Rows.h"

#include <map>
#include <optional>

namespace pdc {

/// Runs unrolled rows in the strict model, in sweeps: in each, every rank whose peers have come to
/// their sides goes one action further.
class StrictPlay {
public:
  explicit StrictPlay(const UnrolledRows &rows);

  struct Progress {
    int rank;
    size_t action;
  };

  /// The actions that end in this sweep; empty: everything has ended or nothing ever will.
  std::vector<Progress> sweep();

  bool ended() const;
  const std::vector<size_t> &positions() const { return position; }
  /// The rank that `rank` waits for; none when it has ended, itself when a step has no other side.
  std::optional<int> waitsFor(int rank) const;
  /// The step with which a rank that waits does so.
  const Step &waitingStep(int rank) const;

  /// A send and the receive that meet, though they are not of one tensor and microbatch.
  struct Mismatch {
    int sender, receiver;
    Step sent, received;
  };
  std::optional<Mismatch> mismatch() const { return wrongMeeting; }

private:
  /// The action of another rank that must have been reached; `kNever`: there is none.
  struct Need {
    int rank;
    size_t action;
    size_t step = 0; ///< of the own action, which needs it
  };
  static constexpr size_t kNever = static_cast<size_t>(-1);

  void meetTransfers();
  void meetSums();
  void meet(const std::map<int, std::vector<size_t>> &sums);
  const Need *openNeed(int rank) const;

  const UnrolledRows &rows;
  std::vector<std::vector<std::vector<Need>>> needs; ///< by rank and action
  std::vector<size_t> position;
  std::optional<Mismatch> wrongMeeting;
};

} // namespace pdc

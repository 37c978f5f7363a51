#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace pdc::runtime {

/// Which of several ways to compute the same is the fastest on a rank's device. Measured when a
/// problem is met first and kept in a folder, from which another run takes the same choices and so
/// gets the same bits.
class Tuning {
public:
  /// Of the ways that a library ranks no more are worth their time.
  static constexpr size_t kMostWays = 8;
  /// Starts `work`, which puts something into the device's queue, and says what that takes: by
  /// itself, and without what came before it.
  using Clock = std::function<double(const std::function<void()> &work)>;

  /// `device`: its name, since choices hold for devices of one kind. Reads what any rank has left
  /// in the folder: this one's file before the others, by their numbers. Throws Error for one that
  /// is damaged.
  Tuning(std::string device, Clock clock, std::string folder, int rank);

  /// Puts the way that is taken into the queue, last, and returns its number; nothing where none
  /// runs. start(way) puts one of them into the queue and says whether it runs, as often as it is
  /// called: a way reads nothing that a way writes. The first is the one without measuring, which
  /// another replaces where it is clearly faster. `problem` is all that the choice depends on
  /// beside the device: what is computed, by which version of what, and how many ways there are.
  std::optional<size_t> choose(const std::string &problem, size_t ways,
                               const std::function<bool(size_t way)> &start);

  /// What is known of a problem without measuring.
  std::optional<size_t> known(const std::string &problem) const;

  /// What kernels with the same problem share, so that its ways are made and measured once.
  std::shared_ptr<void> &shared(const std::string &problem) { return ofProblem[problem]; }

  /// Writes what has been measured since the last call, and tells.
  void keep();

private:
  using Choices = std::map<std::string, size_t>; ///< by device and problem

  std::optional<size_t> measure(const std::string &problem, size_t ways,
                                const std::function<bool(size_t way)> &start);
  double secondsOf(const std::string &problem, size_t way, const std::function<void()> &work);
  std::string keyOf(const std::string &problem) const { return device + ", " + problem; }
  std::string file() const;
  void read();
  bool write() const;
  void tell();

  const std::string device;
  const Clock clock;
  const std::string folder;
  const int rank;
  Choices own;    ///< of this rank's file
  Choices others; ///< of those of other ranks
  std::map<std::string, std::shared_ptr<void>> ofProblem;
  bool isKept = true, isMeasuring = false;
  size_t measured = 0, problems = 0, changed = 0; ///< ways; problems, and those whose first lost
  double spent = 0;                               ///< seconds
};

} // namespace pdc::runtime

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace pdc::toy {

using Word = uint64_t;

Word mix(Word a, Word b);

/// Everything that ranks share: messages that meet, and sums over all ranks.
class Network {
public:
  Network(int ranks, bool byEdge) : byEdge(byEdge), waiting(ranks), finished(ranks) {}

  struct Post {
    bool send;
    int from, to, edge;
    Word *word;
    bool done = false;
  };

  /// Posts all, returns when each has met its other side; false when the run hangs.
  bool exchange(int rank, std::vector<Post> &posts);
  std::optional<Word> sum(int rank, size_t number, Word own);

  /// What a replica brings to a sum of its stage, both kinds of gradients.
  using Gradients = std::pair<Word, Word>;
  /// All replicas' in the order of their ranks.
  std::optional<Gradients> reduce(int rank, int stage, size_t number, size_t replicas,
                                  Gradients own);
  void finish(int rank);
  bool hangs() const { return hung; }

private:
  void meet(Post &post);
  bool waitFor(int rank, std::unique_lock<std::mutex> &lock, std::function<bool()> done);
  void lookForHang();

  bool byEdge;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int>, std::deque<Post *>> sends, receives;
  std::map<size_t, std::pair<size_t, Word>> sums;
  std::map<std::pair<int, size_t>, std::map<int, Gradients>> reductions;
  std::vector<std::function<bool()>> waiting;
  std::vector<bool> finished;
  bool hung = false;
};

} // namespace pdc::toy

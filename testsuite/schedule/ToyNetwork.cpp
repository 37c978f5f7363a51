#include "testsuite/schedule/ToyNetwork.h"

#include <algorithm>

namespace pdc::toy {

Word mix(Word a, Word b) {
  Word z = (a ^ (b + 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
  return (z ^ (z >> 29)) * 0x94D049BB133111EB;
}

void Network::meet(Post &post) {
  std::vector<int> key = {post.from, post.to, byEdge ? post.edge : 0};
  std::deque<Post *> &own = (post.send ? sends : receives)[key];
  std::deque<Post *> &others = (post.send ? receives : sends)[key];
  own.push_back(&post);
  while (!own.empty() && !others.empty()) {
    Post *send = sends[key].front(), *receive = receives[key].front();
    sends[key].pop_front();
    receives[key].pop_front();
    *receive->word = *send->word;
    send->done = receive->done = true;
  }
}

void Network::lookForHang() {
  for (size_t rank = 0; rank < waiting.size(); ++rank)
    if (!finished[rank] && (!waiting[rank] || waiting[rank]()))
      return;
  hung = std::ranges::find(finished, false) != finished.end();
}

bool Network::waitFor(int rank, std::unique_lock<std::mutex> &lock, std::function<bool()> done) {
  waiting[rank] = done;
  lookForHang();
  changed.notify_all();
  changed.wait(lock, [&] { return hung || done(); });
  waiting[rank] = nullptr;
  return !hung;
}

bool Network::exchange(int rank, std::vector<Post> &posts) {
  std::unique_lock lock(mutex);
  for (Post &post : posts)
    meet(post);
  return waitFor(rank, lock, [&] {
    return std::ranges::all_of(posts, [](const Post &post) { return post.done; });
  });
}

std::optional<Word> Network::sum(int rank, size_t number, Word own) {
  std::unique_lock lock(mutex);
  ++sums[number].first;
  sums[number].second += own;
  if (!waitFor(rank, lock, [&] { return sums[number].first == waiting.size(); }))
    return std::nullopt;
  return sums[number].second;
}

std::optional<Network::Gradients> Network::reduce(int rank, int stage, size_t number,
                                                  size_t replicas, Gradients own) {
  std::unique_lock lock(mutex);
  std::map<int, Gradients> &members = reductions[{stage, number}];
  members[rank] = own;
  if (!waitFor(rank, lock, [&members, replicas] { return members.size() >= replicas; }))
    return std::nullopt;
  Gradients all = {0, 0};
  for (const auto &[member, gradients] : members)
    all = {mix(all.first, gradients.first), mix(all.second, gradients.second)};
  return all;
}

void Network::finish(int rank) {
  std::unique_lock lock(mutex);
  finished[rank] = true;
  lookForHang();
  changed.notify_all();
}

} // namespace pdc::toy

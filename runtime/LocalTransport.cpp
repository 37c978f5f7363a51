#include "runtime/Transport.h"

#include "runtime/Error.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

namespace pdc::runtime {

/// All posted and unmatched sides, and who waits.
struct LocalNetwork::State {
  /// The end of a copy between accelerators: a mark of the one that copies, for both sides.
  struct Copy {
    Accelerator::Mark mark;
    std::vector<Copy *> &unused; ///< where it goes once both have waited
    int waiting;
  };
  struct Post {
    bool send;
    int from, to, tag;
    std::byte *data;
    int64_t bytes;
    bool *done;
    Copy **copy;
    Accelerator::Mark ready = nullptr;
  };
  explicit State(int ranks) : ranks(ranks), copying(ranks), arrived(ranks) { open.reserve(4096); }

  std::mutex mutex;
  const int ranks;
  std::vector<Post> open;
  std::vector<int> copying;                     ///< by rank: copies others make for it now
  std::vector<std::condition_variable> arrived; ///< by rank
};

class LocalNetwork::Endpoint : public Transport {
public:
  Endpoint(State &state, int rank, Accelerator *accelerator)
      : state(state), self(rank), accelerator(accelerator), done(kRequests) {
    free.reserve(kRequests);
    for (int i = kRequests; i-- > 0;)
      free.push_back(i);
  }
  int rank() const override { return self; }
  int ranks() const override { return state.ranks; }
  void post(std::span<Message> group) override;
  bool wait(int request, std::chrono::microseconds patience) override;
  void cancel() override;

private:
  static constexpr int kRequests = 4096;
  struct Flag {
    bool value = false;
    State::Copy *copy = nullptr;
    Accelerator::Mark ready = nullptr; ///< made at first use
  };
  int takeRequest();
  void postOne(Message &message);
  void mark(Flag &flag);
  State::Copy *takeCopy();
  void copy(const State::Post &from, const State::Post &to, State::Copy *copy) const;

  State &state;
  const int self;
  Accelerator *const accelerator;
  std::vector<Flag> done;
  std::vector<int> free;
  std::deque<State::Copy> copies;
  std::vector<State::Copy *> unusedCopies;
};

void LocalNetwork::Endpoint::post(std::span<Message> group) {
  for (Message &message : group)
    postOne(message);
}

int LocalNetwork::Endpoint::takeRequest() {
  std::lock_guard lock(state.mutex);
  if (free.empty())
    throw Error("rank ", self, " has ", done.size(),
                " messages open and posts another; use fewer "
                "microbatches per update");
  int request = free.back();
  free.pop_back();
  return request;
}

void LocalNetwork::Endpoint::postOne(Message &message) {
  message.request = takeRequest();
  Flag &flag = done[message.request];
  flag.value = false;
  if (accelerator)
    mark(flag);
  State::Post mine{message.send,
                   message.send ? self : message.peer,
                   message.send ? message.peer : self,
                   message.tag,
                   message.data,
                   message.bytes,
                   &flag.value,
                   &flag.copy,
                   flag.ready};
  // 1. Take the oldest other side, if it is there.
  State::Post other{};
  State::Copy *made = nullptr;
  {
    std::lock_guard lock(state.mutex);
    auto match = state.open.begin();
    while (match != state.open.end() && !(match->send != mine.send && match->from == mine.from &&
                                          match->to == mine.to && match->tag == mine.tag))
      ++match;
    if (match == state.open.end()) {
      state.open.push_back(mine);
      return;
    }
    other = *match;
    state.open.erase(match);
    ++state.copying[message.peer];
    made = accelerator ? takeCopy() : nullptr;
  }
  // 2. Copy outside the lock: both sides are blocked on their flags meanwhile.
  const State::Post &from = mine.send ? mine : other, &to = mine.send ? other : mine;
  bool agreed = from.bytes == to.bytes;
  if (agreed)
    copy(from, to, made);
  std::lock_guard lock(state.mutex);
  *mine.copy = *other.copy = made;
  *mine.done = *other.done = true;
  --state.copying[message.peer];
  state.arrived[message.peer].notify_all();
  if (!agreed)
    throw Error("rank ", from.from, " sends ", from.bytes, " bytes and rank ", from.to, " expects ",
                to.bytes, "; build all stages from one plan");
}

/// Behind what made the tensor, and behind what last used the place it goes to.
void LocalNetwork::Endpoint::mark(Flag &flag) {
  if (!flag.ready)
    flag.ready = accelerator->makeMark();
  accelerator->record(flag.ready);
}

LocalNetwork::State::Copy *LocalNetwork::Endpoint::takeCopy() {
  if (unusedCopies.empty())
    unusedCopies.push_back(&copies.emplace_back(accelerator->makeMark(), unusedCopies, 0));
  State::Copy *copy = unusedCopies.back();
  unusedCopies.pop_back();
  copy->waiting = 2;
  return copy;
}

void LocalNetwork::Endpoint::copy(const State::Post &from, const State::Post &to,
                                  State::Copy *copy) const {
  if (!accelerator) {
    std::memcpy(to.data, from.data, size_t(from.bytes));
    return;
  }
  const Accelerator::Mark ready[] = {from.ready, to.ready};
  accelerator->copy(to.data, from.data, from.bytes, ready, copy->mark);
}

bool LocalNetwork::Endpoint::wait(int request, std::chrono::microseconds patience) {
  std::unique_lock lock(state.mutex);
  bool *flag = &done[request].value;
  if (!*flag && patience.count() > 0)
    state.arrived[self].wait_for(lock, patience, [&] { return *flag; });
  if (!*flag)
    return false;
  if (accelerator) {
    State::Copy &copy = *done[request].copy;
    accelerator->await(copy.mark);
    if (--copy.waiting == 0)
      copy.unused.push_back(&copy);
  }
  free.push_back(request);
  return true;
}

void LocalNetwork::Endpoint::cancel() {
  std::unique_lock lock(state.mutex);
  std::erase_if(state.open,
                [&](const State::Post &post) { return (post.send ? post.from : post.to) == self; });
  state.arrived[self].wait(lock, [&] { return state.copying[self] == 0; });
}

LocalNetwork::LocalNetwork(int ranks) : state(std::make_unique<State>(ranks)) {}
LocalNetwork::~LocalNetwork() = default;

std::unique_ptr<Transport> LocalNetwork::endpoint(int rank, Accelerator *accelerator) {
  return std::make_unique<Endpoint>(*state, rank, accelerator);
}

} // namespace pdc::runtime

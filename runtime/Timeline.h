#pragma once

#include "runtime/Control.h"
#include "runtime/Program.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime {

char letter(Phase phase);

/// What one rank did and when: room for it is taken beforehand, and what does not fit is counted
/// only. The same events, in order, are the record of issued operations that the proof replays.
class Timeline {
public:
  enum class Kind : uint8_t {
    run,
    sendPosted,
    receivePosted,
    sendCalled, ///< by a library; of a sum `transfer` is -1, `stage` the peer, `microbatch` the tag
    receiveCalled,
    send,
    receive,
    allReduce,
    reduceGradients
  };
  struct Event {
    Kind kind;
    Phase phase;
    int stage;
    int64_t step, microbatch;
    int transfer;  ///< index into Program::transfers, or -1
    int64_t group; ///< posted: number of the group
    Seconds begin, end;
    int first = -1, second = -1; ///< called: the ranks of the communicator
    bool directed = false;       ///< called: from the first of them to the second alone
    bool beside = false;         ///< called: it is one of those for sums over replicas
  };

  explicit Timeline(size_t room = 0) : room(room) { events.reserve(room); }
  void add(const Event &event) {
    if (events.size() < room)
      events.push_back(event);
    else
      ++left;
  }
  bool on() const { return room > 0; }

  /// Its text is written in parts, which take little memory; there is one at least.
  size_t parts() const { return events.size() / kPart + 1; }
  /// Chrome trace events of tasks and finished transfers, joined by ',', without brackets.
  std::string chromeEvents(const Program &program, Seconds zero, size_t part) const;
  /// One line per issued operation: run 2F0, send X to 1, receive X from 1, group by group.
  std::string issuedLines(const Program &program, size_t part) const;
  int64_t leftOut() const { return left; }
  /// Memory of what is kept: room that nothing has filled takes none.
  int64_t heldBytes() const { return static_cast<int64_t>(events.size() * sizeof(Event)); }

private:
  static constexpr size_t kPart = 128;
  std::span<const Event> eventsOf(size_t part) const;

  size_t room;
  int64_t left = 0;
  std::vector<Event> events;
};

/// The rows of a program as text, as --check prints them, and the slots and versions of its stages.
std::string rowsText(const Program &program);

} // namespace pdc::runtime

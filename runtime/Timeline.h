#pragma once

#include "runtime/Control.h"
#include "runtime/Program.h"

#include <cstdint>
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
  };

  explicit Timeline(size_t room = 0) : room(room) { events.reserve(room); }
  void add(const Event &event) {
    if (events.size() < room)
      events.push_back(event);
    else
      ++left;
  }
  bool on() const { return room > 0; }

  /// Chrome trace events of tasks and finished transfers, joined by ',', without brackets.
  std::string chromeEvents(const Program &program, Seconds zero) const;
  /// One line per issued operation: run 2F0, send X to 1, receive X from 1, group by group.
  std::string issuedLines(const Program &program) const;
  int64_t leftOut() const { return left; }

private:
  size_t room;
  int64_t left = 0;
  std::vector<Event> events;
};

/// The rows of a program as text, as --check prints them.
std::string rowsText(const Program &program);

} // namespace pdc::runtime

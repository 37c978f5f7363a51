#include "runtime/Waiting.h"

#include "runtime/Error.h"
#include "runtime/Executor.h"

#include <algorithm>

/// How an executor waits for its transfers: never longer than the timeout, never after a failure.
namespace pdc::runtime {

void Executor::finishTransfers() {
  waitFor([](const Pending &) { return true; });
}

/// Lets transports that move data only inside their calls move it, and notes what has arrived. A
/// queue waits for nothing before its reader comes.
void Executor::poll() {
  if (arena.isRemote())
    return transport.progress();
  for (size_t i = 0; i < pending.size();) {
    if (!transport.wait(pending[i].request, std::chrono::microseconds(0))) {
      ++i;
      continue;
    }
    pending[i].request = -1;
    complete(i);
  }
}

void Executor::complete(size_t index) {
  const Pending transfer = pending[index];
  if (transfer.request >= 0 && !transport.wait(transfer.request, std::chrono::microseconds(0))) {
    Activity activity = activityOf(transfer);
    Activity before = control.setActivity(activity);
    Seconds begin = now();
    while (!transport.wait(transfer.request, std::chrono::milliseconds(10))) {
      control.check();
      if (now() - begin < options.timeout)
        continue;
      std::ostringstream why;
      why << "nothing moves: rank " << program.rank << " " << activity.verb << " '"
          << activity.tensor << "' longer than " << options.timeout << " s (--timeout)";
      control.fail(why.str(), true);
      control.check();
    }
    control.setActivity(before);
  }
  events.add({transfer.send ? Timeline::Kind::send : Timeline::Kind::receive,
              program.transfers[transfer.transfer].phase, transfer.stage, step, transfer.microbatch,
              transfer.transfer, 0, transfer.begin, now()});
  pending.erase(pending.begin() + int64_t(index));
}

/// Messages without a transfer are those of sums.
void Executor::noteIssue(const Issue &issue) {
  using Kind = Timeline::Kind;
  const Kind kind = issue.message.send ? Kind::sendCalled : Kind::receiveCalled;
  const Seconds time = now();
  auto transfer = std::find_if(pending.rbegin(), pending.rend(), [&](const Pending &open) {
    return !issue.beside && open.request == issue.message.request;
  });
  Timeline::Event event{kind,
                        Phase::update,
                        issue.message.peer,
                        step,
                        issue.message.tag,
                        -1,
                        issue.group,
                        time,
                        time,
                        issue.first,
                        issue.second,
                        issue.directed,
                        issue.beside};
  if (transfer != pending.rend()) {
    event.phase = program.transfers[transfer->transfer].phase;
    event.stage = transfer->stage;
    event.microbatch = transfer->microbatch;
    event.transfer = transfer->transfer;
  }
  events.add(event);
}

void post(Transport &transport, std::span<Message> messages) {
  if (messages.empty())
    return;
  transport.beginGroup();
  transport.post(messages);
  transport.endGroup();
}

void meet(Transport &transport, Control &control, std::span<Message> messages, Seconds timeout,
          std::string_view who) {
  post(transport, messages);
  await(transport, control, messages, timeout, who);
}

void await(Transport &transport, Control &control, std::span<const Message> messages,
           Seconds timeout, std::string_view who, const std::atomic<bool> *stopping) {
  Seconds begin = now();
  for (const Message &message : messages)
    // In long slices: each begins with polling that takes the core from a computing rank.
    while (!transport.wait(message.request, std::chrono::milliseconds(100))) {
      control.check();
      if (stopping && *stopping)
        throw Error("rank ", control.rank(), " ends while it waits for rank ", message.peer, who);
      if (now() - begin < timeout)
        continue;
      std::ostringstream why;
      why << "nothing moves: rank " << control.rank() << " waits for rank " << message.peer << who
          << ", longer than " << timeout << " s (--timeout)";
      control.fail(why.str(), true);
      control.check();
    }
}

Activity Executor::activityOf(const Pending &transfer) const {
  const Transfer &edge = program.transfers[transfer.transfer];
  return {transfer.send ? "waits to send" : "waits to receive",
          edge.tensor,
          peerOf(edge, transfer.microbatch),
          edge.stage,
          edge.phase,
          step,
          transfer.microbatch};
}

} // namespace pdc::runtime

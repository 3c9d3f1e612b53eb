#include "coordinator/cli/cluster/conformance_checks.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/handshake.h"
#include "coordinator/cli/cluster/draft_conversation.h"

namespace espalier::cli {
namespace {

using Subject = ConformanceSubject;

constexpr uint32_t kNodes = 8;
constexpr uint32_t kDepth = 4;

uint64_t NewEpoch() { return absl::Uniform<uint64_t>(absl::BitGen()); }

absl::Status Broken(const std::string& what) {
  return absl::FailedPreconditionError(what);
}

std::string NameOf(int code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

// ---- steps that several checks take ----

// A stream after the exchange of hellos.
struct Open {
  uint64_t epoch = NewEpoch();
  std::unique_ptr<DraftConversation> stream = {};
  v1::DrafterHello hello = {};
};

absl::StatusOr<Open> Connect(const Subject& subject) {
  Open open;
  open.stream = std::make_unique<DraftConversation>(
      *subject.stub, subject.timeout, subject.token);
  ASSIGN_OR_RETURN(open.hello, open.stream->Greet(MakeCoordinatorHello(
                                   subject.model, open.epoch)));
  return open;
}

DraftedText TextOf(const Subject& subject, const Open& open, uint64_t session,
                   size_t length) {
  return DraftedText(open.epoch, session,
                     {subject.text.begin(), subject.text.begin() + length});
}

// The tree of an answer to `asked` about `text`, if the answer is valid.
absl::StatusOr<TokenTree> CheckProposal(
    const absl::StatusOr<v1::DraftResponse>& answer, const DraftedText& text,
    const v1::Propose& asked, const Subject& subject) {
  RETURN_IF_ERROR(answer.status());
  if (answer->has_failure()) {
    return Broken(absl::StrCat("failure ", NameOf(answer->failure().code()),
                               ": ", answer->failure().message()));
  }
  if (!answer->has_proposal()) return Broken("neither proposal nor failure");
  ASSIGN_OR_RETURN(Proposal proposal, FromProto(answer->proposal()));
  if (proposal.round != text.round()) {
    return Broken(absl::StrCat("answers round ", proposal.round,
                               ", asked was round ", text.round()));
  }
  if (proposal.committed_length != text.length()) {
    return Broken(absl::StrCat("holds ", proposal.committed_length,
                               " tokens, the text has ", text.length()));
  }
  RETURN_IF_ERROR(
      proposal.tree.Validate({.max_nodes = asked.max_nodes(),
                              .max_depth = asked.max_depth(),
                              .vocab_size = subject.model.vocab_size}));
  if (proposal.tree.tokens[0] != text.last()) {
    return Broken("the root is not the last committed token");
  }
  return std::move(proposal.tree);
}

absl::StatusOr<TokenTree> Propose(Open& open, DraftedText& text, int64_t held,
                                  const Subject& subject,
                                  uint32_t nodes = kNodes,
                                  uint32_t depth = kDepth) {
  const v1::Propose asked = text.Next(held, nodes, depth);
  return CheckProposal(open.stream->Ask(asked), text, asked, subject);
}

// A refusal of one request that leaves the stream open.
absl::StatusOr<v1::Failure> CheckFailure(
    const absl::StatusOr<v1::DraftResponse>& answer, absl::StatusCode code) {
  RETURN_IF_ERROR(answer.status());
  if (!answer->has_failure()) {
    return Broken(
        absl::StrCat("no failure, expected ", absl::StatusCodeToString(code)));
  }
  if (answer->failure().code() != static_cast<int>(code)) {
    return Broken(absl::StrCat("failure ", NameOf(answer->failure().code()),
                               ", expected ", absl::StatusCodeToString(code)));
  }
  return answer->failure();
}

// Checks that the drafter holds exactly `held` tokens and goes on when it is
// fed again.
absl::Status CheckStale(const absl::StatusOr<v1::DraftResponse>& answer,
                        int64_t most, Open& open, DraftedText& text,
                        const Subject& subject) {
  ASSIGN_OR_RETURN(const v1::Failure failure,
                   CheckFailure(answer, absl::StatusCode::kFailedPrecondition));
  if (!failure.has_held_length()) return Broken("no held_length");
  const int64_t held = static_cast<int64_t>(failure.held_length());
  if (held > most) {
    return Broken(absl::StrCat("claims to hold ", held, " tokens, at most ",
                               most, " can agree"));
  }
  return Propose(open, text, held, subject).status();
}

absl::Status CheckRefusesHello(const Subject& subject,
                               const v1::CoordinatorHello& hello) {
  DraftConversation stream(*subject.stub, subject.timeout, subject.token);
  const auto answer = stream.Greet(hello);
  if (answer.ok()) return Broken("accepted");
  if (!absl::IsFailedPrecondition(answer.status())) {
    return Broken(absl::StrCat("ended with ", answer.status().ToString(),
                               ", expected FAILED_PRECONDITION"));
  }
  return absl::OkStatus();
}

// ---- the checks ----

absl::Status Handshake(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  RETURN_IF_ERROR(CheckPeer(open.hello, subject.model).status());
  if (open.hello.name().empty()) return Broken("no name");
  if (open.hello.type().empty()) return Broken("no type");
  if (open.hello.max_nodes() == 0 || open.hello.max_depth() == 0) {
    return Broken("max_nodes and max_depth must be above 0");
  }
  return open.stream->End();
}

absl::Status OtherVersion(const Subject& subject) {
  v1::CoordinatorHello hello = MakeCoordinatorHello(subject.model, NewEpoch());
  hello.set_protocol_version(9999);
  return CheckRefusesHello(subject, hello);
}

absl::Status OtherTokenizer(const Subject& subject) {
  ModelIdentity other = subject.model;
  other.tokenizer_fingerprint ^= 1;
  RETURN_IF_ERROR(
      CheckRefusesHello(subject, MakeCoordinatorHello(other, NewEpoch())));
  other = subject.model;
  other.vocab_size += 1;
  return CheckRefusesHello(subject, MakeCoordinatorHello(other, NewEpoch()));
}

absl::Status NoHello(const Subject& subject) {
  {
    DraftConversation stream(*subject.stub, subject.timeout, subject.token);
    DraftedText text(1, 1, subject.text);
    if (stream.Ask(text.Next(0, kNodes, kDepth)).ok()) {
      return Broken("answers who has not said hello");
    }
  }
  return Handshake(subject);
}

absl::Status Trees(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 16);
  RETURN_IF_ERROR(Propose(open, text, 0, subject).status());
  for (size_t i = 16; i < 32; ++i) {
    const int64_t held = text.length();
    text.Append({subject.text[i]});
    RETURN_IF_ERROR(Propose(open, text, held, subject).status());
  }
  return open.stream->End();
}

absl::Status Budgets(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 24);
  int64_t held = 0;
  for (uint32_t nodes : {1u, 2u, 5u, open.hello.max_nodes()}) {
    for (uint32_t depth : {1u, 2u, open.hello.max_depth()}) {
      const auto tree = Propose(open, text, held, subject, nodes, depth);
      if (!tree.ok()) {
        return Broken(absl::StrCat("budget of ", nodes, " nodes, depth ", depth,
                                   ": ", tree.status().message()));
      }
      held = text.length();
    }
  }
  ASSIGN_OR_RETURN(const TokenTree none,
                   Propose(open, text, held, subject, /*nodes=*/0));
  if (none.num_nodes() != 1)
    return Broken("drafts although 0 nodes are wanted");
  return open.stream->End();
}

absl::Status GapInTheText(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 8);
  RETURN_IF_ERROR(Propose(open, text, 0, subject).status());
  text.Append(absl::MakeConstSpan(subject.text).subspan(8, 8));
  // The drafter holds 8 of the 12 tokens that this request assumes.
  return CheckStale(open.stream->Ask(text.Next(12, kNodes, kDepth)), 8, open,
                    text, subject);
}

absl::Status OtherText(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 16);
  RETURN_IF_ERROR(Propose(open, text, 0, subject).status());
  v1::Propose wrong = text.Next(16, kNodes, kDepth);
  v1::SessionKey& key = *wrong.mutable_update()->mutable_key();
  key.set_prefix_hash(key.prefix_hash() ^ 1);
  return CheckStale(open.stream->Ask(wrong), 16, open, text, subject);
}

absl::Status ShorterBase(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 20);
  RETURN_IF_ERROR(Propose(open, text, 0, subject).status());
  // The drafter drops tokens that it holds beyond the base.
  const auto again = Propose(open, text, 12, subject);
  return again.status();
}

absl::Status EndedSequence(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 16);
  RETURN_IF_ERROR(Propose(open, text, 0, subject).status());
  for (uint64_t session : {text.session(), uint64_t{12345}}) {
    v1::DraftRequest end;
    end.mutable_end_sequence()->set_epoch(open.epoch);
    end.mutable_end_sequence()->set_session_id(session);
    open.stream->Tell(end);
  }
  return CheckStale(open.stream->Ask(text.Next(16, kNodes, kDepth)), 0, open,
                    text, subject);
}

absl::Status ManySequences(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  std::vector<DraftedText> texts;
  for (uint64_t i = 0; i < 8; ++i) {
    texts.push_back(TextOf(subject, open, i + 1, 8 + i));
    RETURN_IF_ERROR(Propose(open, texts[i], 0, subject).status());
  }
  for (DraftedText& text : texts) {
    const int64_t held = text.length();
    text.Append({subject.text[static_cast<size_t>(held)]});
    RETURN_IF_ERROR(Propose(open, text, held, subject).status());
  }
  return open.stream->End();
}

absl::Status Malformed(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 16);
  const v1::Propose good = text.Next(0, kNodes, kDepth);
  std::vector<v1::Propose> wrong(4, good);
  wrong[0].mutable_update()->set_new_tokens(
      3, static_cast<uint32_t>(subject.model.vocab_size));
  wrong[1].mutable_update()->clear_new_tokens();  // no root
  wrong[2].mutable_update()->clear_key();
  wrong[3].clear_update();
  for (size_t i = 0; i < wrong.size(); ++i) {
    const auto failure = CheckFailure(open.stream->Ask(wrong[i]),
                                      absl::StatusCode::kInvalidArgument);
    if (!failure.ok()) {
      return Broken(absl::StrCat("malformed request ", i, ": ",
                                 failure.status().message()));
    }
  }
  // The stream goes on.
  return Propose(open, text, 0, subject).status();
}

absl::Status Cancellation(const Subject& subject) {
  for (int i = 0; i < 8; ++i) {
    ASSIGN_OR_RETURN(Open open, Connect(subject));
    DraftedText text = TextOf(subject, open, 1, 16);
    v1::DraftRequest request;
    *request.mutable_propose() = text.Next(0, kNodes, kDepth);
    open.stream->Tell(request);  // the answer is not awaited
    open.stream->Cancel();
  }
  return Trees(subject);
}

absl::Status NewCoordinator(const Subject& subject) {
  uint64_t epoch = 0;
  {
    ASSIGN_OR_RETURN(Open open, Connect(subject));
    epoch = open.epoch;
    DraftedText text = TextOf(subject, open, 1, 16);
    RETURN_IF_ERROR(Propose(open, text, 0, subject).status());
    RETURN_IF_ERROR(open.stream->End());
  }
  // The sequences ended with the stream, also for a client that knows their
  // names.
  Open open = {.epoch = epoch};
  open.stream = std::make_unique<DraftConversation>(
      *subject.stub, subject.timeout, subject.token);
  RETURN_IF_ERROR(
      open.stream->Greet(MakeCoordinatorHello(subject.model, epoch)).status());
  DraftedText text = TextOf(subject, open, 1, 16);
  return CheckStale(open.stream->Ask(text.Next(16, kNodes, kDepth)), 0, open,
                    text, subject);
}

absl::Status Determinism(const Subject& subject) {
  for (float temperature : {0.0f, 1.0f}) {
    std::vector<TokenTree> trees;
    for (int i = 0; i < 2; ++i) {
      ASSIGN_OR_RETURN(Open open, Connect(subject));
      DraftedText text = TextOf(subject, open, 1, 24);
      text.temperature = temperature;
      ASSIGN_OR_RETURN(trees.emplace_back(), Propose(open, text, 0, subject));
    }
    if (trees[0].tokens != trees[1].tokens ||
        trees[0].parents != trees[1].parents) {
      return Broken(absl::StrCat(
          "two trees for one text, seed and temperature ", temperature));
    }
  }
  return absl::OkStatus();
}

absl::Status NoTime(const Subject& subject) {
  ASSIGN_OR_RETURN(Open open, Connect(subject));
  DraftedText text = TextOf(subject, open, 1, 16);
  v1::Propose asked = text.Next(0, kNodes, kDepth);
  asked.set_time_budget_us(1);
  // A valid answer must come, late or not, so that the next one can.
  return CheckProposal(open.stream->Ask(asked), text, asked, subject).status();
}

}  // namespace

const std::vector<ConformanceCheck>& ConformanceChecks() {
  static const auto& checks = *new std::vector<ConformanceCheck>{
      {"says hello", Handshake},
      {"refuses another protocol version", OtherVersion},
      {"refuses another tokenizer or vocabulary", OtherTokenizer},
      {"answers nobody who has not said hello", NoHello},
      {"proposes valid trees for a text that grows", Trees},
      {"keeps to the budgets of nodes and depth", Budgets},
      {"notices a gap in the text and is fed again", GapInTheText},
      {"notices another text and is fed again", OtherText},
      {"drops what it holds beyond the base", ShorterBase},
      {"forgets a sequence that has ended", EndedSequence},
      {"keeps many sequences apart", ManySequences},
      {"names malformed requests and goes on", Malformed},
      {"survives cancelled streams", Cancellation},
      {"forgets all sequences when the stream ends", NewCoordinator},
      {"drafts the same tree for the same text and seed", Determinism},
      {"answers although there is no time", NoTime},
  };
  return checks;
}

}  // namespace espalier::cli

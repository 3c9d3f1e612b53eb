#include "coordinator/cli/cluster/draft_conversation.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/bf16.h"
#include "common/rpc/feature_chunks.h"
#include "common/speculation/prefix_hash.h"

namespace espalier::cli {
namespace {

// Synthetic features, from the last position that the drafter holds to the one
// before the root; the same for the same position.
FeatureRows FeaturesFor(const v1::SequenceUpdate& update, int64_t width) {
  const int64_t base = static_cast<int64_t>(update.key().base_length());
  const int64_t root = base + update.new_tokens_size() - 1;
  FeatureRows rows = {.first_position = std::max<int64_t>(base - 1, 0),
                      .width = width};
  for (int64_t position = rows.first_position; position < root; ++position) {
    std::minstd_rand random(static_cast<uint32_t>(position) + 1);
    for (int64_t i = 0; i < width; ++i) {
      rows.data.push_back(
          FloatToBf16(static_cast<float>(random()) * 0x1p-30f - 1));
    }
  }
  return rows;
}

}  // namespace

v1::Propose DraftedText::Next(int64_t held, uint32_t max_nodes,
                              uint32_t max_depth) {
  v1::Propose propose;
  v1::SequenceUpdate& update = *propose.mutable_update();
  v1::SessionKey& key = *update.mutable_key();
  key.set_epoch(epoch_);
  key.set_session_id(session_);
  key.set_round(++round_);
  key.set_base_length(static_cast<uint64_t>(held));
  key.set_prefix_hash(PrefixHash(
      absl::MakeConstSpan(tokens_).first(static_cast<size_t>(held))));
  update.mutable_new_tokens()->Add(tokens_.begin() + held, tokens_.end());
  update.mutable_sampling()->set_temperature(temperature);
  update.mutable_sampling()->set_top_p(1);
  update.mutable_sampling()->set_seed(seed);
  propose.set_max_nodes(max_nodes);
  propose.set_max_depth(max_depth);
  propose.set_time_budget_us(10'000'000);
  return propose;
}

DraftConversation::DraftConversation(v1::Drafter::Stub& stub,
                                     absl::Duration timeout,
                                     const AccessToken& token) {
  token.ShowOn(context_);
  context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  stream_ = stub.Draft(&context_);
}

DraftConversation::~DraftConversation() {
  if (finished_) return;
  Cancel();
  stream_->Finish();
}

absl::StatusOr<v1::DrafterHello> DraftConversation::Greet(
    const v1::CoordinatorHello& hello) {
  v1::DraftRequest request;
  request.set_request_id(next_id_++);
  *request.mutable_hello() = hello;
  stream_->Write(request);
  auto answer = Read(request.request_id());
  if (!answer.ok()) return answer.status();
  if (!answer->has_hello()) {
    return absl::InternalError("the first answer is no hello");
  }
  const v1::FeatureContract& wanted = answer->hello().features();
  feature_width_ = int64_t{wanted.hidden_size()} * wanted.after_layers_size();
  return answer->hello();
}

absl::StatusOr<v1::DraftResponse> DraftConversation::Ask(
    const v1::Propose& propose) {
  v1::DraftRequest request;
  request.set_request_id(next_id_++);
  *request.mutable_propose() = propose;
  for (v1::DraftRequest& part : ToParts<v1::DraftRequest>(
           FeaturesFor(propose.update(), feature_width_))) {
    part.set_request_id(request.request_id());
    stream_->Write(part);
  }
  stream_->Write(request);
  return Read(request.request_id());
}

void DraftConversation::Tell(v1::DraftRequest request) {
  request.set_request_id(next_id_++);
  stream_->Write(request);
}

absl::StatusOr<v1::DraftResponse> DraftConversation::Read(uint64_t request_id) {
  v1::DraftResponse response;
  while (stream_->Read(&response)) {
    if (response.request_id() != request_id) {
      return absl::InternalError(absl::StrCat("an answer to request ",
                                              response.request_id(),
                                              " instead of ", request_id));
    }
    if (!response.has_proposal() || !response.proposal().partial()) {
      return response;
    }
  }
  const absl::Status end = End();
  return end.ok() ? absl::InternalError("the stream ended without an answer")
                  : end;
}

absl::Status DraftConversation::End() {
  stream_->WritesDone();
  v1::DraftResponse ignored;
  while (stream_->Read(&ignored)) continue;
  finished_ = true;
  const grpc::Status status = stream_->Finish();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace espalier::cli

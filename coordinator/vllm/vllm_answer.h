#ifndef ESPALIER_COORDINATOR_VLLM_VLLM_ANSWER_H_
#define ESPALIER_COORDINATOR_VLLM_VLLM_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "coordinator/api/answer_format.h"
#include "vllm_engine.pb.h"

namespace espalier::coordinator {

// An answer in messages of vllm.grpc.engine.VllmEngine. A streamed one has
// chunks with what is new, and for each output a `complete` without tokens;
// another one only a `complete` with everything for each output, in the order
// of the outputs: the gateway numbers its choices as they come. Texts are the
// gateway's: only tokens are sent.
class VllmAnswer final : public AnswerFormat {
 public:
  explicit VllmAnswer(bool stream) : stream_(stream) {}

  void Add(const OutputPiece& piece) override;
  void End(const absl::Status& status, const GenerationReport& report) override;
  std::optional<std::string> Take() override;
  size_t NumBytes() const override;

 private:
  // Of a streamed answer any output may end next.
  bool MayEndNext(int64_t output) const {
    return stream_ || output == num_sent_completes_;
  }

  using Chunk = vllm::grpc::engine::GenerateStreamChunk;
  using Complete = vllm::grpc::engine::GenerateComplete;

  const bool stream_;
  uint32_t num_prompt_tokens_ = 0;
  std::map<int64_t, Chunk> chunks_;        // by output, what is not sent yet
  std::map<int64_t, Complete> completes_;  // by output, not sent yet
  int64_t num_sent_completes_ = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_VLLM_VLLM_ANSWER_H_

// Clients' messages of every type. The first byte chooses the type.
#include "common/base/check.h"
#include "common/rpc/read_message.h"
#include "common/speculation/request_errors.h"
#include "espalier/v1/admin.pb.h"
#include "espalier/v1/inference.pb.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace message_bytes_fuzz {

const google::protobuf::Message& TypeOf(uint8_t number) {
  static const google::protobuf::Message* const types[] = {
      &v1::GenerateRequest::default_instance(),
      &v1::AbortRequest::default_instance(),
      &v1::GetModelInfoRequest::default_instance(),
      &v1::GetServerInfoRequest::default_instance(),
      &v1::GetLoadRequest::default_instance(),
      &v1::ListDraftersRequest::default_instance(),
      &v1::SetDrafterRequest::default_instance(),
      &v1::GenerateResponse::default_instance()};
  return *types[number % std::size(types)];
}

std::vector<std::string> Seeds() {
  v1::GenerateRequest request;
  auto* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("K\xc3\xa4se?");
  request.set_temperature(0.5f);
  request.add_stop_token_ids(2);
  request.mutable_speculation()->add_drafters("chat");
  v1::GenerateRequest ids;
  ids.mutable_token_ids()->add_ids(1);
  v1::GenerateResponse response;
  response.set_text("text");
  response.mutable_summary();
  return {'\0' + request.SerializeAsString(), '\0' + ids.SerializeAsString(),
          '\7' + response.SerializeAsString()};
}

bool Try(std::string_view bytes) {
  if (bytes.empty()) return false;
  const google::protobuf::Message& type = TypeOf(bytes[0]);
  bytes.remove_prefix(1);
  const std::unique_ptr<google::protobuf::Message> message(type.New());
  const grpc::Slice slice(bytes.data(), bytes.size());
  const absl::Status status =
      ReadMessage(grpc::ByteBuffer(&slice, 1), *message);
  ESPALIER_CHECK(status.ok() || FieldOf(status).has_value());
  return status.ok();
}

}  // namespace message_bytes_fuzz

FuzzTarget MessageBytesTarget() {
  return {"message_bytes", message_bytes_fuzz::Seeds, message_bytes_fuzz::Try};
}

}  // namespace espalier::testing

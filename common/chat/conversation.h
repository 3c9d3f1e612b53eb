#ifndef ESPALIER_COMMON_CHAT_CONVERSATION_H_
#define ESPALIER_COMMON_CHAT_CONVERSATION_H_

#include <string>
#include <vector>

namespace espalier {

// All texts are UTF-8, and may have been written by a user.
struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool", "developer"
  std::string content;
  // Templates see null: the message only calls tools. REQUIRES: no content.
  bool null_content = false;
  // JSON, OpenAI's list of calls; empty: none. Arguments that are a text are
  // JSON in it.
  std::string tool_calls = {};
  std::string tool_call_id = {};  // of a tool's answer; empty: none
  std::string name = {};          // of a tool or a participant; empty: none
  std::string reasoning_content = {};  // of an assistant; empty: none
};

// How a prompt ends.
enum class ChatEnd {
  kNewMessage,  // with the beginning of the assistant's next message
  kContinue,    // with the content of the last message, the assistant's
  kNothing,     // with the last message
};

struct Conversation {
  std::vector<ChatMessage> messages = {};
  std::string tools = {};          // JSON, a list; empty: none
  std::string template_args = {};  // JSON, an object; empty: none
  ChatEnd end = ChatEnd::kNewMessage;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_CONVERSATION_H_

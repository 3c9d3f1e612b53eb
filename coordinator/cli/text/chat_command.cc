#include <algorithm>
#include <cstdint>
#include <istream>
#include <optional>
#include <ostream>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/flags/endpoint_flags.h"
#include "coordinator/cli/text/generate_flags.h"
#include "coordinator/cli/text/print_statistics.h"
#include "coordinator/cli/text/template_flags.h"
#include "coordinator/cli/word_wrap.h"

namespace espalier::cli {
namespace {

constexpr char kChatUsage[] =
    R"(Usage: espalier chat [--system TEXT] [FLAGS]

Holds a conversation: the model answers each line that you type, with all
earlier lines and answers as context. A line of statistics follows each answer
on standard error.

Ctrl-C stops an answer; the text so far stays in the conversation. At a terminal
the arrow keys edit the line and bring back earlier ones. An answer has at most
4096 tokens, unless --max-tokens says something else.

Commands: /new starts a new conversation, /help lists the commands, /exit (or
Ctrl-D) ends.)";

constexpr char kCommands[] =
    "/new   start a new conversation\n"
    "/help  this list\n"
    "/exit  end, as Ctrl-D does\n"
    "Ctrl-C stops an answer. Anything else is said to the model.";

// Enough for any answer; a model that never ends is stopped by Ctrl-C.
constexpr uint32_t kMaxTokens = 4096;

struct ChatFlags {
  EndpointFlags endpoint;
  GenerateFlags decoding;
  std::optional<std::string> system;
  TemplateFlags chat_template;
  absl::Duration timeout = absl::Minutes(10);

  void AddTo(FlagSet& flags, const Places& places);
};

void ChatFlags::AddTo(FlagSet& flags, const Places& places) {
  flags.Add({"--system", "TEXT", "system message"}, &system);
  chat_template.AddTo(flags);
  decoding.AddDecodingTo(flags);
  endpoint.AddTo(flags, places);
  flags.Add({"--timeout", "SECONDS", "limit of one answer; default 600"},
            &timeout);
}

class Conversation {
 public:
  // `start`: a request without messages.
  Conversation(const ChatFlags& flags, v1::GenerateRequest start,
               InferenceClient& client, Context& context)
      : flags_(flags),
        start_(std::move(start)),
        client_(client),
        context_(context) {
    Forget();
  }

  // Runs to the end of the input. At a terminal the failures have been shown; a
  // script gets the last one.
  absl::Status Run() {
    std::string line;
    while (AskForLine(line) && line != "/exit" && line != "/quit") {
      if (line == "/new") {
        Forget();
      } else if (line == "/help") {
        context_.err << kCommands << std::endl;
      } else if (IsCommand(line)) {
        Complain(absl::StrCat("no command ", line, ": /help lists them"));
      } else if (!line.empty()) {
        Answer(line);
      }
    }
    return context_.read_line ? absl::OkStatus() : last_failure_;
  }

 private:
  // Forgets the conversation except the system message.
  void Forget() {
    request_ = start_;
    if (flags_.system) Add("system", *flags_.system);
  }

  // A slash and a word: a path, or a text that begins with one, is none.
  static bool IsCommand(const std::string& line) {
    return line.size() > 1 && line[0] == '/' &&
           std::all_of(line.begin() + 1, line.end(),
                       [](unsigned char c) { return absl::ascii_islower(c); });
  }

  void Add(const std::string& role, const std::string& content) {
    auto* message = request_.mutable_chat()->add_messages();
    message->set_role(role);
    message->set_content(content);
  }

  std::stop_token NextInterrupt() {
    return context_.next_interrupt ? context_.next_interrupt()
                                   : context_.interrupt;
  }

  // False: end of input. A Ctrl-C after the line ended stops its answer.
  bool AskForLine(std::string& line) {
    const bool typed =
        context_.read_line ? ReadTypedLine(line) : ReadPipedLine(line);
    line = RepairUtf8(std::string(absl::StripAsciiWhitespace(line)));
    return typed;
  }

  bool ReadPipedLine(std::string& line) {
    answer_interrupt_ = NextInterrupt();
    return static_cast<bool>(std::getline(context_.in, line));
  }

  // While a line is edited Ctrl-C sends no signal.
  bool ReadTypedLine(std::string& line) {
    const std::string prompt = context_.out_screen.Paint(kGreen, ">") + " ";
    LineEnd end;
    do {
      answer_interrupt_ = NextInterrupt();
      context_.out << std::flush;
      end = context_.read_line(prompt, line);
      if (end == LineEnd::kInterrupt) context_.out << "\n(Ctrl-D ends)\n";
    } while (end == LineEnd::kInterrupt);
    if (end == LineEnd::kEndOfInput) context_.out << std::endl;
    return end == LineEnd::kEnter;
  }

  void Answer(const std::string& line) {
    Add("user", line);
    WordWrap lines(context_.out, context_.out_screen.columns);
    std::string text;
    auto answer = client_.Generate(
        request_, {.timeout = flags_.timeout, .interrupt = answer_interrupt_},
        [&](const std::string& piece) {
          lines.Write(piece);
          text += piece;
          return context_.out.good();
        });
    lines.Finish();
    const bool stopped = !answer.ok() && answer_interrupt_.stop_requested();
    if (answer.ok() || (stopped && !text.empty())) {
      Add("assistant", text);
    } else {
      request_.mutable_chat()->mutable_messages()->RemoveLast();
    }
    if (answer.ok()) {
      PrintStatistics(*answer, context_);
    } else if (stopped) {
      Complain("stopped");
    } else {
      Complain(answer.status().message());
      last_failure_ = answer.status();
    }
  }

  void Complain(absl::string_view why) {
    const Screen& screen = context_.err_screen;
    context_.err << screen.Paint(kRed, absl::StrCat("(", why, ")"))
                 << std::endl;
  }

  const ChatFlags& flags_;
  const v1::GenerateRequest start_;
  InferenceClient& client_;
  Context& context_;
  v1::GenerateRequest request_;  // holds the conversation
  std::stop_token answer_interrupt_;
  absl::Status last_failure_;
};

absl::Status RunChat(const LocalClusterFactory& local_cluster, Context& context,
                     Args args) {
  ChatFlags flags;
  FlagSet flag_set(kChatUsage);
  flags.AddTo(flag_set, context.places);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();
  if (flags.system && RepairUtf8(*flags.system) != *flags.system) {
    return absl::InvalidArgumentError("--system: the text is not valid UTF-8");
  }
  v1::GenerateRequest start = flags.decoding.request();
  RETURN_IF_ERROR(flags.chat_template.Set(*start.mutable_chat()));

  ASSIGN_OR_RETURN(const Endpoint endpoint,
                   flags.endpoint.Open(context.places, local_cluster));
  // Checks the connection before the user types anything.
  ASSIGN_OR_RETURN(
      const v1::GetModelInfoResponse model,
      endpoint.client->GetModelInfo(
          {.timeout = absl::Seconds(10), .interrupt = context.interrupt}));
  if (!start.has_max_tokens()) {
    start.set_max_tokens(static_cast<uint32_t>(
        std::min<uint64_t>(kMaxTokens, model.max_context())));
  }
  context.err << "Talking with " << Printable(model.model(), /*max_bytes=*/200)
              << ". /help lists the commands, /exit or Ctrl-D ends."
              << std::endl;
  return Conversation(flags, std::move(start), *endpoint.client, context).Run();
}

}  // namespace

Command ChatCommand(LocalClusterFactory local_cluster) {
  return {.name = "chat",
          .summary = "talk with the model, answer by answer",
          .run = [factory = std::move(local_cluster)](
                     Context& context,
                     Args args) { return RunChat(factory, context, args); },
          .interruptible = true};
}

}  // namespace espalier::cli

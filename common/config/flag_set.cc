#include "common/config/flag_set.h"

#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/config/closest_word.h"

namespace espalier {
namespace {

// Splits "--name=value"; without "=" there is no value.
struct SplitFlag {
  std::string name;
  std::optional<std::string> value = {};
};

SplitFlag Split(const std::string& arg) {
  const size_t equals = arg.find('=');
  if (equals == std::string::npos) return {arg};
  return {arg.substr(0, equals), arg.substr(equals + 1)};
}

// "-" alone means standard input.
bool LooksLikeFlag(const std::string& arg) {
  return arg.size() > 1 && arg[0] == '-';
}

}  // namespace

void FlagSet::AddSwitch(FlagSpec spec, bool* target) {
  AddSwitch(std::move(spec), [target] { *target = true; });
}

void FlagSet::AddSwitch(FlagSpec spec, std::function<void()> set) {
  flags_.push_back({std::move(spec),
                    [set = std::move(set)](const std::string&) {
                      set();
                      return absl::OkStatus();
                    },
                    /*is_switch=*/true});
}

void FlagSet::AddPositional(std::vector<std::string>* target, size_t limit) {
  positional_ = target;
  positional_limit_ = limit;
}

absl::StatusOr<bool> FlagSet::Parse(absl::Span<const std::string> args,
                                    std::ostream& help_out) const {
  bool flags_ended = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (flags_ended || !LooksLikeFlag(args[i])) {
      RETURN_IF_ERROR(TakePositional(args[i]));
      continue;
    }
    if (args[i] == "--") {
      flags_ended = true;
      continue;
    }
    auto [name, value] = Split(args[i]);
    if (name == "--help" || name == "-h") {
      PrintHelp(help_out);
      return false;
    }
    const Flag* flag = Find(name);
    if (flag == nullptr) return Unknown(name);
    if (flag->is_switch && value.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " takes no value"));
    }
    if (!flag->is_switch && !value.has_value()) {
      if (++i == args.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, " needs a value: ", flag->spec.value_name));
      }
      value = args[i];
    }
    RETURN_IF_ERROR(WithPrefix(name, flag->set(value.value_or(""))));
  }
  return true;
}

const FlagSet::Flag* FlagSet::Find(const std::string& name) const {
  for (const Flag& flag : flags_) {
    if (flag.spec.name == name) return &flag;
  }
  return nullptr;
}

absl::Status FlagSet::Unknown(const std::string& name) const {
  std::vector<std::string> known;
  for (const Flag& flag : flags_) known.push_back(flag.spec.name);
  known.push_back("--help");
  const std::string hint = DidYouMean(name, known);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag ", name, hint,
      hint.empty() ? "; known: " : " Known: ", absl::StrJoin(known, ", ")));
}

absl::Status FlagSet::TakePositional(const std::string& arg) const {
  if (positional_ == nullptr || positional_->size() == positional_limit_) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected argument \"", arg, "\""));
  }
  positional_->push_back(arg);
  return absl::OkStatus();
}

void FlagSet::PrintHelp(std::ostream& out) const {
  out << usage_ << "\n";
  if (!flags_.empty()) out << "\nFlags:\n";
  for (const Flag& flag : flags_) {
    std::string left = "  " + flag.spec.name;
    if (!flag.is_switch) left += " " + flag.spec.value_name;
    // Help that does not fit beside its flag goes below it.
    constexpr size_t kHelpColumn = 26;
    if (left.size() + 2 > kHelpColumn) {
      out << left << "\n" << std::string(kHelpColumn, ' ');
    } else {
      out << left << std::string(kHelpColumn - left.size(), ' ');
    }
    out << absl::StrReplaceAll(flag.spec.help,
                               {{"\n", "\n" + std::string(kHelpColumn, ' ')}})
        << "\n";
  }
}

}  // namespace espalier

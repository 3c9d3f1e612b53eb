# xgrammar, compiled from the sources that deploy/setup.sh unpacks. (Its own
# project builds a Python module and links with -flto.) It bounds neither time
# nor memory, and takes halves of UTF-16 pairs for characters. Of some files a
# copy is built, whose loops pay for their steps (work_budget.h), and whose
# negative classes leave those out.
set(ESPALIER_XGRAMMAR ${ESPALIER_CACHE_FOLDER}/xgrammar CACHE PATH
    "Folder with xgrammar's cpp/ and include/ (made by deploy/setup.sh)")
if(NOT EXISTS ${ESPALIER_XGRAMMAR}/include/xgrammar/xgrammar.h)
  message(FATAL_ERROR "No xgrammar in ${ESPALIER_XGRAMMAR}. Run "
          "deploy/setup.sh, set -DESPALIER_XGRAMMAR=<folder>, or build "
          "without structured output: cmake --preset minimal")
endif()

set(xgrammar_copy ${CMAKE_BINARY_DIR}/xgrammar/copy)
set(xgrammar_edited ${CMAKE_BINARY_DIR}/xgrammar/edited)

# xgrammar_insert(FILE LINE TEXT): puts TEXT after LINE wherever it is in the
# copy of FILE, where it must be.
function(xgrammar_insert file line text)
  file(READ ${xgrammar_edited}/${file} source)
  string(FIND "${source}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${file} of xgrammar has no \"${line}\"")
  endif()
  string(REPLACE "${line}" "${line}\n${text}" source "${source}")
  file(WRITE ${xgrammar_edited}/${file} "${source}")
endfunction()
# The same, and TEXT is work that is paid for.
function(xgrammar_spend file line units)
  xgrammar_insert(${file} "${line}" "::espalier::grammar::SpendWork(${units});")
endfunction()

set(xgrammar_files earley_parser.h earley_parser.cc fsm.cc grammar_builder.cc
    grammar_compiler.cc grammar_functor.cc grammar_matcher.cc)
file(REMOVE_RECURSE ${xgrammar_edited})
foreach(name IN LISTS xgrammar_files)
  file(READ ${ESPALIER_XGRAMMAR}/cpp/${name} source)
  file(WRITE ${xgrammar_edited}/${name}
       "#include \"common/grammar/work_budget.h\"\n${source}")
endforeach()

# Parsing: states, and looks at states that wait for a rule's end.
xgrammar_spend(earley_parser.h "  void Enqueue(const ParserState& state) {" 1)
xgrammar_spend(earley_parser.h
    "  void EnqueueWithoutProcessing(const ParserState& state) {" 1)
xgrammar_spend(earley_parser.cc
    "const auto& parent_states_map = rule_id_to_completable_states_[state.rule_start_pos];"
    "parent_states_map.size()")
xgrammar_spend(earley_parser.cc
    "const auto in_vec = [&](const ParserState& state_) {"
    "rule_id_to_completable_states_.Back().size()")
xgrammar_spend(earley_parser.cc
    "  const auto& latest_states = scanable_state_history_[scanable_state_history_.size() - 1];"
    "1 + latest_states.size()")
# A mask for each state, made of rows of the vocabulary.
xgrammar_spend(grammar_matcher.cc
    "  for (const auto& [state, adaptive_token_mask_it] : latest_states_with_masks) {"
    "tokenizer_info_.GetVocabSize() / 64")
xgrammar_spend(grammar_compiler.cc
    "  auto add_adaptive_token_mask = [&](const ParserState& state, bool is_root_rule) {"
    "tokenizer_info_.GetVocabSize() / 8")
# Automata.
xgrammar_spend(fsm.cc "  int AddState() {" 1)
xgrammar_spend(fsm.cc
    "  void AddEdge(int from, int to, int32_t min, int32_t max) {" 1)
xgrammar_spend(fsm.cc "    for (const auto& edge : edges_[i]) {" 1)
xgrammar_spend(fsm.cc "  while (!queue.empty()) {" 1)
xgrammar_spend(fsm.cc "  while (changed) {" "result.NumStates()")
xgrammar_spend(fsm.cc "  while (!working_set.empty()) {"
    "now_fsm.NumStates()")
xgrammar_spend(fsm.cc
    "  while (now_process < static_cast<int>(closures.size())) {"
    "closures.size() + closures[now_process].size()")
xgrammar_spend(grammar_builder.cc
    "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {"
    "1 + grammar_expr.data_len")

# Surrogates are no characters.
xgrammar_insert(grammar_functor.cc
    "  std::vector<std::pair<uint32_t, uint32_t>> excluded_ranges;"
    "  excluded_ranges.emplace_back(0xD800, 0xDFFF);")

# Only what has changed, or every configuration would compile them again.
file(MAKE_DIRECTORY ${xgrammar_copy})
foreach(name IN LISTS xgrammar_files)
  file(COPY_FILE ${xgrammar_edited}/${name} ${xgrammar_copy}/${name}
       ONLY_IF_DIFFERENT)
endforeach()

file(GLOB_RECURSE ESPALIER_XGRAMMAR_SOURCES ${ESPALIER_XGRAMMAR}/cpp/*.cc)
list(FILTER ESPALIER_XGRAMMAR_SOURCES EXCLUDE REGEX
     "/(converter_ext/.*|json_schema_converter|lark_converter|regex_converter)\\.cc$")
list(APPEND ESPALIER_XGRAMMAR_SOURCES ${CMAKE_CURRENT_LIST_DIR}/xgrammar_left_out.cc)
set(masks)
set(copies)
foreach(name IN LISTS xgrammar_files)
  list(REMOVE_ITEM ESPALIER_XGRAMMAR_SOURCES ${ESPALIER_XGRAMMAR}/cpp/${name})
  if(name MATCHES "^(earley_parser|grammar_compiler|grammar_matcher)\\.cc$")
    list(APPEND masks ${xgrammar_copy}/${name})
  else()
    list(APPEND copies ${xgrammar_copy}/${name})
  endif()
endforeach()
# What makes masks, and the rest, which reads grammars: each is compiled at once in
# every preset, as apart its files take twice as long.
add_library(xgrammar_masks OBJECT ${masks})
add_library(xgrammar STATIC
    ${copies} ${ESPALIER_XGRAMMAR_SOURCES} $<TARGET_OBJECTS:xgrammar_masks>)
foreach(part IN ITEMS xgrammar_masks xgrammar)
  target_include_directories(${part}
      PRIVATE ${CMAKE_SOURCE_DIR} ${ESPALIER_XGRAMMAR}/cpp)
  target_include_directories(${part} SYSTEM PUBLIC
      ${ESPALIER_XGRAMMAR}/include
      ${ESPALIER_XGRAMMAR}/3rdparty/dlpack/include
      ${ESPALIER_XGRAMMAR}/3rdparty/picojson)
  target_compile_definitions(${part} PRIVATE
      XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
      XGRAMMAR_LOG_CUSTOMIZE=1)
  # All files have the copy's earley_parser.h.
  target_compile_options(${part} PRIVATE
      -w -include ${xgrammar_copy}/earley_parser.h
      -ffile-prefix-map=${ESPALIER_XGRAMMAR}/=
      -ffile-prefix-map=${CMAKE_BINARY_DIR}/= -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
  set_target_properties(${part} PROPERTIES
      CXX_STANDARD 17 UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0
      EXPORT_COMPILE_COMMANDS OFF)
  if(ESPALIER_SANITIZE)
    target_compile_options(${part} PRIVATE
        -fsanitize=${ESPALIER_SANITIZE} -fno-sanitize=undefined
        -fno-omit-frame-pointer)
  endif()
endforeach()
target_link_libraries(xgrammar PRIVATE $<LINK_ONLY:espalier::work_budget>)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(xgrammar PRIVATE -Og)
endif()

# shellcheck shell=bash disable=SC2034,SC2154  # set and read by other scripts
# $cache/bigram/smollm2-135m-instruct: the table of the bigram drafter, counted
# from a text in the repository with the default model's tokenizer.

bigram_table=$cache/bigram/smollm2-135m-instruct
bigram_text=$repo/deploy/data/bigram_text.txt

bigram_version() {
  cksum "$bigram_text" "$model/.stamp"
}

bigram_table_is_ready() {
  [[ -e $bigram_table && $(cat "$bigram_table.stamp" 2>/dev/null) == "$(bigram_version)" ]]
}

make_bigram_table() {
  mkdir -p "$(dirname "$bigram_table")"
  rm -f "$bigram_table.stamp"
  "$bin/espalier" ngram --model "$model" --order 2 --input "$bigram_text" --output "$bigram_table.new"
  mv "$bigram_table.new" "$bigram_table"
  bigram_version >"$bigram_table.stamp"
}

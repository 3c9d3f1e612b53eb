# shellcheck shell=bash disable=SC2034,SC2154  # set and read by other scripts
# The table of the bigram drafter lies in the default model's folder, where
# `espalier serve` looks for it: counted from a text in the repository, which
# the model itself wrote (drafter/training/self_text.py).

bigram_table=$model/bigram.ngram
bigram_text=$repo/deploy/ngram/smollm2-135m-instruct.txt

bigram_version() {
  cksum "$bigram_text" "$model/.stamp"
}

bigram_table_is_ready() {
  [[ -e $bigram_table && $(cat "$bigram_table.stamp" 2>/dev/null) == "$(bigram_version)" ]]
}

make_bigram_table() {
  rm -f "$bigram_table.stamp"
  "$bin/espalier" ngram --model "$model" --order 2 --text "$bigram_text" --out "$bigram_table.new"
  mv "$bigram_table.new" "$bigram_table"
  bigram_version >"$bigram_table.stamp"
}

#!/bin/sh
# mise 2026.9.15 (npm: @jdxcode/mise-linux-x64), a .tool-versions that names a tool on two lines.
# Expected: mise follows one rule, first wins: of several versions on one line the first is the one that runs, the others
#   are installed beside it, as its and asdf's manuals say; so of two lines the first would run and the second be a fallback.
# Seen: of two lines the last replaces the first without a warning:
#   node 20.1.0 18.1.0          -> 20.1.0 18.1.0
#   node 20.1.0 / node 18.1.0   -> 18.1.0
# The same with a [tools] list in mise.toml: it keeps both. A file merged by git with both sides' lines changes its meaning silently.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME="$dir/home" MISE_OFFLINE=1 MISE_TRUSTED_CONFIG_PATHS="$dir" MISE_CEILING_PATHS="$dir"
mkdir home one two
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir" @jdxcode/mise-linux-x64@2026.9.15 >/dev/null
mise=$dir/node_modules/@jdxcode/mise-linux-x64/bin/mise
printf 'node 20.1.0 18.1.0\n' >one/.tool-versions
printf 'node 20.1.0\nnode 18.1.0\n' >two/.tool-versions
one=$(cd one && "$mise" current node 2>/dev/null)
two=$(cd two && "$mise" current node 2>/dev/null)
echo "one line:  $one"
echo "two lines: $two"
[ "$one" = "20.1.0 18.1.0" ] && [ "$two" = "18.1.0" ]

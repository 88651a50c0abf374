#!/bin/sh
# runsc does not share a file's offset with whoever passed it the file as standard output: what is written next overwrites.
# Version: gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237 (runsc, platform systrap), Linux 6.1 or newer, as root.
# Expected, as of any program: a shell's "{ PROGRAM; echo two; } >file" leaves PROGRAM's output and then "two".
# Seen: "runsc do echo first" writes its line at the file's beginning by an offset of its own and leaves the shared one at 0;
# the next writer begins there. The file has "two", a line break, and the rest of the first line. Through a pipe, both lines
# arrive. Whoever keeps the output of such a sandbox in a file opens it with O_APPEND (">>") or puts a pipe between.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
CGO_ENABLED=0 GOBIN=$dir GOFLAGS=-modcacherw go install gvisor.dev/gvisor/runsc@v0.0.0-20260905035102-160fafc42237
run() { "$dir/runsc" -ignore-cgroups -network=none -root "$dir/state" do -cwd / echo first; }

{ run; echo two; } >"$dir/file"
{ run; echo two; } | cat >"$dir/piped"
: >"$dir/appended"
{ run; echo two; } >>"$dir/appended"
for f in file piped appended; do
	printf '%-9s' $f; od -An -c "$dir/$f"
done
[ "$(cat "$dir/file")" = "$(printf 'two\nt')" ]
[ "$(cat "$dir/piped")" = "$(printf 'first\ntwo')" ]
[ "$(cat "$dir/appended")" = "$(printf 'first\ntwo')" ]

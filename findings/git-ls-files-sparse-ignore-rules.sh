#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*): git ls-files --others --ignored in a sparse checkout.
# Where a sparse checkout leaves out a .gitignore, git takes its rules from the index: git status and
# git check-ignore see them.
# Expected: git ls-files -o -i --exclude-standard -- PATH lists PATH if it is an ignored file, as it does
#   in a whole checkout.
# Seen: without a path it lists the file; with its path, nothing: it drops what is not below the common
#   directory of the paths from the index before it looks for rules, and with it the .gitignore. With a
#   second path that lies elsewhere it lists the file again.
# Exits with 0 if it is still so, with 1 if it has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -q git=1:2.39.5-0+deb12u3 >/dev/null
dpkg -x git_*.deb git
rm git_*.deb
git() { GIT_EXEC_PATH="$dir/git/usr/lib/git-core" GIT_CONFIG_NOSYSTEM=1 HOME="$dir" "$dir/git/usr/bin/git" "$@"; }
git --version
git init -q work
cd work
echo out >.gitignore
echo a >a
git add .
git -c user.name=t -c user.email=t@localhost commit -qm one
list() { git ls-files -o -i --exclude-standard -- "$@"; }
mkdir out
echo x >out/x
[ "$(list out/x)" = out/x ]
git sparse-checkout set --no-cone /a
git check-ignore -q out/x
echo "all: $(list); out/x: $(list out/x); out/x or elsewhere: $(list out/x elsewhere)"
[ "$(list)" = out/x ] && [ -z "$(list out/x)" ] && [ "$(list out/x elsewhere)" = out/x ]

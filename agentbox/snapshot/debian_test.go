package snapshot

import (
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
)

// debianSources are source packages whose files are those of real repositories.
var debianSources = []string{"coreutils", "git"}

// changes are done to the files of any repository: every so many of those that are there (of a sparse
// checkout not all) is changed, made executable, staged, removed, renamed or replaced by a link. Line
// ends that git converts do not come back (Checkout).
const changes = `
there() { xargs -0r sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\\0" "$f"; fi; done' sh; }
some() { git ls-files -z | tr '\n\0' '\001\n' | awk -v n="$1" 'NR % 97 == n' | tr '\n\001' '\0\n' | there; }
some 1 | xargs -0r sh -c 'for f; do [ -L "$f" ] || echo more >>"$f"; done' sh
some 2 | xargs -0r sh -c 'for f; do [ -L "$f" ] || chmod 755 "$f"; done' sh
some 3 | xargs -0r sh -c 'for f; do [ -L "$f" ] || echo staged >>"$f"; done; git add -f -- "$@"' sh
some 4 | xargs -0r rm -f --
some 5 | xargs -0r git rm -q -f --
some 6 | xargs -0r sh -c 'for f; do mv -- "$f" "$f.moved"; done' sh
some 7 | xargs -0r sh -c 'for f; do ln -sf nowhere "$f"; done' sh
`

// Snapshots of real repositories restore as those of made-up ones do, whatever was done to their files.
func TestSnapshotRestoresRealRepositories(t *testing.T) {
	if testing.Short() {
		t.Skip("it fetches source packages")
	}
	isolateGit(t)
	names := slices.Sorted(maps.Keys(steps))
	for _, name := range debianSources {
		t.Run(name, func(t *testing.T) {
			from := debianSource(t, name)
			for range 3 {
				var done []string
				for range 3 {
					done = append(done, names[rand.IntN(len(names))])
				}
				t.Log(done)
				restores(t, t, newWorld(t, "mkdir repo; cp -a '"+from+"'/*/. repo; rm -rf repo/.git; find repo -name .gitattributes -exec sed -i '/eol=crlf/d' {} +\n"+scriptOf(done)+changes), done)
			}
		})
	}
}

// debianSource fetches the files of a source package, as their authors released them, from where this
// machine has its packages from.
func debianSource(t *testing.T, name string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("no apt-get here")
	}
	cmd := exec.Command("sh", "-euc", `cd "$1"
mkdir -p parts lists/partial cache/archives/partial tree
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
	[ ! -f "$f" ] || sed -n 's/^deb /deb-src /p' "$f" >>list
done
for f in /etc/apt/sources.list.d/*.sources; do
	[ ! -f "$f" ] || sed 's/^Types:.*/Types: deb-src/' "$f" >"parts/${f##*/}"
done
apt() { apt-get -qq -o Dir::Etc::SourceList="$PWD/list" -o Dir::Etc::SourceParts="$PWD/parts" -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User=root "$@"; }
: >>list
apt update
apt source --download-only "$2"
for f in "$2"_*.orig.tar.*; do
	case $f in *.asc) ;; *) tar -xf "$f" -C tree --no-same-owner ;; esac
done`, "sh", t.TempDir(), name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return cmd.Args[4] + "/tree"
}

package cli

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// A branch is merged when the default one has its commits, or what they did: in one, or each by itself.
func TestMerged(t *testing.T) {
	dir := t.TempDir()
	git := exec.Command("sh", "-ec", `
		export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
		git init -q -b main .; git config commit.gpgSign true; git config gpg.program false
		c() { git -c commit.gpgSign=false commit -q "$@"; }
		seq 100 >f; git add f; c -m 0
		for b in merged squashed rebased open half none; do git switch -qc $b main; [ $b = none ] && continue; echo $b >$b.1; git add .; c -m 1; echo $b >$b.2; git add .; c -m 2; done
		git switch -q main; echo other >other; git add .; c -m other
		git -c commit.gpgSign=false merge -q --no-edit merged
		git merge -q --squash squashed >/dev/null; c -m squashed
		for n in 1 2; do git show rebased:rebased.$n >rebased.$n; git add .; c -m "rebased $n"; done
		git show half:half.1 >half.1; git add .; c -m half
		sed -i s/^50$/x/ f; c -am later
		git switch -qc same open; c --allow-empty -m nothing; git switch -q main
		git rev-parse main merged squashed rebased open half same`)
	git.Dir = dir
	out, err := git.Output()
	ids := strings.Fields(string(out))
	if err != nil || len(ids) != 7 {
		t.Fatalf("%s%v", out, err)
	}
	w := watcher{app: &app{}, root: dir}
	for i, want := range []bool{true, true, true, true, false, false, false} {
		if got := w.isMerged(t.Context(), ids[i], ids[0]); got != want {
			t.Errorf("branch %d: merged %v, want %v", i, got, want)
		}
	}
	count := func() string {
		b, err := exec.Command("git", "-C", dir, "count-objects").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := count()
	w.isMerged(t.Context(), ids[4], ids[0])
	if after := count(); after != before {
		t.Errorf("asking again leaves something: %s, then %s", before, after)
	}
}

func TestHook(t *testing.T) {
	calls := make(chan struct{}, 1)
	ask := func(method string) int {
		out := httptest.NewRecorder()
		hook(calls)(out, httptest.NewRequest(method, "/", strings.NewReader("anything")))
		return out.Code
	}
	if code := ask(http.MethodGet); code != http.StatusMethodNotAllowed || len(calls) != 0 {
		t.Errorf("GET: %d", code)
	}
	for range 3 {
		if code := ask(http.MethodPost); code != http.StatusAccepted || len(calls) != 1 {
			t.Errorf("POST: %d, %d calls", code, len(calls))
		}
	}
	for _, bad := range []string{"0.0.0.0:0", ":0", "127.0.0.1", "8.8.8.8:80", "[::]:0", "unix:/x"} {
		if _, _, err := (watcher{app: &app{}}).listen(t.Context(), bad); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

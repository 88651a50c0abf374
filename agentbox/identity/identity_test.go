package identity

import (
	"crypto/ed25519"
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

func key(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, k, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func digest(n byte) agentbox.Digest { return agentbox.Digest{n} }

func example() Document {
	return Document{
		Project: "example.com/app", Branch: "main", Commit: strings.Repeat("a", 40), Image: digest(1), Setup: &Setup{digest(2), digest(3)},
		Lockfiles: map[string]string{"go.sum": digest(4).String()}, Arch: "amd64", Isolation: agentbox.GVisor, Policy: "p", Environment: []string{"CI"},
		Secrets: []string{"KEY"}, Snapshot: digest(5), Created: time.Unix(1e9, 0),
	}
}

func TestSignedDocument(t *testing.T) {
	k := key(t)
	signed, b, err := example().Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(b)
	if err != nil || !reflect.DeepEqual(got, signed) || got.ID() != signed.ID() {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := got.Verify(k.Public().(ed25519.PublicKey)); err != nil {
		t.Error(err)
	}
	if err := got.Verify(key(t).Public().(ed25519.PublicKey)); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("another's key: %v", err)
	}
	if err := got.Verify(nil); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("no key: %v", err)
	}
}

// Whoever changes anything in a document, or signs another's with an own key, is found out.
func TestForgedDocument(t *testing.T) {
	k, other := key(t), key(t)
	owner := k.Public().(ed25519.PublicKey)
	signed, _, err := example().Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Document){
		"image": func(d *Document) { d.Image = digest(9) }, "snapshot": func(d *Document) { d.Snapshot = digest(9) },
		"setup": func(d *Document) { d.Setup = nil }, "project": func(d *Document) { d.Project = "example.com/other" },
		"peer": func(d *Document) { d.Peer = peerOf(other.Public().(ed25519.PublicKey)) }, "signature": func(d *Document) { d.Signature = nil },
		"by another": func(d *Document) {
			forged, _, _ := d.Sign(other)
			*d = forged
			d.Peer = signed.Peer
		},
	} {
		d := signed
		change(&d)
		if err := d.Verify(owner); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// JSON has no bytes that are not UTF-8: it replaces them, and a signature over what it made of them would
// not be one over what a reader makes of that.
func TestSignedNamesCanBeRead(t *testing.T) {
	k, d := key(t), example()
	d.Lockfiles = map[string]string{"good": "sha256:1", "bad\xff": "sha256:2", "bad\n": "sha256:3"}
	signed, b, err := d.Sign(k)
	if err != nil || len(signed.Lockfiles) != 1 || len(d.Lockfiles) != 3 {
		t.Fatalf("%v, %v", signed.Lockfiles, err)
	}
	got, err := Parse(b)
	if err == nil {
		err = got.Verify(k.Public().(ed25519.PublicKey))
	}
	if err != nil {
		t.Error(err)
	}
	d.Project = "\x1b"
	if _, _, err := d.Sign(k); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("what nobody can read was signed: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, change := range map[string]func(*Document){
		"version": func(d *Document) { d.Version = 2 }, "no project": func(d *Document) { d.Project = "" }, "escape": func(d *Document) { d.Task = "\x1b[2J" },
		"branch": func(d *Document) { d.Branch = "--upload-pack=x" }, "commit": func(d *Document) { d.Commit = "HEAD" }, "long": func(d *Document) { d.Agent = strings.Repeat("a", maxText+1) },
		"lockfile": func(d *Document) { d.Lockfiles = map[string]string{"a\nb": ""} },
	} {
		d := example()
		d.Version = version
		change(&d)
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(b); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDiff(t *testing.T) {
	a := Side{Document: example(), Packages: []string{"go=1.25", "only=1", "same=2"}}
	if got := Diff(a, a); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	b := Side{Document: example(), Packages: []string{"go=1.26", "same=2"}}
	b.Lockfiles = map[string]string{"go.sum": digest(7).String()}
	b.Image, b.Environment, b.Isolation = digest(8), nil, agentbox.MicroVM
	var got []string
	for _, d := range Diff(a, b) {
		got = append(got, d.What+" "+d.Name)
	}
	if want := "lockfile go.sum, package go, package only, variable CI, isolation "; strings.Join(got, ", ") != want {
		t.Errorf("got %q", got)
	}
}

func TestReport(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh here")
	}
	dir := t.TempDir()
	run := func(env string) Report {
		t.Helper()
		cmd := exec.Command("sh", "-c", "echo "+env+" >'an odd '\\''name'; sh -s")
		cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(Script([]string{"an odd 'name", "absent; touch x"})), append(cmd.Environ(), "PATH=/usr/bin:/bin", "GOFLAGS="+env)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		r, err := ParseReport(strings.NewReader(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := run("one"), run("two")
	if len(a["architecture"]) != 1 || len(a.Lockfiles()) != 1 {
		t.Fatalf("%v", a)
	}
	if got := a.Diff(b); len(got) != 1 || got[0].What != "lockfile" || got[0].Name != "an odd 'name" {
		t.Errorf("%+v", got)
	}
	if out, err := exec.Command("ls", dir).Output(); err != nil || strings.Contains(string(out), "x\n") {
		t.Errorf("%s %v", out, err)
	}
}

func TestReportOrder(t *testing.T) {
	a := Report{"tool": {"go": "1.25", "node": "20"}, "package": {"x": "1", "y": "1"}, "lockfile": {"l": "1"}}
	b := Report{"tool": {"go": "1.26"}, "package": {"x": "2"}, "kernel": {"Linux": "6"}}
	var got []string
	for _, d := range a.Diff(b) {
		got = append(got, d.What+" "+d.Name)
	}
	if strings.Join(got, ", ") != "lockfile l, tool go, package x, kernel Linux" {
		t.Errorf("%q", got)
	}
}

func FuzzIdentity(f *testing.F) {
	_, b, err := example().Sign(key(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"project":"x","created":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if d2, err := Parse(again); len(again) <= MaxBytes && (err != nil || d2.ID() != d.ID()) {
			t.Errorf("%v", err)
		}
	})
}

func FuzzReport(f *testing.F) {
	f.Add("agentbox report 1\ntool\tgo\t1.26\nlockfile\ta b\tsha256:0\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReport(strings.NewReader(text))
		if err != nil {
			return
		}
		if d := r.Diff(r); len(d) != 0 {
			t.Errorf("%v", d)
		}
		for _, name := range r.Lockfiles() {
			if strings.ContainsAny(name, "\n\x00") {
				t.Errorf("%q", name)
			}
		}
	})
}

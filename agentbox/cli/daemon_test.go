package cli

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/reach"
)

// fakeDaemon serves a home with the endpoints that register adds, as a daemon of this build. The
// environment names the home for the rest of the test.
func fakeDaemon(t *testing.T, register func(*http.ServeMux)) home.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "ab") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(home.EnvDir, dir)
	h, err := home.Find()
	if err == nil {
		err = h.Create()
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", h.Socket())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	serve(mux, api.Status, api.DaemonStatus{Version: buildID(), PID: os.Getpid()})
	register(mux)
	server := &http.Server{Handler: mux}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return h
}

// here is the daemon of the home that the environment names.
func here(t *testing.T) reach.Here {
	t.Helper()
	d, err := reach.Find(buildID())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// serve answers an endpoint with the same value each time.
func serve[Req, Resp any](mux *http.ServeMux, e api.Endpoint[Req, Resp], resp Resp) {
	api.Handle(mux, e, func(context.Context, Req, agentbox.Progress) (Resp, error) { return resp, nil })
}

// runProgram runs the program in the home that the environment names.
func runProgram(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, readOut := pipe(t)
	errs, readErr := pipe(t)
	code = Main(append([]string{"agentbox"}, args...), stdin, out, errs)
	return code, readOut(), readErr()
}

// Only a missing or dead daemon may be reported as such.
func TestStatusDistinguishesErrors(t *testing.T) {
	t.Setenv(home.EnvDir, t.TempDir())
	h, err := home.Find()
	if err == nil {
		err = h.Create()
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runProgram(t, "daemon", "status"); code != exitFailed || !strings.Contains(stderr, "no daemon runs") {
		t.Errorf("no socket: exit %d, %q", code, stderr)
	}
	if code, _, stderr := runProgram(t, "daemon", "stop"); code != exitOK {
		t.Errorf("no socket: exit %d, %q", code, stderr)
	}
	// Even root cannot connect to a loop of links.
	if err := os.Symlink(h.Socket(), h.Socket()); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"status", "stop"} {
		if code, _, stderr := runProgram(t, "daemon", verb); code != exitFailed || strings.Contains(stderr, "no daemon runs") {
			t.Errorf("daemon %s: exit %d, %q", verb, code, stderr)
		}
	}
}

func TestArtifactIsNotOverwritten(t *testing.T) {
	r := api.ArtifactReport{Files: []api.Artifact{{Name: "a", SHA256: "1"}, {Name: "b/c", SHA256: "2"}, {Name: "extra"}}}
	for names, want := range map[string]int{"": 2, "a": 1, "a a ./a": 1, "b/c a": 2, "a none none": -1, "extra": -1} {
		got, err := chooseArtifacts(r, strings.Fields(names))
		if len(got) != max(want, 0) || (err != nil) != (want < 0) {
			t.Errorf("%q: %v, %v", names, got, err)
		}
	}
}

// A script that asks for JSON relies on the same exit code as one that does not.
func TestJSONExitCode(t *testing.T) {
	fakeDaemon(t, func(mux *http.ServeMux) {
		serve(mux, api.Doctor, api.DoctorReport{Checks: []api.Check{{Name: "disk", Detail: "full"}}})
		serve(mux, api.CheckPolicy, api.CheckReport{URL: "https://no.example/"})
		serve(mux, api.VerifyCache, api.CacheVerifyReport{Damaged: []api.CacheDamage{{File: "pack"}}})
		serve(mux, api.ListArtifacts, api.ArtifactReport{Files: []api.Artifact{{Name: "a", State: "changed"}}})
		serve(mux, api.Diff, api.WorkDiff{Text: []byte("half a patch\n"), Truncated: true})
	})
	for verb, want := range map[string]int{
		"doctor":                          1,
		"policy check https://no.example": 1,
		"cache verify":                    1,
		"artifact verify t-1":             exitFailed,
		"diff":                            exitFailed,
	} {
		for _, format := range []string{"", "--json", "--quiet"} {
			if verb == "diff" && format == "--quiet" {
				continue // it prints the commit, which has all of it
			}
			code, stdout, stderr := runProgram(t, strings.Fields(format+" "+verb)...)
			if code != want {
				t.Errorf("%s %s: exit %d, stdout %q, stderr %q", format, verb, code, stdout, stderr)
			}
		}
	}
}

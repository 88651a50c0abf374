package reach

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

func TestWhatIsAMachine(t *testing.T) {
	for target, ok := range map[string]bool{
		"ssh://gpu": true, "ssh://me@gpu": true, "ssh://me@gpu:2222": true, "ssh://me@[::1]:22/": true,
		"gpu": false, "ssh://": false, "ssh://-oProxyCommand=x": false, "ssh://me:secret@gpu": false, "ssh://gpu/path": false, "http://gpu": false, "lima://default": true, "lima://": false, "lima://../x": false, "lima://-F": false, "lima://a/b": false, "-p22": false,
	} {
		if err := checkHost("gpu", target); (err == nil) != ok {
			t.Errorf("%s: %v", target, err)
		}
	}
	for name, ok := range map[string]bool{"gpu-1": true, "": false, "..": false, "a/b": false, "A": false, strings.Repeat("x", 33): false} {
		if err := checkHost(name, "ssh://gpu"); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A machine by Lima is that of this home, else the user's.
func TestMachineByLima(t *testing.T) {
	user := t.TempDir()
	t.Setenv("LIMA_HOME", user)
	t.Setenv("HOME", t.TempDir())
	here := Here{home: home.Home{Dir: t.TempDir()}}
	if _, err := here.limaConfig("vm"); agentbox.CodeOf(err) != agentbox.NotFound || agentbox.AsError(err).Hint == "" {
		t.Errorf("none: %v", err)
	}
	for _, dir := range []string{user, here.home.Lima()} {
		want := filepath.Join(dir, "vm", "ssh.config")
		err := os.MkdirAll(filepath.Dir(want), 0o700)
		if err == nil {
			err = os.WriteFile(want, nil, 0o600)
		}
		if got, findErr := here.limaConfig("vm"); err != nil || findErr != nil || got != want {
			t.Errorf("%q, %v, %v, want %q", got, findErr, err, want)
		}
	}
	host := Host{Name: "vm", Target: "lima://vm"}
	if args := strings.Join(here.linkTo(host).ssh(t.Context(), host, host.machine(), "true").Args, " "); !strings.Contains(args, " -F "+here.home.Lima()+"/vm/ssh.config ") || !strings.HasSuffix(args, " lima-vm true") {
		t.Error(args)
	}
}

func TestOnlyOwnKind(t *testing.T) {
	own := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if err := sameKind(Host{}, "Linux "+own); err != nil && runtime.GOOS == "linux" {
		t.Error(err)
	}
	for _, uname := range []string{"", "Linux", "Linux riscv64", "FreeBSD " + own, "SunOS i86pc"} {
		if err := sameKind(Host{}, uname); agentbox.CodeOf(err) != agentbox.Missing {
			t.Errorf("%q: %v", uname, err)
		}
	}
}

func TestFailuresOfSSH(t *testing.T) {
	status := func(code string) error { return exec.Command("sh", "-c", "exit "+code).Run() }
	host := Host{Name: "gpu", Target: "ssh://gpu"}
	for said, want := range map[string]string{
		"ssh: connect to host gpu port 22: No route to host\r\n":                            "cannot be reached: ssh: connect to host gpu port 22: No route to host",
		"me@gpu: Permission denied (publickey).\r\n":                                        "does not let you in",
		"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.": "has changed",
		"Host key verification failed.\r\n":                                                 "is not known here",
		"":                                                                                  "it said nothing",
	} {
		if err := failure(t.Context(), host, said, status("255")); !strings.Contains(err.Error(), want) || agentbox.AsError(err).Hint == "" {
			t.Errorf("%q: %v", said, err)
		}
	}
	err := failure(t.Context(), host, "cat: write error: No space left on device\n", status("1"))
	if agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Error(err)
	}
	err = failure(t.Context(), host, "agentbox: no home directory\nhint: set HOME\n", status("125"))
	if !strings.Contains(err.Error(), "on gpu: no home directory") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := failure(ctx, host, "", status("255")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Words reach the shell there as they are.
func TestWordsAreQuoted(t *testing.T) {
	want := []string{"a b", "it's", "$HOME", "`id`", "\\n", ""}
	out, err := exec.Command("sh", "-c", "printf '%s|' "+quote(want...)).Output()
	if err != nil || string(out) != strings.Join([]string{"a b", "it's", "$HOME", "`id`", "\\n", ""}, "|")+"|" {
		t.Errorf("%q, %v", out, err)
	}
}

// What a machine says is printed.
func FuzzLastLine(f *testing.F) {
	f.Add("one\ntwo\r\nhint: three\n")
	f.Add("\x1b]0;title\a\n")
	f.Fuzz(func(t *testing.T, text string) {
		line := lastLine(text)
		if strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }) >= 0 || len(line) > 100 {
			t.Errorf("%q", line)
		}
	})
}

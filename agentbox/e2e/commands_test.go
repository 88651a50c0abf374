package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place/local/control"
)

// commands are the commands of scripts in addition to testscript's own:
//
//	repo DIR             make a checkout with one commit and the usual agentbox.yaml
//	code N CMD...        run CMD, which must exit with N
//	waitfor SECS CMD...  run CMD until it succeeds, which takes at most SECS on an idle machine; it
//	                     fails only if it takes many times that
//	capture NAME         put the last standard output into a variable
//	json PATH REGEXP     a value of the last standard output, such as .ports.0.host, matches
//	jsonvar NAME PATH    put such a value into a variable
//	gone PID...          the processes end within seconds
//	expire BOX [TERM]    give a box, by its id, a lease of this term, so that it ends now or soon
//	ownhome              stop sharing images, kernels and templates with other scripts
//	image PACKAGE...     have the image with these packages, which is made once for all scripts
//	pty FILE CMD...      run CMD on a terminal and hold the dialogue in FILE with it
//	asuser CMD...        run CMD as an ordinary user, who is made for it
//	webserver VALUE      start a site with TLS at $WEB, which requires VALUE
//	registry NAME=ARCHIVE... start a registry at $REGISTRY that has these images
//	goprogram NAME FILE  build a program of tools/e2e
//	otherbuild REVISION|later FILE  build agentbox as it was, or as it may become
//	example DOC TITLE FILE  the first example below that heading, in the language of FILE's extension
//
// The first comments of a script say for which kinds and when it runs: see header.
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"repo": cmdRepo, "code": cmdCode, "waitfor": cmdWaitFor, "capture": cmdCapture, "json": cmdJSON, "jsonvar": cmdJSONVar,
	"gone": cmdGone, "expire": cmdExpire, "ownhome": cmdOwnHome, "pty": cmdPTY, "asuser": cmdAsUser,
	"webserver": cmdWebServer, "registry": cmdRegistry, "goprogram": cmdGoProgram, "otherbuild": cmdOtherBuild, "modelserver": cmdModelServer, "agentprofile": cmdAgentProfile, "example": cmdExample, "image": cmdImage,
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func cmdRepo(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "repo DIR")
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(os.WriteFile(filepath.Join(dir, "README"), []byte("hello\n"), 0o644))
	ts.Check(os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte(boxConfig), 0o644))
	for _, argv := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "first"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", dir}, argv...)...))
	}
}

func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "code N CMD...")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// A command that scripts wait for may take busy times as long as on an idle machine, and patience at
// least: what hangs costs that, and what works nothing.
const (
	busy     = 10
	patience = 5 * time.Minute
)

func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "waitfor SECONDS CMD...")
	seconds, err := strconv.Atoi(args[0])
	ts.Check(err)
	within := max(time.Duration(seconds)*busy*time.Second, patience)
	deadline := time.Now().Add(within)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 400*time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil {
			return
		}
		if errors.Is(err, context.DeadlineExceeded) {
			ts.Fatalf("the time limit of the script ended while it waited for: %s", strings.Join(args[1:], " "))
		}
		if time.Now().After(deadline) {
			ts.Fatalf("still failing after %s: %v", within, err)
		}
		time.Sleep(pause)
	}
}

func cmdCapture(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "capture NAME")
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2, "[!] json PATH REGEXP")
	value := lookUp(ts, args[0])
	if regexp.MustCompile(args[1]).MatchString(value) == neg {
		ts.Fatalf("%s is %q", args[0], value)
	}
}

func cmdJSONVar(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "jsonvar NAME PATH")
	ts.Setenv(args[0], lookUp(ts, args[1]))
}

// lookUp finds a value in the JSON of the last standard output, "" if it is absent.
func lookUp(ts *testscript.TestScript, path string) string {
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &v); err != nil {
		ts.Fatalf("standard output is not JSON: %v", err)
	}
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			ts.Check(err)
			v = nil
			if i < len(at) {
				v = at[i]
			}
		default:
			v = nil
		}
	}
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any, map[string]any:
		b, err := json.Marshal(v)
		ts.Check(err)
		return string(b)
	}
	return fmt.Sprint(v)
}

func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) > 0, "[!] gone PID...")
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		ts.Check(err)
		if ended(pid, endWait) == neg {
			ts.Fatalf("process %d: gone is %v", pid, !neg)
		}
	}
}

func cmdExpire(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && (len(args) == 1 || len(args) == 2), "expire BOX [TERM]")
	id, err := agentbox.ParseBoxID(args[0])
	ts.Check(err)
	term := time.Nanosecond
	if len(args) == 2 {
		term, err = time.ParseDuration(args[1])
		ts.Check(err)
	}
	supervisor := api.NewClient(home.Home{Dir: ts.Getenv("AGENTBOX_HOME")}.Box(id).Control())
	defer supervisor.Close()
	_, err = api.Call(context.Background(), supervisor, control.Lease, control.LeaseRequest{Term: term}, nil)
	ts.Check(err)
}

func cmdOwnHome(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "ownhome")
	ts.Check(shared.own(ts.Getenv("AGENTBOX_HOME")))
}

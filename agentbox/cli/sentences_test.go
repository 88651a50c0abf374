package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Every cause of an end must have its own words, with its details.
func TestEveryEndHasText(t *testing.T) {
	for want, end := range map[string]agentbox.End{
		"it reached its limit: wall 10s":                                  {Cause: agentbox.EndLimit, Limit: agentbox.Limit{Kind: agentbox.LimitWall, Time: 10 * time.Second}},
		"it reached its limit: disk 256 MiB, which its workspace exceeds": {Cause: agentbox.EndLimit, Limit: agentbox.Limit{Kind: agentbox.LimitDisk, Count: 256 << 20}},
		"its lease ended": {Cause: agentbox.EndLease},
		"its lease ended: nobody had worked in it for 12h0m0s":                 {Cause: agentbox.EndLease, Term: 12 * time.Hour},
		"its lease ended, and it could not be paused: no space left on device": {Cause: agentbox.EndLease, Detail: "no space left on device"},
		"its machine shut down":                     {Cause: agentbox.EndExit},
		"its machine died: signal: killed":          {Cause: agentbox.EndDied, Detail: "signal: killed"},
		"its supervisor was killed":                 {Cause: agentbox.EndKilled},
		"its machine was lost while it was resumed": {Cause: agentbox.EndResumed},
		"there is no QEMU":                          {Cause: agentbox.EndFailed, Detail: "there is no QEMU"},
		"paused":                                    {Cause: agentbox.EndPaused},
	} {
		if got := endText(end); got != want {
			t.Errorf("%+v is %q", end, got)
		}
	}
}

// The API carries facts, and people read words, both in notes and in errors.
func TestUnknownFactsHaveText(t *testing.T) {
	killed := agentbox.End{Cause: agentbox.EndKilled}
	var p agentbox.Progress
	var said []string
	p = func(e agentbox.Event) {
		b, err := json.Marshal(e)
		if err != nil || strings.Contains(string(b), "supervisor was") {
			t.Errorf("%s, %v", b, err)
		}
		var got agentbox.Event
		if err := json.Unmarshal(b, &got); err != nil {
			t.Error(err)
		}
		said = append(said, noteText(got))
	}
	p.NoteEnd("app", killed)
	p.NoteProblem("app", agentbox.Problem{Kind: agentbox.ProblemNoNetworkCard})
	p.NoteProblem("", agentbox.Problem{Kind: agentbox.ProblemStart, Detail: "start of box app failed"})
	p.Note("a line")
	want := []string{
		"box app: its supervisor was killed; the workspace is intact",
		"box app: this machine cannot give it a network card, so it has no network; agentbox logs --supervisor says why",
		"start of box app failed; agentbox reset tries again",
		"a line",
	}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("said %q", said)
	}

	gone := agentbox.Errorf(agentbox.Unavailable, "box app ended").WithHint("run it again")
	gone.End = &killed
	b, err := json.Marshal(gone)
	var got agentbox.Error
	if err != nil || json.Unmarshal(b, &got) != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	a := &app{stdout: &bytes.Buffer{}, stderr: stderr}
	if code := a.finish(fmt.Errorf("cannot save it: %w", error(&got))); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	text, err := os.ReadFile(stderr.Name())
	if err != nil || string(text) != "agentbox: cannot save it: box app ended: its supervisor was killed\nhint: run it again\n" {
		t.Errorf("%q, %v", text, err)
	}
	if got := errorText(errors.New("plain")); got != "plain" {
		t.Errorf("%q", got)
	}
}

// Every constant of a fact type must have words that differ from its name. The constants are read
// from the source, so a new one without words fails here.
func TestWordsForEveryFact(t *testing.T) {
	words := map[string]func(string) string{
		"Cause": func(name string) string {
			return endText(agentbox.End{Cause: agentbox.Cause(name), Detail: "a reason"})
		},
		"ProblemKind": func(name string) string {
			return problemText(agentbox.Problem{Kind: agentbox.ProblemKind(name), Detail: "a reason"})
		},
		"LimitKind": func(name string) string {
			limit := agentbox.Limit{Kind: agentbox.LimitKind(name), Time: time.Second, Count: 1 << 20, Cost: 1, Currency: "EUR"}
			if _, err := agentbox.ParseLimit(limit.String()); err != nil {
				return ""
			}
			return limitText(limit)
		},
		"Pressure": func(name string) string { return pressureText(agentbox.Pressure{What: name, Detail: "a reason"}) },
		"UpAction": func(name string) string { return stepTexts[api.UpAction(name)] },
	}
	unspoken := map[string]string{
		string(agentbox.EndPaused): "the user asked for it, so no note is made", string(agentbox.EndStopped): "the same",
	}
	found := map[string]int{}
	for _, file := range []string{"../end.go", "../consumption.go", "../api/boxes.go"} {
		for kind, names := range factsIn(t, file) {
			text := words[kind]
			for _, name := range names {
				if text == nil {
					t.Errorf("%s: type %s has no words here", file, kind)
					break
				}
				found[kind]++
				got := text(name)
				if unspoken[name] == "" && (got == "" || got == name || got == name+" a reason" || strings.ContainsAny(got, "\n")) {
					t.Errorf("%s: %s %q is told as %q", file, kind, name, got)
				}
			}
		}
	}
	for kind := range words {
		if found[kind] < 4 {
			t.Errorf("%d constants of %s were found", found[kind], kind)
		}
	}
}

// factsIn returns the string constants of a file by type, or untyped ones by the prefix Pressure.
func factsIn(t *testing.T, file string) map[string][]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		value, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || value.Kind != token.STRING {
			return true
		}
		kind := ""
		if of, ok := spec.Type.(*ast.Ident); ok {
			kind = of.Name
		} else if strings.HasPrefix(spec.Names[0].Name, "Pressure") {
			kind = "Pressure"
		}
		name, err := strconv.Unquote(value.Value)
		if err != nil {
			t.Fatal(err)
		}
		if kind != "" {
			all[kind] = append(all[kind], name)
		}
		return true
	})
	return all
}

package kube

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/job"
)

// said is a result as the registry has it.
type said []byte

func (s said) Read(v any) error { return json.Unmarshal(s, v) }

// FuzzResult gives any bytes as the result of a pod.
func FuzzResult(f *testing.F) {
	for _, r := range []agentbox.Result{
		{State: agentbox.TaskLost}, {State: agentbox.TaskRunning}, {State: agentbox.TaskFailed, Reason: "\x1b[31m", Box: "b", Commits: -1, Notes: []string{"a\nb"}},
		{State: agentbox.TaskSucceeded, Denied: []agentbox.Denial{{Host: "a.example"}}},
	} {
		text, _ := json.Marshal(r)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := readResult(said(text), agentbox.Result{State: agentbox.TaskLost, Reason: "its node is gone"}, "k8s:c", agentbox.Consumption{})
		if err != nil {
			return
		}
		if !r.State.Done() || r.Box != "" || r.Cost != nil || len(r.Changes) > 0 || r.Commits < 0 || r.Files < 0 || len(r.Denied) > 100 || len(r.Notes) > 22 {
			t.Errorf("%+v", r)
		}
		for _, text := range append([]string{r.Reason}, r.Notes...) {
			if text != agentbox.Printable(text) {
				t.Errorf("%q would be printed", text)
			}
		}
	})
}

// FuzzLog gives any bytes as the log of a pod: what comes of it is a transcript.
func FuzzLog(f *testing.F) {
	f.Add([]byte("2026-11-28T01:02:03.000000004Z hello\n2026-11-28T01:02:03.5Z a line that the runtime split\nthe rest\n"))
	f.Add([]byte("\n0001-01-01T00:00:00Z \x00\xff\n" + strings.Repeat("a", maxLine+1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 1 << 10
		var cast, plain bytes.Buffer
		_ = writeLog(bytes.NewReader(text), job.NewCastWriter(&cast, []string{"make"}, limit))
		if err := job.WriteCastText(&plain, bytes.NewReader(cast.Bytes())); err != nil {
			t.Errorf("the transcript cannot be read: %v", err)
		}
		for i, line := range bytes.Split(bytes.TrimSuffix(cast.Bytes(), []byte("\n")), []byte("\n")) {
			if !json.Valid(line) {
				t.Errorf("line %d: %q", i, line)
			}
		}
	})
}

// FuzzSettings gives any bytes as k8s.yaml: what is read makes a Job, or an error.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(templated))
	f.Add([]byte("registry: r.example/a\ntemplate: {spec: {containers: [{name: task}, {name: task}], restartPolicy: Always}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parse(text)
		if err != nil {
			return
		}
		a := asked{Image: "r.example/a@sha256:" + strings.Repeat("a", 64)}
		j, err := s.job(a)
		if err != nil {
			return
		}
		if pod := j.Spec.Template.Spec; pod.AutomountServiceAccountToken == nil {
			t.Errorf("the task gets a token of the cluster unasked: %+v", pod)
		}
	})
}

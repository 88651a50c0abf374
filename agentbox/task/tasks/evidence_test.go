package tasks

import (
	"fmt"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/job/jobs"
	"agentbox/policy"
)

// What a box tried is one line for each place, and bounded however much it tries; limits are
// pressure.
func TestEvidenceHasDeniedFlows(t *testing.T) {
	h := home.Home{Dir: t.TempDir()}
	box := agentbox.Box{ID: agentbox.NewBoxID()}
	log, err := policy.OpenLog(h.Audit(box.ID), box.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	add := func(e policy.Entry) {
		t.Helper()
		if err := log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	add(policy.Entry{Kind: policy.KindStart, Reason: "gvisor"})
	add(policy.Entry{Kind: policy.KindLimit, Reason: "wall 3s"})
	add(policy.Entry{Proto: policy.HTTP, Method: "GET", Name: "yes.example", Port: 80, Path: "/", Allow: true})
	add(policy.Entry{Proto: policy.HTTP, Method: "GET", Name: "no.example", Port: 80, Path: "/a", Reason: "no rule", Hint: "agentbox policy allow no.example"})
	add(policy.Entry{Proto: policy.HTTP, Method: "GET", Name: "no.example", Port: 80, Path: "/b", Count: 4})
	for i := range 3 * maxDenied {
		add(policy.Entry{Proto: policy.TCP, Name: fmt.Sprintf("n%d.example", i), Port: 443})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Evidence{Jobs: jobs.Jobs{Home: h}}.read(box)
	if err != nil || len(got.Pressure) != 1 || got.Pressure[0].Detail != "wall 3s" || got.Pressure[0].What != agentbox.PressureLimit || got.Cost != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if d := got.Denied[0]; d.What != "GET no.example:80/a" || d.Count != 5 || d.Reason != "no rule" || d.Last.Before(d.First) || !strings.Contains(d.Hint, "policy allow") {
		t.Errorf("%+v", d)
	}
	sum := 0
	for _, d := range got.Denied {
		sum += d.Count
	}
	if len(got.Denied) != maxDenied || sum != 5+3*maxDenied || got.Denied[maxDenied-1].What != "others" {
		t.Errorf("%d lines for %d refusals, the last %+v", len(got.Denied), sum, got.Denied[len(got.Denied)-1])
	}
}

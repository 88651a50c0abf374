package cli

import (
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// The plan describes each step in words, and how it is done where that matters.
func TestExplainedPlan(t *testing.T) {
	e := explained{Source: "agentbox.yaml", Image: "apt:bookworm", Plan: api.UpPlan{
		Isolation: agentbox.GVisor, Reason: "asked for by --isolation",
		Steps: []api.UpStep{{Action: api.UpImage, How: api.UpMissing}, {Action: api.UpBox, How: api.UpRestore}, {Action: api.UpEnsureRunning, How: string(agentbox.Paused)}, {Action: api.UpRunStart}},
	}}
	for _, want := range []string{
		"box            a new one\n", "isolation      gvisor: asked for by --isolation\n", "step 1         get the image (not present yet)\n",
		"step 2         create the box: its machine and its workspace (restored from the template)\n",
		"step 3         make sure that the box runs (it is paused now)\n", "step 4         run the start commands",
	} {
		if !strings.Contains(e.text(), want) {
			t.Errorf("%q is not in\n%s", want, e.text())
		}
	}
	e.Plan.Box = "mine"
	if text := e.text(); !strings.Contains(text, "box            mine\n") {
		t.Errorf("\n%s", text)
	}
}

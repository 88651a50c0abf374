package check

import (
	"time"

	"agentbox/agentbox"
)

// Spec is what the program agentbox-check is to run.
type Spec struct {
	Name   string   `json:"name"` // the module's argument 0
	Args   []string `json:"args"`
	Cache  string   `json:"cache"`  // the directory of what the module was compiled to
	Memory uint64   `json:"memory"` // at most, in bytes
}

// Report is how the run went. Start is the time until the module's first instruction, once compiled.
type Report struct {
	Exit    *int                  `json:"exit,omitempty"`
	Problem agentbox.CheckProblem `json:"problem,omitempty"`
	Detail  string                `json:"detail,omitempty"`
	Start   time.Duration         `json:"start"`
}

package check

import (
	"time"

	"agentbox/agentbox"
)

// Prepare is what the program agentbox-check gets first, to compile the module.
type Prepare struct {
	Cache  string `json:"cache"`  // the directory of what the module was compiled to
	Memory uint64 `json:"memory"` // of the module at most, in bytes
}

// Spec is what it is to run.
type Spec struct {
	Name string   `json:"name"` // the module's argument 0
	Args []string `json:"args"`
}

// Report is how the run went. Start is the time until the module's first instruction, once compiled.
type Report struct {
	Exit    *int                  `json:"exit,omitempty"`
	Problem agentbox.CheckProblem `json:"problem,omitempty"`
	Detail  string                `json:"detail,omitempty"`
	Start   time.Duration         `json:"start"`
}

package agentbox

import "time"

// Check is a WebAssembly module (wasip1) that a repository has run over the results of its tasks. It
// runs on the host, outside any box, with nothing but the files of the result to read.
type Check struct {
	Name   string   `json:"name"`
	Wasm   string   `json:"wasm"` // the module's file, relative to the configuration's directory
	Args   []string `json:"args,omitempty"`
	Module Digest   `json:"module,omitzero"` // of the file, as it was when the task was submitted
	// Unusable says why the file could not be read then.
	Unusable string `json:"unusable,omitempty"`
}

// MaxModule is the size of the largest module, in bytes.
const MaxModule = 64 << 20

// CheckResult is how one check went.
type CheckResult struct {
	Name   string `json:"name"`
	Module Digest `json:"module,omitzero"`
	// Exit is the module's status; nil if it did not end by itself.
	Exit    *int         `json:"exit,omitempty"`
	Problem CheckProblem `json:"problem,omitempty"`
	Detail  string       `json:"detail,omitempty"` // of the problem
	Output  string       `json:"output,omitempty"` // the beginning of what it wrote
	// Omitted counts the bytes after Output.
	Omitted int64         `json:"left_out,omitempty"`
	Took    time.Duration `json:"took,omitempty"`
}

// Passed reports whether the module ended with status 0.
func (c CheckResult) Passed() bool { return c.Exit != nil && *c.Exit == 0 }

// CheckProblem is why a check did not end by itself, or what it was refused before it did.
type CheckProblem string

// The problems of checks.
const (
	CheckUnapproved CheckProblem = "unapproved" // nobody has approved these arguments with this module
	CheckUnusable   CheckProblem = "unusable"   // the file is no module that can be run; Detail says why
	CheckMemory     CheckProblem = "memory"     // it was refused memory
	CheckTime       CheckProblem = "time"       // it used more processor time than it may, or ran for too long
	CheckRecursion  CheckProblem = "recursion"  // its calls are nested too deeply
	CheckFiles      CheckProblem = "files"      // it was refused another open file
	CheckOutside    CheckProblem = "outside"    // it was refused a path that leads out of the result
	CheckTrap       CheckProblem = "trap"       // an instruction of it failed; Detail says how
	CheckBroken     CheckProblem = "broken"     // the result could not be read, or the sandbox failed; Detail says how
)

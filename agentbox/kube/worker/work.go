// Package worker is what runs in the pod of a task (package kube): it gets the source, runs the command,
// keeps its work as a box's would be kept, and puts the result into the registry. It knows no cluster.
//
// It is the daemon's program with another verb, in a layer of the task's image, and the first process of its
// container. It is not trusted by anybody: what it delivers is checked where it arrives.
package worker

import (
	"encoding/json"
	"os"
	"time"

	"agentbox/agentbox"
)

// Where things are in a container.
const (
	Workspace = "/workspace"
	State     = "/.agentbox/state" // the worker's own files
	Program   = "/.agentbox/bin/agentbox"
	Verb      = "work"
	// WorkVariable has the Work as JSON.
	WorkVariable = "AGENTBOX_WORK"
)

// How a worker ends. ExitDelivered is for a command that did not succeed, of which the registry has the
// result; any other status but 0 means that there is none.
const (
	ExitDelivered   = 3
	ExitInterrupted = 143
	exitError       = 1
)

// Work is what a worker does.
type Work struct {
	Task    string            `json:"task"`
	Source  string            `json:"source"` // reference by digest (kube.Registry.PutSource)
	Subdir  string            `json:"subdir,omitempty"`
	Result  string            `json:"result"` // reference by tag
	Setup   []string          `json:"setup,omitempty"`
	Command []string          `json:"command"`
	Dir     string            `json:"dir,omitempty"`
	User    string            `json:"user,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Wall    time.Duration     `json:"wall,omitempty"` // of the command
}

// Read reads the work from the environment, and takes what is the worker's own out of it.
func Read() (w Work, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(WorkVariable)), &w); err != nil {
		return w, agentbox.Errorf(agentbox.Invalid, "%s is not the work of a task: %w", WorkVariable, err)
	}
	return w, os.Unsetenv(WorkVariable)
}

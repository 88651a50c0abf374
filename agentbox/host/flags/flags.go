// Package flags is what a command line asks for when a box is made, over the configuration of the
// repository, and what of a configuration a box was made for. It makes nothing, and knows nothing
// of what makes it.
//
// Two values are written into a box's record: Flags, so that a reset or a later up makes the box
// from the same wishes; and Settings, so that a later up can say which keys of the configuration
// have changed since.
package flags

import (
	"maps"
	"os"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/toolchain"
)

// Flags are what the user asked for on the command line when a box was made, over the
// configuration. They are part of the box's record. Zero fields are flags that were not given. They
// are the user's own wishes, so nothing in them needs approval.
type Flags struct {
	Image     string             `json:"image,omitempty"`
	Isolation agentbox.Isolation `json:"isolation,omitempty"`
	CPUs      int                `json:"cpus,omitempty"`
	Memory    string             `json:"memory,omitempty"`
	Agent     string             `json:"agent,omitempty"` // whose program the box has
	// Tools: that the agent needs, itself among them.
	Tools toolchain.Needs `json:"tools,omitempty"`
	// Variables: of the caller's environment, that the includes name.
	Variables map[string]string `json:"variables,omitempty"`
}

// Of are the flags of a request, with the profile of the agent that it names, if any, and the
// variables of the caller that includes name. An agent whose needs cannot be read is an error.
func Of(req api.UpRequest, cfg *config.Config, agent agents.Profile) (o Flags, err error) {
	o = Flags{
		Image: req.Image, Isolation: req.Isolation, CPUs: req.CPUs, Memory: req.Memory, Agent: agent.Name,
		Variables: Variables(cfg, req.Environ),
	}
	if agent.Name != "" {
		o.Tools, err = agent.Needs()
	}
	return o, err
}

// Check holds what was asked for on the command line to the bounds that configurations have.
// Invalid, with the flag's name.
func (o Flags) Check() error {
	if o.CPUs != 0 && (o.CPUs < agentbox.MinCPUs || o.CPUs > agentbox.MaxCPUs) {
		return agentbox.Errorf(agentbox.Invalid, "--cpus %d is out of range: %d to %d", o.CPUs, agentbox.MinCPUs, agentbox.MaxCPUs)
	}
	if o.Memory == "" {
		return nil
	}
	memory, err := config.ParseSize(o.Memory)
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "--memory: %w", err)
	}
	if memory < agentbox.MinMemory || memory > agentbox.MaxMemory {
		return agentbox.Errorf(agentbox.Invalid, "--memory %s is out of range: %s to %s", o.Memory,
			config.FormatSize(agentbox.MinMemory), config.FormatSize(agentbox.MaxMemory))
	}
	return nil
}

// Apply makes a configuration ask for what the flags ask for: cfg is changed. Another image takes
// the configuration's packages away, since they were meant for the one it names; a repository
// without a configuration gets the workstation's instead, in an apt: image. A variable that the
// caller does not have stays as it is written, and copying the file fails by that name.
func (o Flags) Apply(cfg *config.Config) (err error) {
	if o.Image != "" {
		cfg.Image, cfg.Packages = o.Image, nil
		switch apt := strings.HasPrefix(o.Image, "apt:"); {
		case !apt:
			cfg.Toolchain = nil // only an image of the distribution takes more packages
		case cfg.Path == "":
			cfg.Packages = toolchain.Workstation
		}
	}
	if o.CPUs > 0 {
		cfg.CPUs = o.CPUs
	}
	if o.Memory != "" {
		if cfg.Memory, err = config.ParseSize(o.Memory); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "memory: %w", err)
		}
	}
	// Any other image has the agent itself, or not.
	if len(o.Tools) > 0 && strings.HasPrefix(cfg.Image, "apt:") {
		cfg.Toolchain = append(slices.Clone(cfg.Toolchain), o.Tools...)
		cfg.Toolchain.Sort()
	}
	for i, include := range cfg.Include {
		cfg.Include[i].From = os.Expand(include.From, func(name string) string {
			if v, ok := o.Variables[name]; ok {
				return v
			}
			return "${" + name + "}" // copying it fails, and names it
		})
	}
	return nil
}

// Variables are the variables that includes name, as the caller has them: the daemon's own
// environment is that of the command that happened to start it. A variable that is set to nothing
// counts as not set.
func Variables(cfg *config.Config, environ []string) map[string]string {
	have := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		have[name] = value
	}
	named := map[string]string{}
	for _, include := range cfg.Include {
		os.Expand(include.From, func(name string) string {
			if v := have[name]; v != "" {
				named[name] = v
			}
			return ""
		})
	}
	return named
}

// With gives the flags of a box with those of a later command over them. Isolation is not among
// them, as a box keeps its kind for life.
func (o Flags) With(later Flags) Flags {
	if later.Image != "" {
		o.Image = later.Image
	}
	if later.CPUs != 0 {
		o.CPUs = later.CPUs
	}
	if later.Memory != "" {
		o.Memory = later.Memory
	}
	if later.Agent != "" {
		o.Agent, o.Tools = later.Agent, later.Tools
	}
	variables := maps.Clone(o.Variables)
	if variables == nil {
		variables = map[string]string{}
	}
	maps.Copy(variables, later.Variables)
	o.Variables = variables
	return o
}

// Set tells which keys of the configuration that a reset puts into effect the flags set.
func (o Flags) Set() map[string]bool {
	return map[string]bool{"image": o.Image != "", "cpus": o.CPUs != 0, "memory": o.Memory != ""}
}

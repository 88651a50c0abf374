// Package flags holds what a command line asks for beyond the repository's configuration when a box
// is made, and which settings a box was made for. It acts on neither.
//
// Both are part of a box's record: Flags, so that a reset or a later up honours them; Settings, so
// that a later up can say which keys of the configuration have changed.
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

// Flags are what the user asked for on the command line when a box was made. Zero fields are flags
// that were not given. They are the user's own wishes, so they need no approval.
type Flags struct {
	Image     string             `json:"image,omitempty"`
	Isolation agentbox.Isolation `json:"isolation,omitempty"`
	CPUs      int                `json:"cpus,omitempty"`
	Memory    string             `json:"memory,omitempty"`
	// Devcontainer is the NAME of the .devcontainer/NAME/devcontainer.json that was chosen.
	Devcontainer string `json:"devcontainer,omitempty"`
	Agent        string `json:"agent,omitempty"` // whose program the box has
	// Tools are what the agent needs, itself included.
	Tools toolchain.Needs `json:"tools,omitempty"`
	// Variables are those of the caller's environment that includes name.
	Variables map[string]string `json:"variables,omitempty"`
}

// New returns the flags of a request, with the needs of its agent, if it names one, and the
// caller's variables that includes name. It fails if the agent's needs cannot be read.
func New(req api.UpRequest, cfg *config.Config, agent agents.Profile) (o Flags, err error) {
	o = Flags{
		Image: req.Image, Isolation: req.Isolation, CPUs: req.CPUs, Memory: req.Memory, Devcontainer: req.Devcontainer, Agent: agent.Name,
		Variables: Variables(cfg, req.Environ),
	}
	if agent.Name != "" {
		o.Tools, err = agent.Needs()
	}
	return o, err
}

// Check applies the limits of configurations to the flags. Invalid, with the name of the flag.
func (f Flags) Check() error {
	if f.CPUs != 0 && (f.CPUs < agentbox.MinCPUs || f.CPUs > agentbox.MaxCPUs) {
		return agentbox.Errorf(agentbox.Invalid, "--cpus %d is out of range: %d to %d", f.CPUs, agentbox.MinCPUs, agentbox.MaxCPUs)
	}
	if f.Memory == "" {
		return nil
	}
	memory, err := config.ParseSize(f.Memory)
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "--memory: %w", err)
	}
	if memory < agentbox.MinMemory || memory > agentbox.MaxMemory {
		return agentbox.Errorf(agentbox.Invalid, "--memory %s is out of range: %s to %s", f.Memory,
			config.FormatSize(agentbox.MinMemory), config.FormatSize(agentbox.MaxMemory))
	}
	return nil
}

// Apply overrides a configuration, which it changes. Another image drops the configuration's
// packages, which were meant for the image it names; a repository without a configuration gets the
// workstation's packages if the image is apt:. A variable that the caller does not have stays as it
// is written, and copying the file fails with its name.
func (f Flags) Apply(cfg *config.Config) (err error) {
	if f.Image != "" {
		cfg.Image, cfg.Packages, cfg.Build = f.Image, nil, nil
		switch apt := strings.HasPrefix(f.Image, "apt:"); {
		case !apt:
			cfg.Toolchain = nil // only an image of the distribution takes more packages
		case cfg.Path == "":
			cfg.Packages = toolchain.Workstation
		}
	}
	if f.CPUs > 0 {
		cfg.CPUs = f.CPUs
	}
	if f.Memory != "" {
		if cfg.Memory, err = config.ParseSize(f.Memory); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "memory: %w", err)
		}
	}
	// Tools can be installed in no other image.
	if len(f.Tools) > 0 && strings.HasPrefix(cfg.Image, "apt:") {
		cfg.Toolchain = append(slices.Clone(cfg.Toolchain), f.Tools...)
		cfg.Toolchain.Sort()
	}
	for i, include := range cfg.Include {
		cfg.Include[i].From = os.Expand(include.From, func(name string) string {
			if v, ok := f.Variables[name]; ok {
				return v
			}
			return "${" + name + "}" // copying it fails, and names it
		})
	}
	return nil
}

// Variables are the caller's variables that includes name. The daemon's own environment is that of
// whichever command started it. An empty variable counts as not set.
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

// With returns the flags of a box, overridden by those of a later command. Isolation is not
// overridden, since a box keeps its kind.
func (f Flags) With(later Flags) Flags {
	if later.Image != "" {
		f.Image = later.Image
	}
	if later.CPUs != 0 {
		f.CPUs = later.CPUs
	}
	if later.Memory != "" {
		f.Memory = later.Memory
	}
	if later.Devcontainer != "" {
		f.Devcontainer = later.Devcontainer
	}
	if later.Agent != "" {
		f.Agent, f.Tools = later.Agent, later.Tools
	}
	variables := maps.Clone(f.Variables)
	if variables == nil {
		variables = map[string]string{}
	}
	maps.Copy(variables, later.Variables)
	f.Variables = variables
	return f
}

// Set tells which keys of the configuration the flags override, of those that a reset applies.
func (f Flags) Set() map[string]bool {
	return map[string]bool{"image": f.Image != "", "cpus": f.CPUs != 0, "memory": f.Memory != ""}
}

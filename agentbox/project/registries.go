package project

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"

	"agentbox/agentbox/durable"
	"agentbox/policy/registries"
)

// maxSaid bounds what is kept of one tool's answer, in bytes.
const maxSaid = 64 << 10

// onPath tells whether this machine has a tool.
func onPath(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

// Unanswered are the questions of some ecosystems that nobody has answered: this machine has no
// such tool, none of its files names a registry, and no clean box was asked. Those of tools that
// the distribution does not have are left to hosts where somebody installed them.
func (r *Registries) Unanswered(ecosystems []string, found []registries.Found) []registries.Question {
	said := r.said()
	return slices.DeleteFunc(registries.Of(ecosystems), func(q registries.Question) bool {
		_, asked := said[q.Key()]
		configured := slices.ContainsFunc(found, func(f registries.Found) bool { return f.Ecosystem() == q.Ecosystem })
		return asked || configured || q.Package != "" && r.has(q.Argv[0])
	})
}

// Record remembers what tools said in a clean box, by question, and has the registries looked up
// again with that. A box with anything of a repository in it is none that is asked. What one tool
// says is cut at maxSaid.
func (r *Registries) Record(answers map[string]string) error {
	said := r.said()
	for question, answer := range answers {
		said[question] = answer[:min(len(answer), maxSaid)]
	}
	data, err := json.MarshalIndent(said, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(r.saidPath(), append(data, '\n'), 0o600); err != nil {
		return err
	}
	return r.Forget()
}

// said is what was heard so far; what cannot be read is asked again.
func (r *Registries) said() map[string]string {
	b, err := readFile(r.saidPath(), int64(len(registries.Questions))*maxSaid*2)
	said := map[string]string{}
	if err != nil || json.Unmarshal(b, &said) != nil {
		return map[string]string{}
	}
	return maps.Clone(said)
}

// saidPath is beside the remembered answer: what boxes said outlives it.
func (r *Registries) saidPath() string {
	return filepath.Join(filepath.Dir(r.path), "registries-said.json")
}

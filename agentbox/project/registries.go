package project

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"

	"agentbox/agentbox/durable"
	"agentbox/policy/registries"
)

// maxSaid bounds the answer of one tool, in bytes.
const maxSaid = 64 << 10

func onPath(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

// Unanswered returns the questions about these ecosystems that must be asked in a clean box: those
// for which this machine has no tool, no file that names a registry, and no answer of an earlier
// box. Tools that the distribution does not package are never asked in a box.
func (r *Registries) Unanswered(ecosystems []string, found []registries.Found) []registries.Question {
	said := r.readBoxAnswers()
	return slices.DeleteFunc(registries.QuestionsFor(ecosystems), func(q registries.Question) bool {
		_, asked := said[q.Key()]
		configured := slices.ContainsFunc(found, func(f registries.Found) bool { return f.Ecosystem() == q.Ecosystem })
		return asked || configured || q.Package != "" && r.has(q.Argv[0])
	})
}

// Record stores the answers of a clean box, by question, and makes the next Known ask the tools
// again. A box with anything of a repository in it is not clean. An answer is cut to maxSaid.
func (r *Registries) Record(answers map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.readBoxAnswers()
	for question, answer := range answers {
		said[question] = answer[:min(len(answer), maxSaid)]
	}
	data, err := json.MarshalIndent(said, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(r.boxAnswersPath(), append(data, '\n'), 0o600); err != nil {
		return err
	}
	return r.forget()
}

// readBoxAnswers returns the answers of clean boxes. If they cannot be read, boxes are asked again.
func (r *Registries) readBoxAnswers() map[string]string {
	b, err := readFile(r.boxAnswersPath(), int64(len(registries.Questions))*maxSaid*2)
	said := map[string]string{}
	if err != nil || json.Unmarshal(b, &said) != nil || said == nil {
		return map[string]string{}
	}
	return said
}

// boxAnswersPath is a separate file, because Forget removes the other one.
func (r *Registries) boxAnswersPath() string {
	return filepath.Join(filepath.Dir(r.path), "registries-said.json")
}

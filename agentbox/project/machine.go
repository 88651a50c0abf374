package project

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox/durable"
	"agentbox/policy"
	"agentbox/policy/registries"
)

// Registries knows which package registries this machine is configured to use. It reads the
// configuration files each time. Asking the tools takes a second or two, so their answer is
// remembered: an old answer is used, and refreshed in the background. Methods are safe for
// concurrent use.
type Registries struct {
	path string // of the remembered answer
	look func(ctx context.Context, m registries.Machine) (found []registries.Found, answered bool)
	has  func(tool string) bool // whether this machine has a tool

	mu         sync.Mutex // held while the tools are asked, so that they are asked only once
	refreshing bool
	looked     time.Time // when this process asked the tools; zero if one did not answer and has to be asked again
	forgotten  int       // counts calls of Record and Forget
}

// NewRegistries returns Registries that store the tools' answer in the file at path.
func NewRegistries(path string) *Registries {
	return &Registries{path: path, look: registries.FromTools, has: onPath, looked: time.Now().Add(firstLook - staleAfter)}
}

// staleAfter is the age from which the tools are asked again.
const staleAfter = time.Hour

// firstLook is how long an answer of an earlier process is used, whatever its age. Asking would
// slow down a user who has just started a daemon, and a policy without registries never needs the
// answer.
const firstLook = 5 * time.Minute

// answer is what the tools reported. The file contains no time, because clocks are stepped: only
// the process that asked knows how old its answer is.
type answer struct {
	Found []registries.Found `json:"found"`
}

// Known returns the registries for callers whose environment is environ. If the tools' answer is
// old, Known passes later a function to run in the background; refresh reports whether the answer
// has changed. If later is nil, an old answer will do.
//
// If no answer is remembered, Known asks the tools itself, which takes seconds while other callers
// wait. Errors are those of ctx or of the file.
func (r *Registries) Known(ctx context.Context, environ []string, later func(refresh func(context.Context) (changed bool, err error))) ([]registries.Found, error) {
	m := registries.HostMachine("", environ)
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Answers = r.readBoxAnswers()
	a, ok := r.read()
	switch {
	case !ok:
		var answered bool
		a.Found, answered = r.look(ctx, m)
		if err := r.write(ctx, a.Found, answered); err != nil {
			return nil, err
		}
	case (r.looked.IsZero() || time.Since(r.looked) > staleAfter) && !r.refreshing && later != nil:
		r.refreshing = true
		later(func(ctx context.Context) (bool, error) { return r.refresh(ctx, m) })
	}
	return slices.Concat(registries.FromFiles(m), a.Found), nil
}

// refresh asks the tools without holding the lock, because that takes long. It reports whether the
// registries have changed. If Record or Forget was called meanwhile, the answer is already out of
// date and is dropped, and the next Known asks again.
func (r *Registries) refresh(ctx context.Context, m registries.Machine) (bool, error) {
	r.mu.Lock()
	forgotten := r.forgotten
	m.Answers = r.readBoxAnswers()
	r.mu.Unlock()
	found, answered := r.look(ctx, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshing = false
	if err := ctx.Err(); err != nil || r.forgotten != forgotten {
		return false, err
	}
	old, _ := r.read()
	if !answered { // the earlier answer of a slow tool still counts
		for _, f := range old.Found {
			if !slices.ContainsFunc(found, f.Equal) {
				found = append(found, f)
			}
		}
	}
	before, after := policy.File{Allow: registries.Layer(old.Found).Allow}, policy.File{Allow: registries.Layer(found).Allow}
	return len(policy.Plan(before, after, "")) > 0, r.write(ctx, found, answered)
}

// Forget makes the next Known ask the tools. It keeps answers from clean boxes.
func (r *Registries) Forget() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forget()
}

// forget is Forget for callers that hold r.mu.
func (r *Registries) forget() error {
	r.forgotten++
	if err := os.Remove(r.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// read returns the remembered answer. ok is false if there is none that can be read.
func (r *Registries) read() (a answer, ok bool) {
	b, err := os.ReadFile(r.path)
	return a, err == nil && json.Unmarshal(b, &a) == nil
}

// write stores what was found, unless ctx ended and cut it short. The caller holds r.mu.
func (r *Registries) write(ctx context.Context, found []registries.Found, answered bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(answer{Found: found}, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(r.path, append(data, '\n'), 0o600); err != nil {
		return err
	}
	r.looked = time.Time{}
	if answered {
		r.looked = time.Now()
	}
	return nil
}

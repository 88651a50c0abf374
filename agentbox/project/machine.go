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

// Registries knows which registries this machine is configured with. Its files are read each time;
// what its tools say takes a second or two and is remembered: an old answer serves, and is made new
// in the background. Its methods may be called from any goroutine.
type Registries struct {
	path string // of the remembered answer
	look func(ctx context.Context, m registries.Machine) (found []registries.Found, answered bool)
	has  func(tool string) bool // whether this machine has a tool

	mu      sync.Mutex // held while the tools are asked, so that they are asked once
	looking bool
	looked  time.Time // when this process asked them; zero when one has not answered, and is to be asked at once
}

// NewRegistries makes one that remembers in the file at path.
func NewRegistries(path string) *Registries {
	return &Registries{path: path, look: registries.Tools, has: onPath, looked: time.Now().Add(firstLook - staleAfter)}
}

// staleAfter is how old the tools' answer may be before they are asked again.
const staleAfter = time.Hour

// firstLook is how long the answer that an earlier process left serves in this one, whatever its
// age: who starts a daemon has something else to do, and under a policy without registries nobody
// has to ask anything.
const firstLook = 5 * time.Minute

// answer is what the tools said. How old it is only the process knows that asked them: of what is
// read from the file nobody can tell, because clocks are stepped.
type answer struct {
	Found []registries.Found `json:"found"`
}

// Known gives the registries, for callers whose environment is environ. later is called with a
// function to run in the background when the tools' answer is old; that tells whether it has
// changed. With nil an old answer serves. It may take seconds where nothing is remembered, and
// callers wait for each other then. An error is ctx's, or of the file.
func (r *Registries) Known(ctx context.Context, environ []string, later func(refresh func(context.Context) (changed bool, err error))) ([]registries.Found, error) {
	m := registries.Host("", environ)
	m.Said = r.said()
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.read()
	switch {
	// Nothing is remembered: the caller waits for the tools, as there is no old answer to serve.
	case !ok:
		var answered bool
		a.Found, answered = r.look(ctx, m)
		if err := r.write(ctx, a.Found, answered); err != nil {
			return nil, err
		}
	case (r.looked.IsZero() || time.Since(r.looked) > staleAfter) && !r.looking && later != nil:
		r.looking = true
		later(func(ctx context.Context) (bool, error) { return r.refresh(ctx, m) })
	}
	return slices.Concat(registries.Files(m), a.Found), nil
}

// refresh asks the tools, which takes long and so happens without the lock, and tells whether what
// they allow has changed.
func (r *Registries) refresh(ctx context.Context, m registries.Machine) (bool, error) {
	found, answered := r.look(ctx, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looking = false
	if err := ctx.Err(); err != nil { // what was found is not all there is: nothing has changed
		return false, err
	}
	old, _ := r.read()
	if !answered { // what a slow tool said before still counts
		for _, f := range old.Found {
			if !slices.ContainsFunc(found, f.Equal) {
				found = append(found, f)
			}
		}
	}
	before, after := policy.File{Allow: registries.Layer(old.Found).Allow}, policy.File{Allow: registries.Layer(found).Allow}
	return len(policy.Plan(before, after, "")) > 0, r.write(ctx, found, answered)
}

// Forget makes the next Known ask the tools. What was said in clean boxes stays.
func (r *Registries) Forget() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.Remove(r.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// read gives the remembered answer; ok is false without one.
func (r *Registries) read() (a answer, ok bool) {
	b, err := os.ReadFile(r.path)
	if err != nil {
		return a, false
	}
	return a, json.Unmarshal(b, &a) == nil // what cannot be read is looked up again
}

// write keeps what was found, unless that was cut short. Where a tool has not answered the next
// caller has them asked again. The caller holds r.mu.
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

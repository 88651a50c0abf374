package secrets

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// fresh is for how long a value is used without asking again: a burst of requests asks once, and a
// rotated value is in use this much later.
const fresh = 5 * time.Second

// Resolver gets values for the box of one process. It implements policy.Values. Values are in its
// memory for as long as they are fresh. Its methods may be called at once.
type Resolver struct {
	group singleflight.Group

	// mu guards what follows; it is not held while a value is got.
	mu   sync.Mutex
	refs map[string]Source
	// env are the variables that Set was given, so far.
	env    map[string]string
	cached map[string]cached
	now    func() time.Time
}

// Source is one secret of the box.
type Source struct {
	From Reference `json:"from"`
	Host string    `json:"host,omitempty"` // as Asker's
}

// cached is a value, and until when it is fresh.
type cached struct {
	value string
	until time.Time
}

// NewResolver makes a Resolver that knows no secret.
func NewResolver() *Resolver {
	return &Resolver{now: time.Now, cached: map[string]cached{}, env: map[string]string{}}
}

// Set replaces the secrets by name. Variables in env are added to those known: a person who changes
// a policy later may not have them. What was known of values is forgotten.
func (k *Resolver) Set(refs map[string]Source, env map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refs = maps.Clone(refs)
	maps.Copy(k.env, env)
	clear(k.cached)
}

// Retain forgets every secret that is kept elsewhere according to refs. Between it and Set another
// policy is put in force, so that no value is used under the rules that were for another one.
func (k *Resolver) Retain(refs map[string]Source) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.refs, func(name string, s Source) bool { return refs[name] != s })
}

// Value gives the value of a secret: of those that ask for it at the same time one gets it, not
// bound to the patience of the first. The error is for the log and the agent in the box, and holds
// no value. One that was changed while it was got is an error: the request was decided under other
// rules.
func (k *Resolver) Value(ctx context.Context, name string) (string, error) {
	k.mu.Lock()
	source, known := k.refs[name]
	c, have := k.cached[name]
	now := k.now()
	k.mu.Unlock()
	if !known {
		return "", fmt.Errorf("there is no secret %s", name)
	}
	if have && now.Before(c.until) {
		return c.value, nil
	}
	flight := strings.Join([]string{name, source.Host, source.From.String()}, "\x00")
	v, err, _ := k.group.Do(flight, func() (any, error) {
		return source.From.Value(context.WithoutCancel(ctx), Asker{Name: name, Host: source.Host, Env: k.lookup})
	})
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refs[name] != source {
		return "", fmt.Errorf("the secret %s has just changed", name)
	}
	k.cached[name] = cached{v.(string), now.Add(fresh)}
	return v.(string), nil
}

// lookup is Asker.Env.
func (k *Resolver) lookup(name string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.env[name]
	return v, ok
}

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

// cacheTime is how long a value is used without asking again: a burst of requests asks once, and a
// rotated value takes effect this much later.
const cacheTime = 5 * time.Second

// Resolver gets values for one box. It implements policy.Values. Values stay in its memory as long
// as they are fresh. Its methods may be called concurrently.
type Resolver struct {
	group singleflight.Group

	// mu guards the fields below; it is not held while a value is read.
	mu   sync.Mutex
	refs map[string]Source
	// env has the variables given to Set so far.
	env    map[string]string
	cached map[string]cached
	now    func() time.Time
}

// Source is one secret of the box.
type Source struct {
	From Reference `json:"from"`
	Host string    `json:"host,omitempty"` // as Purpose's
}

// cached is a value, and how long it is fresh.
type cached struct {
	value string
	until time.Time
}

// NewResolver makes a Resolver without secrets.
func NewResolver() *Resolver {
	return &Resolver{now: time.Now, cached: map[string]cached{}, env: map[string]string{}}
}

// Set replaces the secrets by name. It adds the variables in env to those known, which a person who
// changes a policy later may not have. It forgets all values.
func (k *Resolver) Set(refs map[string]Source, env map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refs = maps.Clone(refs)
	maps.Copy(k.env, env)
	clear(k.cached)
}

// Retain forgets every secret that refs keeps elsewhere. It is called before another policy takes
// effect, and Set after it, so that no value is used under the rules of another one.
func (k *Resolver) Retain(refs map[string]Source) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.refs, func(name string, s Source) bool { return refs[name] != s })
}

// Value gets the value of a secret. Concurrent calls share one read, which does not end with the
// first caller's ctx. The error is for the log and the agent in the box, and contains no value. A
// secret that changed meanwhile is an error: the request was decided under other rules.
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
		return source.From.Value(context.WithoutCancel(ctx), Purpose{Name: name, Host: source.Host, Env: k.lookup})
	})
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refs[name] != source {
		return "", fmt.Errorf("the secret %s has just changed", name)
	}
	k.cached[name] = cached{v.(string), now.Add(cacheTime)}
	return v.(string), nil
}

// lookup implements Purpose.Env.
func (k *Resolver) lookup(name string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.env[name]
	return v, ok
}

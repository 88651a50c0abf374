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
	lender func(ctx context.Context, name string) (string, error)
}

// Source is one secret of the box.
type Source struct {
	From Reference `json:"from,omitzero"`
	Host string    `json:"host,omitempty"` // as Purpose's
	// Lent: the value is asked of the machine whose secret it is, for each use.
	Lent bool `json:"lent,omitempty"`
}

// cached is a value, and how long it is fresh.
type cached struct {
	value string
	until time.Time
}

// NewResolver makes a Resolver without secrets. lender returns the present value of a secret that is
// lent; nil if nobody lends any.
func NewResolver(lender func(ctx context.Context, name string) (string, error)) *Resolver {
	return &Resolver{now: time.Now, cached: map[string]cached{}, env: map[string]string{}, lender: lender}
}

// Set replaces the secrets by name. It adds the variables in env to those known, which a person who
// changes a policy later may not have. It forgets all values.
func (r *Resolver) Set(refs map[string]Source, env map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs = maps.Clone(refs)
	maps.Copy(r.env, env)
	clear(r.cached)
}

// Retain forgets every secret that refs keeps elsewhere. It is called before another policy takes
// effect, and Set after it, so that no value is used under the rules of another one.
func (r *Resolver) Retain(refs map[string]Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.refs, func(name string, s Source) bool { return refs[name] != s })
}

// Value gets the value of a secret. Concurrent calls share one read, which does not end with the
// first caller's ctx. The error is for the log and the agent in the box, and contains no value. A
// secret that changed meanwhile is an error: the request was decided under other rules.
func (r *Resolver) Value(ctx context.Context, name string) (string, error) {
	r.mu.Lock()
	source, known := r.refs[name]
	c, have := r.cached[name]
	now := r.now()
	r.mu.Unlock()
	if !known {
		return "", fmt.Errorf("there is no secret %s", name)
	}
	if have && now.Before(c.until) {
		return c.value, nil
	}
	flight := strings.Join([]string{name, source.Host, source.From.String()}, "\x00")
	v, err, _ := r.group.Do(flight, func() (any, error) {
		if source.Lent {
			return r.borrow(ctx, name)
		}
		return source.From.Value(context.WithoutCancel(ctx), Purpose{Name: name, Host: source.Host, Env: r.lookup})
	})
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refs[name] != source {
		return "", fmt.Errorf("the secret %s has just changed", name)
	}
	if !source.Lent {
		r.cached[name] = cached{v.(string), now.Add(cacheTime)}
	}
	return v.(string), nil
}

func (r *Resolver) borrow(ctx context.Context, name string) (string, error) {
	if r.lender == nil {
		return "", fmt.Errorf("nobody lends the secret %s", name)
	}
	v, err := r.lender(context.WithoutCancel(ctx), name)
	if err == nil {
		err = usable(v)
	}
	if err != nil {
		return "", fmt.Errorf("secret %s, which is lent: %w", name, err)
	}
	return v, nil
}

func (r *Resolver) lookup(name string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.env[name]
	return v, ok
}

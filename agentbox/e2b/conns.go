package e2b

import (
	"context"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// connections are logins to sandboxes, kept for a while so that a command need not wait for one.
type connections struct {
	dial func(context.Context, api.Token, api.BoxRef, string) (api.Connection, *ssh.Client, error)

	mu sync.Mutex
	by map[connKey]*connection
}

type connKey struct {
	box   agentbox.BoxID
	token string
	user  string
}

// connection is a login. ready is closed when it is there, or err says why not.
type connection struct {
	ready  chan struct{}
	err    error
	client *ssh.Client
	box    api.Connection
	texts  sync.Map // of files that name users and groups
	uses   int
	idle   *time.Timer
}

// keepIdle is how long a connection is kept that nothing uses.
const keepIdle = 30 * time.Second

// open returns a login of a user of the box; E2B's own is called user. The caller calls release.
func (c *connections) open(ctx context.Context, s session, user string) (conn *connection, release func(), err error) {
	if user == "user" {
		user = ""
	}
	key := connKey{s.box.ID, s.grant.ID, user}
	c.mu.Lock()
	conn = c.by[key]
	if conn == nil {
		conn = &connection{ready: make(chan struct{})}
		if c.by == nil {
			c.by = map[connKey]*connection{}
		}
		c.by[key] = conn
		go c.login(context.WithoutCancel(ctx), key, s, conn)
	}
	conn.uses++
	if conn.idle != nil {
		conn.idle.Stop()
	}
	c.mu.Unlock()
	release = func() { c.release(key, conn) }
	select {
	case <-conn.ready:
		err = conn.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return conn, release, nil
}

// warm logs in to a new sandbox while its program does not ask for anything yet.
func (f *Face) warm(s session) {
	f.work.Go(func() {
		if _, release, err := f.conns.open(context.Background(), s, ""); err == nil {
			release()
		}
	})
}

func (c *connections) login(ctx context.Context, key connKey, s session, conn *connection) {
	conn.box, conn.client, conn.err = c.dial(ctx, s.grant, refTo(s.box), key.user)
	close(conn.ready)
	if conn.err == nil {
		_ = conn.client.Wait()
	}
	c.forget(key, conn)
}

func (c *connections) forget(key connKey, conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[key] == conn {
		delete(c.by, key)
	}
}

func (c *connections) release(key connKey, conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.uses--; conn.uses > 0 || c.by[key] != conn {
		if conn.uses == 0 && conn.client != nil {
			conn.client.Close()
		}
		return
	}
	conn.idle = time.AfterFunc(keepIdle, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if conn.uses == 0 && c.by[key] == conn {
			delete(c.by, key)
			c.end(conn)
		}
	})
}

// end closes a connection once it is there. The caller holds mu.
func (c *connections) end(conn *connection) {
	go func() {
		<-conn.ready
		if conn.client != nil {
			conn.client.Close()
		}
	}()
}

func (c *connections) drop(box agentbox.BoxID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, conn := range c.by {
		if key.box == box {
			delete(c.by, key)
			c.end(conn)
		}
	}
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, conn := range c.by {
		delete(c.by, key)
		c.end(conn)
	}
}

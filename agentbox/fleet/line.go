package fleet

import (
	"context"
	"sync"
	"time"

	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// brief bounds how long a worker waits on a connection that may be dead for the answer to a question that is
// answered at once.
const brief = 5 * time.Second

// lines has a connection to each owner that was asked something briefly: beginning one costs ten times the
// bytes of a beat. Each ends when nothing was said on it for longer than beatLeast. The zero lines is ready.
type lines struct {
	mu   sync.Mutex
	open map[identity.PeerID]*wire.Conn
}

// take is a connection that was kept; nil for none.
func (l *lines) take(owner identity.PeerID) *wire.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[owner]
	if c != nil && c.Context().Err() != nil {
		delete(l.open, owner)
		return nil
	}
	return c
}

// keep keeps a connection, unless there is one by now, which is then the other one.
func (l *lines) keep(owner identity.PeerID, c *wire.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[identity.PeerID]*wire.Conn{}
	}
	if old := l.open[owner]; old != nil {
		_ = old.Close() // what is asked on it meanwhile is asked again
	}
	l.open[owner] = c
}

// drop ends a connection that does not answer.
func (l *lines) drop(owner identity.PeerID, c *wire.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[owner] == c {
		delete(l.open, owner)
	}
	_ = c.Close()
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, c := range l.open {
		delete(l.open, owner)
		_ = c.Close()
	}
}

// askBriefly asks the owner a question with a short answer that may be asked twice, on a connection that
// stays.
func (w *Worker) askBriefly(ctx context.Context, owner identity.PeerID, q question) (a answer, err error) {
	if c := w.lines.take(owner); c != nil {
		asking, cancel := context.WithTimeout(ctx, brief)
		err := c.Ask(asking, q, &a, maxMessage)
		cancel()
		if err == nil || ctx.Err() != nil {
			return a, err
		}
		w.lines.drop(owner, c)
	}
	return w.askAnew(ctx, owner, q)
}

// askAnew asks the owner a question on a connection of its own, which stays for others.
func (w *Worker) askAnew(ctx context.Context, owner identity.PeerID, q question) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	c, err := w.Team.DialLine(ctx, owner)
	if err != nil {
		return a, err
	}
	stop := c.KeepAlive()
	defer stop()
	if err := c.Ask(ctx, q, &a, maxMessage); err != nil {
		_ = c.Close()
		return a, err
	}
	w.lines.keep(owner, c)
	return a, nil
}

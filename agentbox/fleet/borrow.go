package fleet

import (
	"cmp"
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// borrowTimeout bounds how long a request of a box waits for the owner of its task.
const borrowTimeout = 10 * time.Second

// Borrow asks the owner of a task that runs here for the value of a secret, for one request. Errors are
// for the box and its log. The error is Unavailable if the owner cannot be asked.
func (w *Worker) Borrow(ctx context.Context, t agentbox.Task, name string) (string, error) {
	owner, err := identity.ParsePeer(t.For.Owner)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, borrowTimeout)
	defer cancel()
	q := questionOf(t)
	q.Do, q.Secret = askSecret, name
	var a answer
	err = w.ask(ctx, owner, q, func(s *wire.Stream) error { return wire.ReadMessage(s, &a, maxMessage) })
	switch {
	case err != nil:
		return "", agentbox.Errorf(agentbox.Unavailable, "%s, whose task it is, does not answer", t.For.Name)
	case a.Stop != "" || a.Error != "":
		why := cmp.Or(a.Error, "the task is not this machine's any more")
		return "", agentbox.Errorf(agentbox.Forbidden, "%s says: %s", t.For.Name, agentbox.Printable(agentbox.Clip(why)))
	}
	return a.Value, nil
}

package daemon

import (
	"context"
	"encoding/json"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/task"
	"agentbox/policy"
)

// lending lends the values of secrets to tasks that other machines run, and asks for those of tasks and
// boxes that are here for others.
type lending struct {
	policies *egress.Policies
	boxes    boxFinder
	store    task.Store
	worker   *fleet.Worker
	clients  *clients
}

// lend makes the loan for a task that another machine runs. Of a task that is only kept here it is its
// owner's, within the bounds of this machine, too.
func (l lending) lend(ctx context.Context, t agentbox.Task) (json.RawMessage, error) {
	if t.For == nil {
		return l.policies.Lend(ctx, t.Project, t.Secrets)
	}
	loan, err := policy.ParseLoan(t.For.Loan)
	if err != nil {
		return nil, err
	}
	own, err := l.policies.Lend(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	bounds, err := policy.ParseLoan(own)
	if err != nil {
		return nil, err
	}
	loan.Bounds = append(loan.Bounds, bounds.Bounds...)
	return json.Marshal(loan)
}

func (l lending) lentValue(ctx context.Context, t agentbox.Task, name string) (string, error) {
	if t.For != nil {
		return l.worker.Borrow(ctx, t, name)
	}
	return l.policies.SecretValue(ctx, t.Project, name)
}

// canLend is the error for what could not be lent now.
func (l lending) canLend(ctx context.Context, spec agentbox.TaskSpec, environ []string) error {
	if err := l.policies.RememberEnv(environ); err != nil {
		return err
	}
	_, err := l.lend(ctx, agentbox.Task{TaskSpec: spec})
	return err
}

// borrow is api.BorrowSecret: the client that has the value, or the owner of the task whose box it is,
// is asked each time.
func (l lending) borrow(ctx context.Context, req api.LentSecret, _ agentbox.Progress) (string, error) {
	client, ask, err := l.policies.ClientOf(ctx, api.BoxRef{Box: req.Box.String()}, req.Name)
	if err == nil {
		return l.clients.ask(ctx, client, ask)
	}
	box, err := l.boxes.Find(ctx, api.BoxRef{Box: req.Box.String()})
	if err != nil {
		return "", err
	}
	for _, t := range tasksOfOthers(l.store) {
		if last := t.Last(); last != nil && last.BoxName == box.Name {
			return l.worker.Borrow(ctx, t, req.Name)
		}
	}
	return "", agentbox.Errorf(agentbox.NotFound, "the box is of no task of another machine")
}

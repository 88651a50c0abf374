package lending

import (
	"context"
	"encoding/json"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/task"
	"agentbox/policy"
)

// Lending lends the values of secrets to tasks that other machines run, and asks for those of tasks and
// Boxes that are here for others.
type Lending struct {
	Policies *egress.Policies
	Boxes    jobs.Boxes
	Store    task.Store
	Worker   *fleet.Worker
	Clients  *Clients
}

// Lend makes the loan for a task that another machine runs. Of a task that is only kept here it is its
// owner's, within the bounds of this machine, too.
func (l Lending) Lend(ctx context.Context, t agentbox.Task) (json.RawMessage, error) {
	if t.For == nil {
		return l.Policies.Lend(ctx, t.Project, t.Secrets)
	}
	loan, err := policy.ParseLoan(t.For.Loan)
	if err != nil {
		return nil, err
	}
	own, err := l.Policies.Lend(ctx, "", nil)
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

func (l Lending) LentValue(ctx context.Context, t agentbox.Task, name string) (string, error) {
	if t.For != nil {
		return l.Worker.Borrow(ctx, t, name)
	}
	return l.Policies.SecretValue(ctx, t.Project, name)
}

// CanLend is the error for what could not be lent now.
func (l Lending) CanLend(ctx context.Context, spec agentbox.TaskSpec, environ []string) error {
	if err := l.Policies.RememberEnv(environ); err != nil {
		return err
	}
	_, err := l.Lend(ctx, agentbox.Task{TaskSpec: spec})
	return err
}

// Borrow is api.BorrowSecret: the client that has the value, or the owner of the task whose box it is,
// is asked each time.
func (l Lending) Borrow(ctx context.Context, req api.LentSecret, _ agentbox.Progress) (string, error) {
	client, ask, err := l.Policies.ClientOf(ctx, api.BoxRef{Box: req.Box.String()}, req.Name)
	if err == nil {
		return l.Clients.ask(ctx, client, ask)
	}
	box, err := l.Boxes.Find(ctx, api.BoxRef{Box: req.Box.String()})
	if err != nil {
		return "", err
	}
	for _, t := range l.Store.OfOthers() {
		if last := t.Last(); last != nil && last.BoxName == box.Name {
			return l.Worker.Borrow(ctx, t, req.Name)
		}
	}
	return "", agentbox.Errorf(agentbox.NotFound, "the box is of no task of another machine")
}

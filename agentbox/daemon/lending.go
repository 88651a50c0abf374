package daemon

import (
	"context"
	"encoding/json"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/kube"
	"agentbox/policy"
)

// lend makes the loan for a task that another machine runs. Of a task that is only kept here it is its
// owner's, within the bounds of this machine, too.
func (d *daemon) lend(ctx context.Context, t agentbox.Task) (json.RawMessage, error) {
	if t.For == nil {
		return d.boxes.Policies.Lend(ctx, t.Project, t.Secrets)
	}
	loan, err := policy.ParseLoan(t.For.Loan)
	if err != nil {
		return nil, err
	}
	own, err := d.boxes.Policies.Lend(ctx, "", nil)
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

func (d *daemon) lentValue(ctx context.Context, t agentbox.Task, name string) (string, error) {
	if t.For != nil {
		return d.fleet.worker.Borrow(ctx, t, name)
	}
	return d.boxes.Policies.SecretValue(ctx, t.Project, name)
}

// canLend is the error for what could not be lent now.
func (d *daemon) canLend(ctx context.Context, spec agentbox.TaskSpec, environ []string) error {
	if err := d.boxes.Policies.RememberEnv(environ); err != nil {
		return err
	}
	_, err := d.lend(ctx, agentbox.Task{TaskSpec: spec})
	return err
}

// checkLoan refuses a submission whose secrets nobody could give. Variables of environ may have them.
func (t tasks) checkLoan(ctx context.Context, spec agentbox.TaskSpec, environ []string) error {
	if len(spec.Secrets) == 0 || spec.For != nil {
		return nil
	}
	if spec.Where == "" || kube.Is(spec.Where) {
		return agentbox.Errorf(agentbox.Invalid, "--secret lends a secret to another machine of the team").
			WithHint("tasks of this machine have all secrets of the project; add --where idle, or leave out --secret")
	}
	return t.canLend(ctx, spec, environ)
}

// borrow is api.BorrowSecret: the client that has the value, or the owner of the task whose box it is,
// is asked each time.
func (d *daemon) borrow(ctx context.Context, req api.LentSecret, _ agentbox.Progress) (string, error) {
	client, ask, err := d.boxes.Policies.ClientOf(ctx, api.BoxRef{Box: req.Box.String()}, req.Name)
	if err == nil {
		return d.clients.ask(ctx, client, ask)
	}
	box, err := d.boxes.Find(ctx, api.BoxRef{Box: req.Box.String()})
	if err != nil {
		return "", err
	}
	for _, t := range (fleetLocal{d}).Tasks() {
		if last := t.Last(); last != nil && last.BoxName == box.Name {
			return d.fleet.worker.Borrow(ctx, t, req.Name)
		}
	}
	return "", agentbox.Errorf(agentbox.NotFound, "the box is of no task of another machine")
}

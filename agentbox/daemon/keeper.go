package daemon

import (
	"context"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
)

// keeper keeps the work of a task's box as a ref of its project's mirror, and of the checkout that
// it was made from.
type keeper struct{ jobs }

func (k keeper) Keep(ctx context.Context, box agentbox.Box, t agentbox.Task) (string, error) {
	c, err := k.boxes.Connect(ctx, api.BoxRef{Box: box.ID.String()}, nil)
	if err != nil {
		return "", err
	}
	client, err := environment.Open(ctx, environment.Address{Name: c.Name, Socket: c.Socket, Key: c.Key, KnownHosts: c.KnownHosts}, c.User)
	if err != nil {
		return "", err
	}
	defer client.Close()
	of, err := project.Of(box.Directory)
	if err != nil {
		return "", err
	}
	name := t.ID.String()
	if n := len(t.Attempts); n > 1 { // the work of an earlier attempt stays where it is
		name += "-" + strconv.Itoa(n)
	}
	kept, err := snapshot.Keep(ctx, snapshot.Over(client), snapshot.Request{
		Mirror: k.home.Mirror(of.ID().String()), Ref: snapshot.TaskRef(name), Base: box.Commit, Checkout: box.Directory, Export: true,
	})
	if err == nil && len(kept.Missing) > 0 { // then the box is the one place that has it
		err = agentbox.Errorf(agentbox.Conflict, "not all could be kept in %s: %s", kept.Ref, strings.Join(kept.Missing, "; "))
	}
	return kept.Ref, err
}

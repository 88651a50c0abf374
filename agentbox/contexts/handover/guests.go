package handover

import (
	"context"
	"net"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/fleet/elsewhere"
	"agentbox/agentbox/job/jobs"
	"agentbox/mesh/identity"
)

// Admit lets a member into a box of this machine (fleet.Worker.Admit).
func (h *Handover) Admit(ctx context.Context, member identity.PeerID, name string) (in fleet.Entrance, err error) {
	of, within, leave, err := h.Owner.Admit(ctx, member, name)
	if err != nil {
		return in, err
	}
	ref, err := h.boxOf(ctx, of.ID)
	if err != nil {
		leave()
		return in, err
	}
	there := h.Elsewhere
	return fleet.Entrance{
		Within: within, Leave: leave,
		Enter: func(ctx context.Context) (*api.Connection, *agentbox.Job, error) {
			c, err := there.Connect(ctx, ref, nil)
			if err != nil {
				return nil, nil, err
			}
			j, err := jobs.Jobs{Home: h.Home, Boxes: h.Boxes, There: there.Job}.Show(ctx, api.JobRef{BoxRef: ref}, nil)
			if err != nil { // none runs, or several
				return &c, nil, nil
			}
			return &c, &j, nil
		},
		SSH: func(ctx context.Context) (net.Conn, error) {
			h.Log.Info("a member is in a box here", "peer", member.Short(), "of", of.ID)
			return there.OpenSSH(ctx, ref)
		},
	}, nil
}

// boxOf is the box of something that a member may enter where it is. Those of other machines' tasks are
// not this user's to share, and behind one in an account of another machine there is more than a box.
func (h *Handover) boxOf(ctx context.Context, id string) (ref api.BoxRef, err error) {
	s, err := h.lookUp(ctx, api.BoxRef{Box: id})
	if err != nil {
		return ref, err
	}
	ref.Box = s.ID
	if t := s.task; t != nil {
		last := t.Last()
		switch {
		case last == nil || t.State.Done():
			return ref, agentbox.Errorf(agentbox.Conflict, "task %s is %s, so it has no box", t.ID, t.State).WithHint("agentbox enter without --thin makes a box of what it left")
		case t.For != nil:
			return ref, errNotOurs
		case t.Where != "":
			return ref, nil // Connect asks the machine that runs it
		}
		ref.Box = last.BoxName
	}
	b, err := h.Boxes.Find(ctx, ref)
	if err != nil {
		return ref, err
	}
	if h.isOfOthers(b) {
		return ref, errNotOurs
	}
	return api.BoxRef{Box: b.ID.String()}, nil
}

func (h *Handover) isOfOthers(b agentbox.Box) bool {
	return agentbox.KindOf(b.Isolation).Elsewhere || slices.ContainsFunc(h.Queue.Store.OfOthers(), func(t agentbox.Task) bool { return t.Last() != nil && t.Last().BoxName == b.Name })
}

var errNotOurs = agentbox.Errorf(agentbox.Conflict, "its box is of another machine, whose user alone enters it where it is")

// connectThere is api.ConnectContext.
func (h *Handover) connectThere(ctx context.Context, req api.ContextRef, _ agentbox.Progress) (api.Connection, error) {
	theirs, err := h.locate(req.Name)
	if err != nil {
		return api.Connection{}, err
	}
	machine := h.Peers.Name(theirs.Owner)
	c, _, err := h.Elsewhere.LogIn(ctx, elsewhere.BoxThere{BoxAt: fleet.BoxAt{Name: theirs.ID, Peer: theirs.Owner}, Called: nameThere(theirs.Name, theirs.ID, machine)})
	return c, err
}

// hostName matches what ssh takes for the name of a host, and nothing for an option.
var hostName = agentbox.Pattern(`^[a-z0-9][a-z0-9._-]{0,200}$`)

// nameThere is how a context of another machine is called here: NAME.MACHINE, for ssh and editors too. A
// task is called by its ID. It is "" where the names that others gave are none.
func nameThere(name, id, machine string) string {
	if _, err := agentbox.ParseTaskID(id); err == nil {
		name = id
	}
	for _, text := range []string{name + "." + machine, id + "." + machine} {
		if hostName().MatchString(text) {
			return text
		}
	}
	return ""
}

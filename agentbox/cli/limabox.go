package cli

import (
	"context"
	"slices"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/lima"
	"agentbox/agentbox/reach"
)

// limaHost is the name as a host of this home's machine by Lima.
const limaHost = "lima"

// intoLima has the rest of a command line that makes a box work in this home's machine by Lima, if
// --isolation or the configuration asks for that: it starts the machine, unless it answers, and
// brings this program there. With explain it makes nothing. In the machine the box is of the kind
// that auto means there.
func (a *app) intoLima(ctx context.Context, kind *agentbox.Isolation, explain bool) error {
	if *kind != agentbox.Lima && (*kind != "" || !asksForLima(ctx)) {
		return nil
	}
	switch {
	case a.host == "" && explain:
		if _, err := a.here.There(limaHost); err != nil {
			return agentbox.Errorf(agentbox.Conflict, "this home has no machine by Lima yet, in which the box would be").WithHint("agentbox up makes it; agentbox lima create chooses its size")
		}
		a.host = limaHost
	case a.host == "":
		if err := a.ensureLimaHost(ctx, *kind == agentbox.Lima); err != nil {
			return err
		}
		a.host = limaHost
	case a.host != limaHost:
		return agentbox.Errorf(agentbox.Invalid, "lima is a machine of this host, and the box would be on %s", a.host).WithHint("leave out --host, or use another --isolation")
	}
	*kind = agentbox.Auto
	return nil
}

// ensureLimaHost makes sure that the daemon of this build runs in the machine. If only the repository
// wants one and there is none, the user is asked: it takes disk, memory and a download.
func (a *app) ensureLimaHost(ctx context.Context, wanted bool) error {
	if t, err := a.here.There(limaHost); err == nil {
		if _, err := t.Status(ctx); err == nil {
			return nil
		}
	}
	vm, end, err := a.limaVM()
	if err == nil {
		_, err = vm.Inspect(ctx)
	}
	if agentbox.CodeOf(err) == agentbox.NotFound && (wanted || a.interactive() && a.askYesNo("this repository's boxes run in a virtual machine by Lima, which this home does not have. make it?")) {
		err = nil // startLima makes it
	} else if agentbox.CodeOf(err) == agentbox.NotFound {
		err = agentbox.Errorf(agentbox.Conflict, "this repository's boxes run in a virtual machine by Lima, which this home does not have").WithHint("agentbox lima start makes it; agentbox lima create chooses its size")
	}
	if err == nil {
		_, err = a.startLima(ctx, vm)
	}
	end()
	if err != nil {
		return err
	}
	_, err = a.here.Add(ctx, limaHost, "lima://"+lima.Name, func(reach.Bringing) error { return nil })
	return err
}

// asksForLima tells whether the configuration of the current directory does. One that cannot be read
// is reported by the daemon.
func asksForLima(ctx context.Context) bool {
	dir, err := currentDir()
	if err != nil || !config.MayName(dir, string(agentbox.Lima)) { // the rule, and cheaper to find out
		return false
	}
	cfg, err := config.Load(ctx, dir)
	return err == nil && cfg.Isolation == agentbox.Lima
}

// findLima points a verb that works with the boxes and tasks of this directory to the machine, if its
// configuration asks for that; the machine is not started. Without it as a host, which is the rule, this
// costs one look at a file that is not there.
func (a *app) findLima(ctx context.Context, verb *cli.Command) {
	if a.host != "" || verb == nil {
		return
	}
	switch verb.Category {
	case catInside, catLifecycle, catPolicy:
	default:
		if !slices.Contains([]string{"show", "rm", "task", "artifact"}, verb.Name) {
			return
		}
	}
	if _, err := a.here.There(limaHost); err == nil && asksForLima(ctx) {
		a.host = limaHost
	}
}

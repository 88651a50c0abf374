package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
)

// load is what a box uses at a moment. CPUPercent may exceed 100 for a box with several CPUs.
type load struct {
	agentbox.Box
	CPUPercent float64 `json:"cpu_percent"` // of one CPU, since the previous measurement
}

// topCommand is `top`. CPU time and bytes are counters, so everything it shows is a difference of
// two measurements, and the first picture appears after --every.
func (a *app) topCommand() *cli.Command {
	var every time.Duration
	var team bool
	return &cli.Command{
		Name: "top", Category: catBox, Usage: "show what the boxes of this machine use, the busiest first, or with --team the team's machines",
		Description: "On a terminal it repeats until interrupted. Otherwise it measures once, over the time of --every.",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "every", Usage: "measure again after `TIME`", Value: 2 * time.Second, Destination: &every},
			&cli.BoolFlag{Name: "team", Usage: "show the machines of the team and the transfers between them", Destination: &team},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			if every < 100*time.Millisecond {
				return agentbox.Errorf(agentbox.Invalid, "--every %s is too often", every).WithHint("100ms or more")
			}
			if team {
				peers := func(ctx context.Context) ([]api.MeshPeer, error) { return call(ctx, a, api.ListPeers, api.None{}) }
				return watch(ctx, a, every, peers, a.showPeers)
			}
			return watch(ctx, a, every, a.usage, a.showLoads(ctx))
		},
	}
}

// watch measures repeatedly, and shows each measurement with the previous one. Without a terminal,
// and with --json or --quiet, it shows one pair and returns. Otherwise it goes on until ctx ends,
// which is the normal end. It returns the error of the first failed measurement.
func watch[T any](ctx context.Context, a *app, every time.Duration, measure func(context.Context) (T, error), show func(before, now T, passed time.Duration) error) error {
	_, terminal := a.outTerminal()
	live := terminal && !a.json && !a.quiet
	before, err := measure(ctx)
	for at := time.Now(); err == nil; {
		if !background.Sleep(ctx, every) {
			return nil
		}
		var now T
		if now, err = measure(ctx); err != nil {
			break
		}
		then := time.Now()
		if live {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
		}
		if err = show(before, now, then.Sub(at)); err != nil || !live {
			return err
		}
		// Use the actual interval, because measuring takes time too.
		before, at = now, then
	}
	// An interrupt during a measurement is the same normal end as one between two.
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// usage makes one measurement: every box with what it uses.
func (a *app) usage(ctx context.Context) ([]agentbox.Box, error) {
	return call(ctx, a, api.ListBoxes, api.ListRequest{Usage: true})
}

// showLoads returns a func that shows the difference of two measurements of the boxes. --json
// prints a list of load, busiest first, once.
func (a *app) showLoads(ctx context.Context) func(before, now []agentbox.Box, passed time.Duration) error {
	return func(before, now []agentbox.Box, passed time.Duration) error {
		loads := loadsOf(before, now, passed)
		err := a.report(loadFacts(loads))
		if err == nil && !a.json && !a.quiet {
			err = a.printCapacity(ctx)
		}
		return err
	}
}

// printCapacity says below the boxes how much room this machine has for more of them.
func (a *app) printCapacity(ctx context.Context) error {
	r, err := call(ctx, a, api.ShowResources, api.None{})
	if err == nil {
		fmt.Fprintln(a.stdout, capacityText(r))
	}
	return err
}

// capacityText returns the last line of top. The promised memory is what boxes may grow to, which
// may be more than they use.
func capacityText(r api.Resources) string {
	return fmt.Sprintf("%s of %s available, %s promised to %s; room for %s of %s and %s",
		bytesText(r.Machine.Available), bytesText(r.Machine.Memory), bytesText(r.Allocated.Memory), agentbox.PluralOf(r.Allocated.Boxes, "box", "boxes"),
		agentbox.PluralOf(r.Room, "more", "more"), bytesText(r.Next.Memory), agentbox.Plural(r.Next.CPUs, "CPU"))
}

// peerLoad is a machine of the team, with its transfer rates since the previous measurement.
type peerLoad struct {
	api.MeshPeer
	Sending   float64 `json:"sending"`   // bytes per second sent to it
	Receiving float64 `json:"receiving"` // bytes per second received from it
}

// showPeers shows the team's machines and the transfers, without former members. Rates cover the
// pieces that this machine sent and received, not all traffic of the others. --json prints a list
// of peerLoad.
func (a *app) showPeers(before, now []api.MeshPeer, passed time.Duration) error {
	// By ID, because two members may have the same name.
	was := map[string]api.MeshPeer{}
	for _, p := range before {
		was[p.ID] = p
	}
	var loads []peerLoad
	for _, p := range slices.DeleteFunc(now, isFormerMember) {
		// A machine that has just appeared counts from 0, so its first rate may be high.
		old := was[p.ID]
		loads = append(loads, peerLoad{MeshPeer: p, Sending: rate(old.Sent, p.Sent, passed), Receiving: rate(old.Received, p.Received, passed)})
	}
	head := []string{"NAME", "STATE", "LOAD", "FREE", "SENDING", "RECEIVING", "SENT", "RECEIVED", "WRONG"}
	return a.report(listed(loads, head, func(l peerLoad) (string, []string) {
		return l.ID, []string{
			l.Name, l.State, fmt.Sprintf("%d%%", l.Load), bytesText(l.Free), bytesText(int64(l.Sending)) + "/s", bytesText(int64(l.Receiving)) + "/s",
			bytesText(l.Sent), bytesText(l.Received), fmt.Sprint(l.Corrupt),
		}
	}))
}

// rate returns the increase per second. A restarted daemon counts from 0, so a decrease means 0.
func rate(before, now int64, passed time.Duration) float64 {
	if passed <= 0 || now < before {
		return 0
	}
	return float64(now-before) / passed.Seconds()
}

// loadsOf compares two measurements. A box that is new has used all its CPU time since the first.
func loadsOf(before, now []agentbox.Box, passed time.Duration) []load {
	used := map[agentbox.BoxID]int64{}
	for _, b := range before {
		if b.Usage != nil {
			used[b.ID] = b.Usage.CPUMillis
		}
	}
	loads := []load{}
	for _, b := range now {
		l := load{Box: b}
		// A machine that was replaced in between counts from 0, so a decrease means no load.
		if u := b.Usage; u != nil && passed > 0 && u.CPUMillis >= used[b.ID] {
			l.CPUPercent = float64(u.CPUMillis-used[b.ID]) / float64(passed.Milliseconds()) * 100
		}
		loads = append(loads, l)
	}
	slices.SortStableFunc(loads, func(a, b load) int { return cmp.Compare(b.CPUPercent, a.CPUPercent) })
	return loads
}

// loadFacts returns the facts about loads. A box without a machine uses no CPU and shows no memory.
func loadFacts(loads []load) facts {
	return listed(loads, []string{"NAME", "ID", "STATE", "CPU", "MEMORY", "DISK", "SERVICES"}, func(l load) (string, []string) {
		memory, disk := "", ""
		if u := l.Usage; u != nil {
			memory, disk = bytesText(u.PSS), bytesText(u.Disk)
		}
		var services []string
		for _, s := range l.Services {
			services = append(services, s.Name+":"+string(s.State))
		}
		return l.ID.String(), []string{l.Name, l.ID.String(), string(l.State), fmt.Sprintf("%.0f%%", l.CPUPercent), memory, disk, strings.Join(services, " ")}
	})
}

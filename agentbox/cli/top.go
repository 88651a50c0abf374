package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// load is what a box takes at a moment.
type load struct {
	agentbox.Box
	CPUPercent float64 `json:"cpu_percent"` // of one CPU, since the measurement before
}

func (a *app) topCommand() *cli.Command {
	var every time.Duration
	return &cli.Command{
		Name: "top", Category: catBox, Usage: "show what the boxes of this machine take, the busiest first",
		Description: "On a terminal it goes on until it is interrupted; elsewhere it measures once, for as long as --every says.",
		Flags:       []cli.Flag{&cli.DurationFlag{Name: "every", Usage: "measure anew after `TIME`", Value: 2 * time.Second, Destination: &every}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			if every < 100*time.Millisecond {
				return agentbox.Errorf(agentbox.Invalid, "--every %s is too often", every).WithHint("100ms or more")
			}
			return a.top(ctx, every)
		},
	}
}

func (a *app) top(ctx context.Context, every time.Duration) error {
	out, ok := a.stdout.(interface{ Fd() uintptr })
	live := ok && term.IsTerminal(int(out.Fd())) && !a.json && !a.quiet
	before, at, err := a.usage(ctx)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil // how it is meant to end
		case <-time.After(every):
		}
		var now []agentbox.Box
		var then time.Time
		if now, then, err = a.usage(ctx); err != nil {
			break
		}
		loads := loadsOf(before, now, then.Sub(at))
		if live {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
		}
		if err = a.report(facts{value: loads, ids: loadIDs(loads), table: loadRows(loads)}); err == nil && !a.json && !a.quiet {
			err = a.sayRoom(ctx)
		}
		if err != nil || !live {
			return err
		}
		before, at = now, then
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sayRoom says below the boxes what this machine has left for more of them.
func (a *app) sayRoom(ctx context.Context) error {
	r, err := call(ctx, a, api.ShowResources, api.None{})
	if err == nil {
		fmt.Fprintln(a.stdout, roomText(r))
	}
	return err
}

func roomText(r api.Resources) string {
	return fmt.Sprintf("%s of %s available, %s promised to %s; room for %s of %s and %s",
		bytesText(r.Machine.Available), bytesText(r.Machine.Memory), bytesText(r.Promised.Memory), agentbox.PluralOf(r.Promised.Boxes, "box", "boxes"),
		agentbox.PluralOf(r.Room, "more", "more"), bytesText(r.Next.Memory), agentbox.Plural(r.Next.CPUs, "CPU"))
}

func (a *app) usage(ctx context.Context) ([]agentbox.Box, time.Time, error) {
	boxes, err := call(ctx, a, api.ListBoxes, api.ListRequest{Usage: true})
	return boxes, time.Now(), err
}

// loadsOf compares two measurements. A box that was not there before has used all its CPU time since.
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
		// A machine that was replaced meanwhile begins at nothing.
		if u := b.Usage; u != nil && passed > 0 && u.CPUMillis >= used[b.ID] {
			l.CPUPercent = float64(u.CPUMillis-used[b.ID]) / float64(passed.Milliseconds()) * 100
		}
		loads = append(loads, l)
	}
	slices.SortStableFunc(loads, func(a, b load) int { return cmp.Compare(b.CPUPercent, a.CPUPercent) })
	return loads
}

func loadIDs(loads []load) []string {
	var ids []string
	for _, l := range loads {
		ids = append(ids, l.ID.String())
	}
	return ids
}

func loadRows(loads []load) [][]string {
	rows := [][]string{{"NAME", "ID", "STATE", "CPU", "MEMORY", "DISK", "SERVICES"}}
	for _, l := range loads {
		row := []string{l.Name, l.ID.String(), string(l.State), fmt.Sprintf("%.0f%%", l.CPUPercent)}
		if u := l.Usage; u != nil {
			row = append(row, bytesText(u.PSS), bytesText(u.Disk))
		} else {
			row = append(row, "", "")
		}
		rows = append(rows, append(row, strings.Join(serviceStates(l.Services), " ")))
	}
	return rows
}

func serviceStates(services []agentbox.Service) []string {
	var out []string
	for _, s := range services {
		out = append(out, s.Name+":"+s.State)
	}
	return out
}

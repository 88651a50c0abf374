package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
)

// policyLog is `policy log`. The box's supervisor writes the log into a directory of this host.
// This program reads it directly, so it works for removed boxes too. --follow ends with an
// interrupt.
func (a *app) policyLog() *cli.Command {
	var follow, verify, denied bool
	return &cli.Command{
		Name: "log", Usage: "show what a box tried to reach, and the verdicts", ArgsUsage: "[BOX]",
		Description: "With --json it prints one line of JSON for each entry. To see the log of a removed box, give its ID.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep printing new entries until interrupted", Destination: &follow},
			&cli.BoolFlag{Name: "verify", Usage: "check that no entry was changed, inserted or removed", Destination: &verify},
			&cli.BoolFlag{Name: "denied", Usage: "show only denied attempts", Destination: &denied},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			location, err := call(ctx, a, api.AuditLog, a.ref(cmd.Args().First()))
			if err != nil {
				return err
			}
			// Every form of the log uses show, so --denied works with all of them except --verify,
			// which must see each entry.
			show := func(e policy.Entry) error {
				if denied && e.Allow {
					return nil
				}
				return a.printEntry(e)
			}
			switch {
			case verify:
				return a.verifyLog(location)
			// Start at the beginning and go on from there, so that nothing is missed between two
			// calls.
			case follow:
				return policy.Follow(ctx, location.Directory, 0, show)
			}
			return policy.Read(location.Directory, show)
		},
	}
}

// verifyLog is `policy log --verify`. Each entry has the hash of the previous one, so it detects
// any change, gap or insertion. It cannot detect that all entries after some point were dropped. It
// therefore prints the head, to compare with a copy kept elsewhere.
func (a *app) verifyLog(location api.AuditLocation) error {
	v, err := policy.Verify(location.Directory)
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "the audit log of box %s: %w", location.Box, err).WithHint("see %s", location.Directory)
	}
	if a.json {
		return a.printJSON(map[string]any{"box": location.Box, "entries": v.Entries, "first": v.First, "last": v.Last, "head": v.Head})
	}
	// An empty log is no error: a box that tried nothing has no entries.
	if v.Entries == 0 {
		fmt.Fprintf(a.stdout, "the audit log of box %s is empty\n", location.Box)
		return nil
	}
	fmt.Fprintf(a.stdout, "%s of box %s, %d to %d, verified; the last has hash %s\n", agentbox.PluralOf(int(v.Entries), "entry", "entries"), location.Box, v.First, v.Last, v.Head)
	return nil
}

// printEntry prints one entry: a line of text or, with --json, one line of JSON, so that a growing
// log can be piped. The JSON is a policy.Entry, as in the log.
func (a *app) printEntry(e policy.Entry) error {
	if a.json {
		// Unlike all other JSON it is not indented, because each entry is one line.
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(e)
	}
	_, err := fmt.Fprintln(a.stdout, entryText(e))
	return err
}

// entryText returns an entry for people, on one line. A box chose its names, paths and reasons, so
// the whole line is sanitized.
func entryText(e policy.Entry) string {
	verdict := "deny "
	if e.Allow {
		verdict = "allow"
	}
	parts := []string{e.Time.Local().Format(time.DateTime), verdict}
	// Most entries are flows, so only other kinds are named.
	if e.Kind != policy.KindFlow {
		parts = append(parts, e.Kind)
	}
	if e.Proto != "" {
		parts = append(parts, string(e.Proto))
	}
	if target := entryTarget(e); target != "" {
		parts = append(parts, target)
	}
	if e.Count > 1 {
		parts = append(parts, fmt.Sprintf("(%d times)", e.Count))
	}
	if e.Secret != "" {
		parts = append(parts, "secret "+e.Secret)
	}
	if e.In+e.Out > 0 {
		parts = append(parts, fmt.Sprintf("%s in, %s out", bytesText(e.In), bytesText(e.Out)))
	}
	if e.Reason != "" {
		parts = append(parts, "- "+e.Reason)
	}
	if e.Hint != "" {
		parts = append(parts, "- "+e.Hint)
	}
	return agentbox.Printable(strings.Join(parts, " "))
}

// entryTarget returns METHOD HOST:PORT/PATH, as far as these are known.
func entryTarget(e policy.Entry) string {
	host := e.Name
	if host == "" {
		host = e.Address
	}
	if host != "" && e.Port != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(int(e.Port)))
	}
	return strings.TrimSpace(e.Method + " " + host + e.Path)
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/policy"
)

// policyLog is `policy log`. It works for removed boxes too. --follow ends with an interrupt.
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
			ref := a.ref(cmd.Args().First())
			// --verify must see each entry, so --denied does nothing there.
			if verify {
				return callAndReport(ctx, a, api.VerifyAudit, ref, verifiedFacts)
			}
			err := a.auditLog(ctx, api.AuditRequest{BoxRef: ref, Follow: follow}, func(e policy.Entry) error {
				if denied && e.Allow {
					return nil
				}
				return a.printEntry(e)
			})
			if follow && ctx.Err() != nil {
				return nil // an interrupt is the normal way to end it
			}
			return err
		},
	}
}

// auditLog passes the entries of a box's log to visit, oldest first, until visit returns an error,
// which it returns.
func (a *app) auditLog(ctx context.Context, req api.AuditRequest, visit func(policy.Entry) error) error {
	return background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return download(ctx, a, api.AuditLog, req, w)
	}, func(_ context.Context, r io.Reader) error {
		for dec := json.NewDecoder(r); ; {
			var e policy.Entry
			if err := dec.Decode(&e); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := visit(e); err != nil {
				return err
			}
		}
	})
}

// verifiedFacts are those of `policy log --verify`. Each entry has the hash of the previous one, so
// it detects any change, gap or insertion. It cannot detect that all entries after some point were
// dropped. It therefore prints the head, to compare with a copy kept elsewhere. An empty log is no
// error: a box that tried nothing has no entries.
func verifiedFacts(v api.AuditVerified) facts {
	f := facts{value: v, text: fmt.Sprintf("the audit log of box %s is empty", v.Box)}
	if v.Entries > 0 {
		f.text = fmt.Sprintf("%s of box %s, %d to %d, verified; the last has hash %s", agentbox.PluralOf(int(v.Entries), "entry", "entries"), v.Box, v.First, v.Last, v.Head)
	}
	return f
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

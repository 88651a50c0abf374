package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
	"agentbox/policy"
)

// maxDenied is how many of the last denials are told.
const maxDenied = 20

// why says what the policy decides about a URL, or what it denied last.
func (s Server) why(ctx context.Context, in whyIn, _ agentbox.Progress) (string, error) {
	if in.URL == "" {
		return s.denied(ctx, in.Box)
	}
	req := api.CheckRequest{PolicyRef: api.PolicyRef{BoxRef: api.BoxRef{Box: in.Box}}, URL: in.URL, Method: in.Method}
	r, err := client.Call(ctx, s.Client, api.CheckPolicy, req, nil)
	if err != nil {
		return "", err
	}
	v := r.Verdict
	return verdictText(r.URL, v.Allow, v.Rule, string(v.Source), v.Reason, v.Hint), nil
}

func verdictText(what string, allow bool, rule, source, reason, hint string) string {
	text := "denied: "
	if allow {
		text = "allowed: "
	}
	text += what
	if reason != "" {
		text += ": " + reason
	}
	if rule != "" {
		text += fmt.Sprintf(" (rule %q of %s)", rule, source)
	}
	text = agentbox.Printable(text)
	if hint != "" && !allow {
		text += "\na person can allow it: " + agentbox.Printable(hint)
	}
	return text
}

// denials keeps the last denials of a log.
type denials struct {
	rest []byte
	last []policy.Entry
}

// Write implements io.Writer.
func (d *denials) Write(p []byte) (int, error) {
	d.rest = append(d.rest, p...)
	for {
		line, rest, whole := bytes.Cut(d.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		d.rest = bytes.Clone(rest)
		var e policy.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return 0, err
		}
		if e.Allow {
			continue
		}
		if d.last = append(d.last, e); len(d.last) > maxDenied {
			d.last = d.last[1:]
		}
	}
}

func (s Server) denied(ctx context.Context, box string) (string, error) {
	var d denials
	if err := client.Read(ctx, s.Client, api.AuditLog, api.AuditRequest{BoxRef: api.BoxRef{Box: box}}, &d); err != nil {
		return "", err
	}
	if len(d.last) == 0 {
		return "nothing was denied", nil
	}
	var b strings.Builder
	for _, e := range d.last {
		what := strings.TrimSpace(fmt.Sprintf("%s %s:%d%s", e.Method, max(e.Name, e.Address), e.Port, e.Path))
		fmt.Fprintf(&b, "%s %s\n", e.Time.UTC().Format("15:04:05"), verdictText(what, false, e.Rule, string(e.Source), e.Reason, e.Hint))
	}
	return b.String(), nil
}

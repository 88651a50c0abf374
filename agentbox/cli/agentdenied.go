package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/task/agents"
	"agentbox/policy"
)

// checkHosts returns the rules of a profile for hosts that the policy denies even once they are
// granted, and reports each. If it denies all of them, the error is Conflict: the agent would only
// wait for its API, in a box that took minutes to make.
func (a *app) checkHosts(report api.PolicyReport, profile agents.Profile) (denied []string, err error) {
	granted := policy.Layer{Source: policy.User}
	var flows []policy.Flow
	for _, list := range []struct {
		rules []string
		to    *[]policy.Rule
	}{{profile.Hosts, &granted.Allow}, {profile.Private, &granted.Private}} {
		for _, text := range list.rules {
			r, err := policy.ParseRule(text)
			if err != nil {
				return nil, agentbox.Errorf(agentbox.Invalid, "agent %s: %w", profile.Name, err)
			}
			*list.to = append(*list.to, r)
			flows = append(flows, policy.Flow{Proto: policy.TCP, Name: r.Host, Port: cmp.Or(r.From, 443)})
		}
	}
	p := policy.New(policy.Spec{Layers: append([]policy.Layer{granted}, report.Layers...)}, nil)
	rules := append(append([]string{}, profile.Hosts...), profile.Private...)
	var last policy.Verdict
	for i, f := range flows {
		if v := p.Decide(f); !v.Allow && f.Name != "" && !strings.HasPrefix(f.Name, "*") {
			denied, last = append(denied, rules[i]), v
			if !a.quiet {
				fmt.Fprintf(a.stderr, "%s: boxes of this repository may not reach %s: %s\n", profile.Name, rules[i], v.Reason)
			}
		}
	}
	if len(denied) > 0 && len(denied) == len(flows) {
		return denied, agentbox.Errorf(agentbox.Conflict, "%s cannot work in boxes of this repository: the policy denies %s: %s", profile.Name, strings.Join(denied, ", "), last.Reason).
			WithHint("%s", cmp.Or(last.Hint, "agentbox policy show"))
	}
	return denied, nil
}

// errSaid ends the reading of a log whose first denial was reported.
var errSaid = errors.New("said")

// reportFirstDenial reports, on standard error and once, that the policy denied an agent one of the
// hosts of its profile, as agents speak of the network then, if of anything. Call done when the agent
// has ended.
func (a *app) reportFirstDenial(ctx context.Context, box, name string) (done func()) {
	began := time.Now()
	ref, _ := a.policyRef(ctx, "")
	profile, err := call(ctx, a, api.FindAgent, api.AgentRequest{PolicyRef: ref, Agent: name})
	if err != nil || a.quiet {
		return func() {} // the agent runs all the same, and its result says what was denied
	}
	hosts := profile.HostNames()
	visit := func(e policy.Entry) error {
		if e.Allow || e.Time.Before(began) || !agentbox.NamesHost(hosts, e.Name) {
			return nil
		}
		text := fmt.Sprintf("%s was denied %s: %s", name, e.Name, e.Reason)
		if e.Hint != "" {
			text += "; to allow it: " + e.Hint
		}
		fmt.Fprintf(a.stderr, "\r%s\r\n", oneLine(text)) // the terminal may be in raw mode
		return errSaid
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.auditLog(ctx, api.AuditRequest{BoxRef: a.ref(box), Follow: true}, visit) }()
	return func() {
		stop()
		if err := <-ended; !errors.Is(err, errSaid) {
			_ = a.auditLog(context.WithoutCancel(ctx), api.AuditRequest{BoxRef: a.ref(box)}, visit) // what was written since it last looked
		}
	}
}

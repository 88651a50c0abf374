package host

import (
	"context"
	"errors"
	"maps"
	"strings"
	"unicode/utf8"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/egress"
)

// Label serves api.Label: it changes what programs wrote on a box of m.
func Label(m *Manager) api.Func[api.LabelRequest, agentbox.Box] {
	return func(ctx context.Context, req api.LabelRequest, _ agentbox.Progress) (agentbox.Box, error) {
		return m.operate(ctx, req.BoxRef, func(b *box) error {
			all, err := relabel(b.record().Box.Labels, req.Labels)
			if err != nil {
				return err
			}
			return b.change(m.home, func(rec *record) { rec.Box.Labels = all })
		})
	}
}

// Bind serves api.Bind. A machine that does not take the new bound keeps the old one, and so does its box.
func Bind(m *Manager) api.Func[api.BindRequest, agentbox.Box] {
	return func(ctx context.Context, req api.BindRequest, _ agentbox.Progress) (agentbox.Box, error) {
		if err := egress.CheckBound(req.Bound); err != nil {
			return agentbox.Box{}, err
		}
		return m.operate(ctx, req.BoxRef, func(b *box) error {
			old := b.record().Bound
			err := b.change(m.home, func(rec *record) { rec.Bound = req.Bound })
			if err == nil {
				if err = m.machines.applyPolicy(ctx, b); err != nil {
					err = errors.Join(err, b.change(m.home, func(rec *record) { rec.Bound = old }))
				}
			}
			return err
		})
	}
}

// relabel returns labels with changes, of which "" removes one.
func relabel(old, changes map[string]string) (map[string]string, error) {
	all := map[string]string{}
	maps.Copy(all, old)
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all, checkLabels(all)
}

func checkLabels(labels map[string]string) error {
	if len(labels) > api.MaxLabels {
		return agentbox.Errorf(agentbox.Invalid, "a box has at most %d labels", api.MaxLabels)
	}
	for name, value := range labels {
		if name == "" || len(name)+len(value) > api.MaxLabel || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return agentbox.Errorf(agentbox.Invalid, "the label %.40q is empty or too long", name).WithHint("a name and its value have at most %d bytes", api.MaxLabel)
		}
	}
	return nil
}

// checkEnv refuses variables that no process can have.
func checkEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return agentbox.Errorf(agentbox.Invalid, "%.40q cannot be a variable", name)
		}
	}
	return nil
}

func hasLabels(b agentbox.Box, wanted map[string]string) bool {
	for name, value := range wanted {
		if b.Labels[name] != value {
			return false
		}
	}
	return true
}

package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
)

// settings are what a configuration, with its flags applied, asks of a machine: a digest of the value for every key that
// a reset puts into effect. They are written down to tell later which of them have changed.
type settings map[string]string

func settingsOf(cfg *config.Config) settings {
	s := settings{}
	for key, value := range map[string]any{
		"image": cfg.Image, "packages": cfg.Packages, "toolchain": constraintsOf(cfg), "include": cfg.Include, "kernel": cfg.Kernel,
		"cpus": cfg.CPUs, "memory": cfg.Memory, "user": cfg.User, "start": cfg.Start, "services": cfg.Services,
		"ports": cfg.Ports, "env": cfg.Env,
	} {
		b, err := json.Marshal(value)
		if err != nil {
			b = fmt.Append(nil, value) // no such value is known
		}
		sum := sha256.Sum256(b)
		s[key] = hex.EncodeToString(sum[:8])
	}
	return s
}

// constraintsOf are the tools and versions that are asked for, whichever files ask for them. nil
// for none, so that a box made by an earlier version shows no change.
func constraintsOf(cfg *config.Config) []string {
	var out []string
	for _, n := range cfg.Toolchain {
		out = append(out, string(n.Tool)+" "+n.Constraint)
	}
	return out
}

// changed names the keys that are different now. A box of an earlier version wrote none down, and shows no change.
func (s settings) changed(now settings) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if now[key] != s[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// with gives the overrides of a box with those of a later command over them.
func (o overrides) with(later overrides) overrides {
	if later.Image != "" {
		o.Image = later.Image
	}
	if later.CPUs != 0 {
		o.CPUs = later.CPUs
	}
	if later.Memory != "" {
		o.Memory = later.Memory
	}
	if later.Agent != "" {
		o.Agent, o.Tools = later.Agent, later.Tools
	}
	variables := maps.Clone(o.Variables)
	if variables == nil {
		variables = map[string]string{}
	}
	maps.Copy(variables, later.Variables)
	o.Variables = variables
	return o
}

// flags are the keys that overrides set, as flags of the command line.
func (o overrides) flags() map[string]bool {
	return map[string]bool{"image": o.Image != "", "cpus": o.CPUs != 0, "memory": o.Memory != ""}
}

// tellChanges says what the configuration and the flags ask for now that the box has not: they take effect with a reset,
// for which what the flags ask for is kept.
func (m *Manager) tellChanges(b *box, cfg *config.Config, flags overrides, progress agentbox.Progress) error {
	rec := b.record()
	now := rec.Overrides.with(flags)
	if err := now.apply(cfg); err != nil {
		return err
	}
	var names []string
	for _, key := range rec.Settings.changed(settingsOf(cfg)) {
		if key == "toolchain" && flags.Agent != "" && flags.Agent != rec.Overrides.Agent {
			continue // the agent's tools are about to be added
		}
		if flags.flags()[key] {
			key = "--" + key
		}
		names = append(names, key)
	}
	if len(names) > 0 {
		progress.Say(fmt.Sprintf("box %s does not have what is new in %s: `agentbox reset` gives it that, and keeps the workspace",
			rec.Box.Name, strings.Join(names, ", ")))
	}
	if flags.Isolation != "" && flags.Isolation != agentbox.Auto && flags.Isolation != rec.Box.Isolation {
		progress.Say(fmt.Sprintf("box %s keeps its isolation for life, %s: agentbox rm and up make another", rec.Box.Name, rec.Box.Isolation))
	}
	if rec.Box.Disk != cfg.Disk {
		progress.Say(fmt.Sprintf("box %s keeps the size of its disk for life: agentbox rm and up make another", rec.Box.Name))
	}
	if !slices.Contains(slices.Collect(maps.Values(flags.flags())), true) {
		return nil
	}
	b.set(func(b *box) { b.rec.Overrides = now })
	return writeRecord(m.home, b.record())
}

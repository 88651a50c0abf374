package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
)

// reportChanges says what the configuration and the flags ask for that the box does not have, and
// records the flags and the configuration's place for the next reset, which applies them. They are
// not applied now because a reset drops everything but the workspace. cfg is the configuration of
// subdir with all flags applied.
func (m *Manager) reportChanges(b *box, cfg *config.Config, subdir string, asked flags.Flags, progress agentbox.Progress) error {
	rec := b.record()
	var names []string
	for _, key := range rec.Settings.Changed(flags.SettingsOf(cfg)) {
		if key == "toolchain" && asked.Agent != "" && asked.Agent != rec.Overrides.Agent {
			continue // the agent's tools are about to be added
		}
		if asked.Set()[key] {
			key = "--" + key
		}
		names = append(names, key)
	}
	if len(names) > 0 {
		progress.Note(fmt.Sprintf("box %s does not have what is new in %s: `agentbox reset` gives it that, and keeps the workspace",
			rec.Box.Name, strings.Join(names, ", ")))
	}
	if asked.Isolation != "" && asked.Isolation != agentbox.Auto && asked.Isolation != rec.Box.Isolation {
		progress.Note(fmt.Sprintf("box %s keeps its kind of isolation, %s: agentbox rm and up make another", rec.Box.Name, rec.Box.Isolation))
	}
	if rec.Box.Disk != cfg.Disk {
		progress.Note(fmt.Sprintf("box %s keeps the size of its disk: agentbox rm and up make another", rec.Box.Name))
	}
	if !slices.Contains(slices.Collect(maps.Values(asked.Set())), true) && asked.Devcontainer == "" && subdir == rec.Subdir {
		return nil
	}
	// addAgent records the agent once it is installed: until then the box does not have it.
	asked.Agent, asked.Tools = "", nil
	return b.change(m.home, func(rec *record) { rec.Overrides, rec.Subdir = rec.Overrides.With(asked), subdir })
}

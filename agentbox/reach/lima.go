package reach

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

const limaScheme = "lima://"

// lima is the name of a machine by Lima, which a host may be; "" if it is another.
func (h Host) lima() string {
	name, _ := strings.CutPrefix(h.Target, limaScheme)
	if name == h.Target {
		return ""
	}
	return name
}

// machine is what ssh takes as the machine. Lima writes a configuration for ssh that has this name.
func (h Host) machine() string {
	if name := h.lima(); name != "" {
		return "lima-" + name
	}
	return h.Target
}

// try is a command by which a person finds out why a host cannot be reached.
func (h Host) try() string {
	if name := h.lima(); name != "" {
		return "limactl shell " + name + ", or agentbox lima start for the machine of this home"
	}
	return "ssh " + h.Target
}

// limaConfig is the configuration for ssh of a machine by Lima: that of this home, or else one of the
// user's own. Lima writes it anew at each start, as the port may be another.
func (h Here) limaConfig(name string) (string, error) {
	homes := []string{h.home.Lima(), os.Getenv("LIMA_HOME")}
	if dir, err := os.UserHomeDir(); err == nil {
		homes = append(homes, filepath.Join(dir, ".lima"))
	}
	for _, dir := range homes {
		path := filepath.Join(dir, name, "ssh.config")
		if _, err := os.Stat(path); dir != "" && !errors.Is(err, os.ErrNotExist) {
			return path, err
		}
	}
	return "", agentbox.Errorf(agentbox.NotFound, "there is no machine %s by Lima, or it was never started", name).
		WithHint("limactl list shows yours; agentbox lima start makes one for this home, which is lima://agentbox")
}

// isLima tells whether a target is a machine by Lima, by the rules that Lima has for names.
func isLima(target string) bool {
	name, ok := strings.CutPrefix(target, limaScheme)
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return ok && name != "" && strings.Trim(name, letters+"_.-") == "" && strings.ContainsRune(letters, rune(name[0]))
}

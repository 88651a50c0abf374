package isolation

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
)

// need is something that files at a repository's root show that it needs, and what to do about it
// in boxes of the kinds that lack it. docs/isolation.md and docs/fidelity.md have the reasons.
type need struct {
	what    string
	present []string          // one of these files is there
	mention map[string]string // a file mentions one of these words, which are separated by spaces
	lacking map[agentbox.Isolation]string
}

// containers is the need that a Compose file shows.
const containers = "containers"

var needs = []need{
	{what: containers, present: []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"},
		lacking: map[agentbox.Isolation]string{agentbox.GVisor: "Docker and Podman need the recipe in docs/services.md, or --isolation microvm"}},
	{what: "virtual machines", present: []string{"Vagrantfile"},
		lacking: map[agentbox.Isolation]string{agentbox.GVisor: "run them on the host", agentbox.Container: "run them on the host"}},
	{what: "eBPF", mention: map[string]string{"go.mod": "github.com/cilium/ebpf github.com/aquasecurity/libbpfgo", "Cargo.toml": "aya libbpf-rs redbpf"},
		lacking: map[agentbox.Isolation]string{agentbox.GVisor: "--isolation microvm, or container for code that you trust"}},
	{what: "io_uring", mention: map[string]string{"Cargo.toml": "io-uring tokio-uring glommio", "meson.build": "liburing", "CMakeLists.txt": "liburing uring", "go.mod": "github.com/iceber/iouring-go"},
		lacking: map[agentbox.Isolation]string{agentbox.GVisor: "--isolation microvm, or container for code that you trust"}},
	{what: "Firefox", mention: map[string]string{"package.json": "geckodriver selenium-firefox", "requirements.txt": "geckodriver-autoinstaller"},
		lacking: map[agentbox.Isolation]string{agentbox.GVisor: "it aborts there; Chromium works"}},
}

// maxNeedFile bounds what is read of a file, in bytes.
const maxNeedFile = 1 << 20

// Lacks tells what a repository visibly needs that boxes of a kind do not have, each need once. The
// services of a Compose file that the configuration takes need no engine.
func Lacks(kind agentbox.Isolation, root string, cfg *config.Config) []agentbox.Lack {
	var all []agentbox.Lack
	for _, n := range needs {
		instead, lacks := n.lacking[kind]
		if !lacks || n.what == containers && len(cfg.Compose) > 0 {
			continue
		}
		if by := n.shownBy(root); by != "" {
			all = append(all, agentbox.Lack{What: n.what, File: by, Instead: instead})
		}
	}
	return all
}

// shownBy is the first file that shows a need, "" for none.
func (n need) shownBy(root string) string {
	for _, name := range n.present {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			return name
		}
	}
	var files []string
	for name, words := range n.mention {
		text, err := project.ReadInside(root, name, maxNeedFile)
		if err == nil && slices.ContainsFunc(strings.Fields(words), func(word string) bool { return mentions(text, word) }) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return strings.Join(files, ", ")
}

// mentions tells whether a text has a word that is no part of a longer one.
func mentions(text []byte, word string) bool {
	return regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(word) + `($|[^\w-])`).Match(text)
}

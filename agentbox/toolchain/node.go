package toolchain

import (
	"encoding/json"
	"maps"
	"path"
	"strings"

	"agentbox/agentbox"
)

// Patterns for versions: the characters of their notation and no other, of bounded length.
var (
	// NodeRange matches a range of versions in npm's notation. Resolving it shows whether it makes
	// sense.
	NodeRange = agentbox.Pattern(`^[0-9xX*.<>=~^| v][0-9xX*.<>=~^| v-]{0,79}$`)
	// ExactVersion matches the version in packageManager.
	ExactVersion = agentbox.Pattern(`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$`)
	// someVersion may omit the last numbers, which means the newest version with that prefix.
	someVersion = agentbox.Pattern(`^[0-9]{1,4}(\.[0-9]{1,4}){0,2}$`)
)

// ltsLines maps the names that .nvmrc files use to major versions.
var ltsLines = map[string]string{
	"argon": "4", "boron": "6", "carbon": "8", "dubnium": "10", "erbium": "12", "fermium": "14", "gallium": "16",
	"hydrogen": "18", "iron": "20", "jod": "22", "krypton": "24",
}

// packageJSON is the part of package.json that names tools. Other fields are ignored, and so is one
// of these with another type.
type packageJSON struct {
	Engines        field[map[string]string] `json:"engines"`
	Volta          field[map[string]string] `json:"volta"`
	PackageManager field[string]            `json:"packageManager"`
	DevEngines     field[devEngines]        `json:"devEngines"`
}

// devEngines has what npm (10.9 and later) and pnpm check before every command.
type devEngines struct {
	Runtime        field[engines] `json:"runtime"`
	PackageManager field[engines] `json:"packageManager"`
}

// engines are the alternatives of one kind: an object or a list of them.
type engines []struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *engines) UnmarshalJSON(data []byte) error {
	if !strings.HasPrefix(strings.TrimSpace(string(data)), "[") {
		data = []byte("[" + string(data) + "]")
	}
	type plain engines
	return json.Unmarshal(data, (*plain)(e))
}

// field is a value of JSON that may have another type than expected, and is zero then.
type field[T any] struct{ is T }

// UnmarshalJSON implements json.Unmarshaler.
func (f *field[T]) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &f.is) != nil {
		var none T
		f.is = none
	}
	return nil
}

// readNode reads the pins, package.json, and only the head of locks, which have megabytes.
func readNode(s *scan, dir string) {
	for _, name := range []string{".nvmrc", ".node-version"} {
		file := path.Join(dir, name)
		if content, ok := s.read(file); ok {
			s.need(needOf(Node, file, "", firstWord(content)))
		}
	}
	file := path.Join(dir, "package.json")
	content, ok := s.read(file)
	if !ok {
		return
	}
	s.readPackageJSON(file, content)
	s.lock(dir, "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock")
	// A lock asks for the program that wrote it, unless packageManager names a version.
	for tool, lock := range map[Tool]string{PNPM: "pnpm-lock.yaml", Yarn: "yarn.lock"} {
		file := path.Join(dir, lock)
		if content, ok := s.head(file); ok && len(s.found.Needs.ForTool(tool)) == 0 {
			n := Need{Tool: tool, File: file, Constraint: lockfileMajor(tool, content)}
			if n.Constraint != "" {
				n.Key = lockKeys[tool]
			}
			s.need(n)
		}
	}
}

// lockKeys are the fields of a lock that show which program wrote it.
var lockKeys = map[Tool]string{PNPM: "lockfileVersion", Yarn: "version"}

// locks maps each lock version to the major version of a program that writes it. If there are
// several, it is the newest that runs on every maintained Node.js. A program refuses or rewrites
// locks of other versions.
var locks = map[Tool]map[string]string{
	PNPM: {"5.3": "6", "5.4": "7", "6.0": "8", "6.1": "8", "9.0": "10"},
	Yarn: {"1": "1", "4": "2", "5": "3", "6": "3", "7": "3", "8": "4", "9": "4", "10": "4"},
}

// yarnMetadata begins the locks of Yarn 2 and later; Yarn 1 writes the version in a comment.
var (
	yarnMetadata = agentbox.Pattern(`(?m)^__metadata:\s*\n\s+version: ["']?([0-9]{1,3})["']?\s*$`)
	pnpmVersion  = agentbox.Pattern(`(?m)^lockfileVersion: ["']?([0-9]{1,3}\.[0-9]{1,3})["']?\s*$`)
)

// lockfileMajor returns the major version of the program that wrote a lock, "" if unknown.
func lockfileMajor(tool Tool, lock string) string {
	version := ""
	switch tool {
	case PNPM:
		if found := pnpmVersion().FindStringSubmatch(lock); found != nil {
			version = found[1]
		}
	case Yarn:
		if strings.Contains(lock, "yarn lockfile v1") {
			version = "1"
		}
		if found := yarnMetadata().FindStringSubmatch(lock); found != nil {
			version = found[1]
		}
	}
	return locks[tool][version]
}

// readPackageJSON prefers volta's pins to engines, because the developers use the pins.
func (s *scan) readPackageJSON(file, content string) {
	var p packageJSON
	if json.Unmarshal([]byte(content), &p) != nil {
		p = packageJSON{} // npm explains best what is wrong with it
	}
	pins := p.Volta.is
	for from, depth := file, 0; pins["extends"] != "" && depth < maxDepth; depth++ {
		from, pins = s.extended(from, pins)
	}
	node := needOf(Node, file, "engines.node", p.Engines.is["node"])
	if pin := pins["node"]; pin != "" {
		node = needOf(Node, file, "volta.node", pin)
	}
	s.need(node)
	for _, tool := range []Tool{NPMTool, PNPM, Yarn} {
		if pin := pins[string(tool)]; pin != "" {
			s.need(needOf(tool, file, "volta."+string(tool), pin))
		}
	}
	for _, e := range p.DevEngines.is.Runtime.is {
		if e.Name == string(Node) && e.Version != "" {
			s.need(needOf(Node, file, "devEngines.runtime", e.Version))
			break // the others are alternatives
		}
	}
	for _, e := range p.DevEngines.is.PackageManager.is {
		if tool := Tool(e.Name); tool == NPMTool || tool == PNPM || tool == Yarn {
			s.need(needOf(tool, file, "devEngines.packageManager", e.Version))
			break
		}
	}
	name, version, _ := strings.Cut(p.PackageManager.is, "@")
	version, _, _ = strings.Cut(version, "+") // a hash of its archive, which the registry has as well
	if tool := Tool(name); tool == NPMTool || tool == PNPM || tool == Yarn {
		n := Need{Tool: tool, File: file, Key: "packageManager"}
		if ExactVersion().MatchString(version) {
			n.Constraint = version
		} else {
			n.Refused = clip(version)
		}
		s.need(n)
	}
}

// extended returns the pins of the package.json that volta's extends names, under those of the file
// that extends it.
func (s *scan) extended(file string, pins map[string]string) (string, map[string]string) {
	all := maps.Clone(pins)
	delete(all, "extends")
	other := path.Join(path.Dir(file), pins["extends"])
	if s.root == nil {
		return other, all
	}
	content, _ := s.read(other)
	var p packageJSON
	if json.Unmarshal([]byte(content), &p) == nil {
		for tool, pin := range p.Volta.is {
			if all[tool] == "" {
				all[tool] = pin
			}
		}
	}
	return other, all
}

// firstWord returns the first word of a file that holds one version and perhaps comments.
func firstWord(content string) string {
	for line := range strings.Lines(content) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			return fields[0]
		}
	}
	return ""
}

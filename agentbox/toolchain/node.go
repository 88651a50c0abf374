package toolchain

import (
	"encoding/json"
	"path"
	"strings"

	"agentbox/agentbox"
)

// Patterns for versions: the characters of their notation and no other, of bounded length.
var (
	// nodeRange matches a range of versions in npm's notation. Resolving it shows whether it makes
	// sense.
	nodeRange = agentbox.Pattern(`^[0-9xX*.<>=~^| v-]{1,80}$`)
	// exactVersion matches the version in packageManager.
	exactVersion = agentbox.Pattern(`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$`)
	// someVersion may omit the last numbers, which means the newest version with that prefix.
	someVersion = agentbox.Pattern(`^[0-9]{1,4}(\.[0-9]{1,4}){0,2}$`)
)

// ltsLines maps the names that .nvmrc files use to major versions.
var ltsLines = map[string]string{
	"argon": "4", "boron": "6", "carbon": "8", "dubnium": "10", "erbium": "12", "fermium": "14", "gallium": "16",
	"hydrogen": "18", "iron": "20", "jod": "22", "krypton": "24",
}

// packageJSON is the part of package.json that names tools. Other fields are ignored; one of these
// fields with another type makes the whole file unreadable.
type packageJSON struct {
	Engines        map[string]string `json:"engines"`
	Volta          map[string]string `json:"volta"`
	PackageManager string            `json:"packageManager"`
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

// readPackageJSON prefers volta's pin to the range in engines, because the developers use the pin.
func (s *scan) readPackageJSON(file, content string) {
	var p packageJSON
	if json.Unmarshal([]byte(content), &p) != nil {
		p = packageJSON{} // npm explains best what is wrong with it
	}
	if pin := p.Volta["node"]; pin != "" {
		s.need(needOf(Node, file, "volta.node", pin))
	} else {
		s.need(needOf(Node, file, "engines.node", p.Engines["node"]))
	}
	name, version, _ := strings.Cut(p.PackageManager, "@")
	version, _, _ = strings.Cut(version, "+") // a hash of its archive, which the registry has as well
	if tool := Tool(name); tool == PNPM || tool == Yarn {
		n := Need{Tool: tool, File: file, Key: "packageManager"}
		if exactVersion().MatchString(version) {
			n.Constraint = version
		} else {
			n.Refused = clip(version)
		}
		s.need(n)
	}
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

package config

import (
	"crypto/sha256"
	"maps"
	"math/big"
	"os"
	"path"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
)

// boxWorkspace is where a box has the repository, whatever a devcontainer.json says.
const boxWorkspace = "/workspace"

// variable matches a variable as the format's own tool does: the default value ends at the first
// brace, and what follows a second colon is dropped.
var variable = agentbox.Pattern(`\$\{(.*?)\}`)

// expanded is a text with its variables replaced.
type expanded struct {
	text string
	// missing is the first variable that a box does not replace, because its value is the host's
	// and the file has no default. In text it is empty, as on a host that does not have it.
	missing string
	// ofBox: the text still has ${containerEnv:NAME}, which only the box's environment replaces.
	ofBox bool
}

// noHostEnv is why variables of the host's environment have no value.
const noHostEnv = "a repository does not read the host's environment"

// expand replaces the variables that are known without a box. Both workspace folders are the box's,
// because commands and values are used only there. Any other text in braces stays as it is, as in
// the format's own tool.
func (d *devcontainerDecoder) expand(s string) expanded {
	var e expanded
	e.text = variable().ReplaceAllStringFunc(s, func(v string) string {
		name, rest, more := strings.Cut(v[2:len(v)-1], ":")
		switch name {
		case "env", "localEnv":
			parts := strings.Split(rest, ":")
			if len(parts) > 1 {
				return parts[1]
			}
			if e.missing == "" {
				e.missing = v
			}
			return ""
		case "containerEnv":
			if !more || !ofBox().MatchString(v) {
				return "" // no variable has such a name
			}
			e.ofBox = true
		case "containerWorkspaceFolder", "localWorkspaceFolder":
			return path.Join(boxWorkspace, d.folder)
		case "containerWorkspaceFolderBasename":
			return path.Base(path.Join(boxWorkspace, d.folder))
		case "localWorkspaceFolderBasename":
			return path.Base(path.Join("/", d.root, d.base))
		case "devcontainerId":
			return d.id()
		}
		return v
	})
	return e
}

// id is the value of ${devcontainerId}: computed as the specification says, from the paths that the
// box has, so that checkouts of one repository share what is made with it.
func (d *devcontainerDecoder) id() string {
	labels := `{"devcontainer.config_file":"` + path.Join(boxWorkspace, d.name) + `","devcontainer.local_folder":"` + path.Join(boxWorkspace, d.base) + `"}`
	sum := sha256.Sum256([]byte(labels))
	digits := new(big.Int).SetBytes(sum[:]).Text(32)
	return strings.Repeat("0", max(0, 52-len(digits))) + digits
}

// text reads a text that missing variables make useless, with a warning then, and ok false.
func (d *devcontainerDecoder) text(n *yaml.Node) (s string, ok bool) {
	s, ok = d.Text(n)
	if !ok {
		return "", false
	}
	e := d.expand(s)
	if e.missing != "" {
		d.warn(n, "`%s` is ignored: %s has no value here: %s", d.key, agentbox.Clip(e.missing), noHostEnv)
		return "", false
	}
	return e.text, true
}

// workspaceMount finds out where the file wants the repository, which workspaceFolder is below.
func (d *devcontainerDecoder) workspaceMount(n *yaml.Node) {
	s, ok := d.text(n)
	if !ok {
		return
	}
	for field := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		if name == "target" || name == "dst" || name == "destination" {
			d.mount = path.Clean(value)
		}
	}
	if d.mount != boxWorkspace && asks(n) {
		d.approximate(n, "")
	}
}

// workspaceFolder sets the folder that commands run in, if that is one of the repository. Its path
// is another in the box.
func (d *devcontainerDecoder) workspaceFolder(n *yaml.Node) {
	s, ok := d.text(n)
	if !ok || s == "" {
		return
	}
	s = path.Clean(s)
	mount, mounted := d.mount, d.base
	if mount == "" { // the whole repository
		mount, mounted = path.Join("/workspaces", path.Base(d.root)), ""
	}
	if below, ok := strings.CutPrefix(s+"/", mount+"/"); ok {
		if folder := path.Join(mounted, below); d.hasDir(folder) {
			d.folder = folder
		}
	}
	if in := path.Join(boxWorkspace, d.folder); s != in && d.mount == "" { // else workspaceMount has the line
		d.warn(n, "`workspaceFolder`: %s is %s in a box", agentbox.Clip(s), in)
	}
}

// hasDir tells whether the repository has a directory. Links out of it are not followed.
func (d *devcontainerDecoder) hasDir(dir string) bool {
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Stat(path.Join(".", dir))
	return err == nil && info.IsDir()
}

// command reads one command as a line for sh -c. Each argument of a list is quoted, because the
// specification passes them to exec without a shell.
func (d *devcontainerDecoder) command(n *yaml.Node) string {
	if n.Kind != yaml.SequenceNode {
		s, ok := d.Text(n)
		if !ok {
			return ""
		}
		return d.shell(n, s, nil)
	}
	var argv []string
	d.Items(n, func(item *yaml.Node) {
		if s, ok := d.Text(item); ok {
			argv = append(argv, d.shell(item, s, shellescape.Quote))
		}
	})
	return strings.Join(argv, " ")
}

// shell replaces the variables of a text that becomes part of a shell's line. Variables of the box
// are the shell's. quote, if there is one, is applied to the rest.
func (d *devcontainerDecoder) shell(n *yaml.Node, s string, quote func(string) string) string {
	e := d.expand(s)
	if e.missing != "" {
		d.warn(n, "%s is empty in the command: %s", agentbox.Clip(e.missing), noHostEnv)
	}
	if quote == nil {
		return ofBox().ReplaceAllString(e.text, "$${$1-$2}")
	}
	if !e.ofBox {
		return quote(e.text)
	}
	var line strings.Builder
	at := 0
	for _, m := range ofBox().FindAllStringSubmatchIndex(e.text, -1) {
		if m[0] > at {
			line.WriteString(quote(e.text[at:m[0]]))
		}
		line.WriteString(`"${` + e.text[m[2]:m[3]] + `}"`)
		at = m[1]
	}
	if at < len(e.text) {
		line.WriteString(quote(e.text[at:]))
	}
	return line.String()
}

// ofBox matches a variable of the box's environment, with its default value.
var ofBox = agentbox.Pattern(`\$\{containerEnv:([A-Za-z_][A-Za-z0-9_]*)(?::([^:}]*)[^}]*)?\}`)

// boxPATH is what a box sets if neither image nor configuration do (vmm/guest/agent, command.go).
const boxPATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment is the variables of every command in a box: those of its image, then Env, then those
// of Derived, whose values name others. An image without a PATH has that of every box.
func (c *Config) Environment(image []string) map[string]string {
	env := map[string]string{}
	for _, kv := range image {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	maps.Copy(env, c.Env)
	derived := map[string]string{}
	for name, value := range c.Derived {
		derived[name] = ofBox().ReplaceAllStringFunc(value, func(v string) string {
			m := ofBox().FindStringSubmatch(v)
			if have, ok := env[m[1]]; ok {
				return have
			}
			if m[1] == "PATH" {
				return boxPATH
			}
			return m[2]
		})
	}
	maps.Copy(env, derived)
	return env
}

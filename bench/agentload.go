package bench

import (
	"io"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/yamlfile"
)

// agentLoad is what each of several agents does: it thinks, runs a command, and goes on with the next.
type agentLoad struct {
	think    time.Duration // on average
	commands []toolchain.Command
}

// thinking is how long an agent thinks on average: a model answers in some seconds.
const thinking = 3 * time.Second

// usualLoad is what agents do most in any repository: they look for something, see what they have
// changed, and run the repository's own commands.
func usualLoad(own []toolchain.Command) agentLoad {
	return agentLoad{thinking, append([]toolchain.Command{
		{Name: "search", Run: "git grep -In main >/dev/null || test $? = 1"},
		{Name: "status", Run: "git status --short >/dev/null && git diff --stat >/dev/null"},
	}, own...)}
}

// maxLoad is far more than a file of commands has, in bytes.
const maxLoad = 1 << 20

func readLoad(name string, own []toolchain.Command) (agentLoad, error) {
	f, err := os.Open(name)
	if err != nil {
		return agentLoad{}, agentbox.Errorf(agentbox.Invalid, "--profile: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxLoad))
	if err != nil {
		return agentLoad{}, agentbox.Errorf(agentbox.Invalid, "--profile: %w", err)
	}
	return parseLoad(data, name, own)
}

// commandName matches what may be part of a scenario's name.
var commandName = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

// parseLoad parses what agents do: think, a duration, and commands, by name, in their order. One
// without a command line is the repository's own of that name. Without commands, they are the usual.
func parseLoad(data []byte, name string, own []toolchain.Command) (agentLoad, error) {
	load := usualLoad(own)
	r := &yamlfile.Reader{Name: name}
	r.Document(data, func(root *yaml.Node) {
		r.Pairs(root, func(k, v *yaml.Node) {
			switch k.Value {
			case "think":
				text, ok := r.Text(v)
				d, err := time.ParseDuration(text)
				if ok && (err != nil || d < 0 || d > time.Hour) {
					r.Fail(v, "%q is not a duration of at most 1h", agentbox.Clip(text))
				}
				load.think = d
			case "commands":
				load.commands = readCommands(r, v, own)
			default:
				r.Fail(k, "unknown key `%s`%s", agentbox.Clip(k.Value), yamlfile.Suggest(k.Value, []string{"think", "commands"}))
			}
		})
	})
	return load, r.Err("for example think: 3s and commands: {search: git grep -n main, test: } with a command of the repository's bench:")
}

func readCommands(r *yamlfile.Reader, n *yaml.Node, own []toolchain.Command) (out []toolchain.Command) {
	r.Pairs(n, func(k, v *yaml.Node) {
		c := toolchain.Command{Name: k.Value}
		named := func(o toolchain.Command) bool { return o.Name == c.Name }
		_, given := r.Value(v)
		switch i := slices.IndexFunc(own, named); {
		case !commandName().MatchString(c.Name):
			r.Fail(k, "%q is not a name for a command: use letters, digits, - and _", agentbox.Clip(c.Name))
		case given:
			if c.Run, given = r.Text(v); c.Run == "" && given {
				r.Fail(v, "%s: an empty line runs nothing", c.Name)
			}
		case i < 0:
			r.Fail(k, "the repository has no command %s: write its line", c.Name)
		default:
			c.Run = own[i].Run
		}
		out = append(out, c)
	})
	if len(out) == 0 {
		r.Fail(n, "commands: there are none")
	}
	return out
}

package registries

import (
	"errors"
	"slices"
	"strings"
)

// ErrNoTool is the error for a tool that the machine does not have.
var ErrNoTool = errors.New("the machine has no such tool")

// Question is a command that makes a tool print which registry its ecosystem uses by default. It is
// asked on a machine that trusts the tool, or in a box.
type Question struct {
	Ecosystem string // as the beginning of Found.From: npm, pip, go
	Package   string // of the distribution, that has the tool; "" for a tool that comes from a registry itself
	Argv      []string
}

// Questions has one for every ecosystem whose tools can be asked. The answers are what the
// distribution compiled into its tools, unless something else configures them: so they are asked
// where no repository has an influence.
var Questions = []Question{
	{"go", "golang-go", []string{"go", "env", "GOPROXY", "GOSUMDB"}},
	{"npm", "npm", []string{"npm", "config", "get", "registry"}},
	{"pip", "python3-pip", []string{"pip", "config", "list"}},
	{"pip", "python3-pip", []string{"pip", "install", "--help"}},
	{"yarn", "", yarnQuestion},
	{"cargo", "", cargoQuestion},
}

// yarnQuestion hides npm's registry: Yarn 1's lock files name the one compiled into it.
var yarnQuestion = []string{"env", "-u", "NPM_CONFIG_REGISTRY", "yarn", "config", "get", "registry"}

// Key is the question's key in Machine.Answers: its command, so that another wording is another
// question.
func (q Question) Key() string { return strings.Join(q.Argv, " ") }

// QuestionsFor returns the questions of some ecosystems, in the order of Questions.
func QuestionsFor(ecosystems []string) []Question {
	return slices.DeleteFunc(slices.Clone(Questions), func(q Question) bool { return !slices.Contains(ecosystems, q.Ecosystem) })
}

// Ecosystem is the ecosystem of the host: npm of "npm: registry".
func (f Found) Ecosystem() string {
	name, _, _ := strings.Cut(f.From, ":")
	return name
}

// cargoQuestion makes cargo print where it would get a package, which only shows when it cannot: in
// its error, or, since 1.96, in its log. Nothing answers at the proxy's address.
var cargoQuestion = []string{"sh", "-c", `command -v cargo >/dev/null && cd "$(mktemp -d)" && mkdir src && : >src/lib.rs &&
printf '[package]\nname = "asks"\nversion = "0.0.0"\n[dependencies]\nany = "*"\n' >Cargo.toml &&
{ CARGO_LOG=network::fetch=debug CARGO_HTTP_PROXY=http://127.0.0.1:9 CARGO_NET_RETRY=0 cargo fetch 2>&1 || true; }`}

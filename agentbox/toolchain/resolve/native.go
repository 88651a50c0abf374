package resolve

import (
	_ "embed"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox/toolchain"
)

// Program is a native program as a plan installs it: the file of a release.
type Program struct {
	Release
	File string // slash-separated, in the package; its last part is the command
}

// Latest is the release of a package that the registry calls the latest.
type Latest struct {
	Release
	Node string // the range of Node.js that it asks for; "" for any
}

// ParseLatest parses the registry's metadata of a package (AskRegistry). ok is false if it has no
// latest release that can be fetched.
func ParseLatest(name string, r io.Reader) (latest Latest, ok bool) {
	var answer struct {
		Tags     map[string]string `json:"dist-tags"`
		Versions map[string]struct {
			Engines json.RawMessage `json:"engines"` // of old packages a list
			Dist    struct {
				Tarball   string `json:"tarball"`
				Integrity string `json:"integrity"`
			} `json:"dist"`
		} `json:"versions"`
	}
	if json.NewDecoder(io.LimitReader(r, MaxAnswer)).Decode(&answer) != nil {
		return latest, false
	}
	version := answer.Tags["latest"]
	v, found := answer.Versions[version]
	sum, hashed := sha512Of(v.Dist.Integrity)
	if !found || !hashed || !toolchain.ExactVersion().MatchString(version) || !isWebURL(v.Dist.Tarball) {
		return latest, false
	}
	var engines struct{ Node string }
	if json.Unmarshal(v.Engines, &engines) == nil && toolchain.NodeRange().MatchString(engines.Node) {
		latest.Node = engines.Node
	}
	archive := name + "/-/" + path.Base(name) + "-" + version + ".tgz"
	latest.Release = Release{Version: version, Path: archive, URL: v.Dist.Tarball, SHA512: sum}
	return latest, true
}

// PackagesOfLatest are the packages of the npm registry whose latest release WithNatives needs to
// know: native programs, and programs in their latest version if a Node.js is chosen for them.
func PackagesOfLatest(n toolchain.Needs) []string {
	var out []string
	for _, native := range n.Constraints(toolchain.Native) {
		name, _, _ := strings.Cut(native, " ")
		out = append(out, name)
	}
	if len(n.ForTool(toolchain.Node)) > 0 {
		out = append(out, slices.DeleteFunc(n.Constraints(toolchain.Package), hasVersion)...)
	}
	return out
}

// hasVersion reports whether an npm package is named with a version.
func hasVersion(name string) bool { return strings.LastIndexByte(name, '@') > 0 }

// WithNatives chooses native programs where the registry has them, by the latest releases of
// PackagesOfLatest. left are the other needs, without what native programs make needless, and with
// the Node.js that the latest releases of programs ask for: on an older one, npm installs an older
// program without a word.
func WithNatives(n toolchain.Needs, latest map[string]Latest) (left toolchain.Needs, programs []Program) {
	served := map[string]bool{} // files all of whose needs a native program serves
	for _, need := range n.ForTool(toolchain.Native) {
		name, file, _ := strings.Cut(need.Constraint, " ")
		if release, ok := latest[name]; ok {
			programs, served[need.File] = append(programs, Program{release.Release, file}), true
		}
	}
	for _, need := range n {
		node := latest[need.Constraint].Node
		switch {
		case need.Tool == toolchain.Native, served[need.File]:
		case need.Tool == toolchain.Package && node != "" && len(n.ForTool(toolchain.Node)) > 0:
			left = append(left, need, toolchain.Need{Tool: toolchain.Node, Constraint: node, File: need.File, Key: "engines.node"})
		default:
			left = append(left, need)
		}
	}
	left.Sort()
	return left, programs
}

//go:embed install/native.sh
var installNative string

func (p Program) command() []string {
	return []string{"sh", "-euc", installNative, "sh", p.Path, p.URL, p.SHA512, p.File}
}

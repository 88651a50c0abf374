package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"

	"agentbox/agentbox/yamlfile"
)

// outcome is what becomes of a key of a devcontainer.json in a box. Nothing else may become of one:
// a user reads of everything that a box does not do as the file says.
type outcome string

const (
	honoured     outcome = "honoured"
	approximated outcome = "approximated" // in part or in another way, and a line says so
	refused      outcome = "refused"      // has no effect, and a line says so
)

// devcontainerKey is one key of the format, with what becomes of it. Part of a key is KEY.PART.
type devcontainerKey struct {
	name    string
	outcome outcome
	// means is for people: what the key becomes, or what to do instead.
	means string
	// read is nil for keys that ask for nothing (honoured), and for those that reportOnly reports.
	read func(d *devcontainerDecoder, n *yaml.Node)
}

const (
	meansBuild   = "the image, made in a box; where that fails, the box has its own image and user"
	meansCompose = "image or build, environment, user and ports of its service; the others are services of the box"
	meansEditor  = "nothing: it is for editors"
	meansMachine = "nothing: root in a box is not restricted"
)

// devcontainerKeys lists every key of the format (containers.dev, "devcontainer.json reference"), in
// the order in which they are read: what variables stand for first, image before what depends on
// it, and commands in the order in which the specification runs them. Tests compare it with the
// specification's own list and with docs/configuration.md.
func devcontainerKeys() []devcontainerKey {
	return []devcontainerKey{
		{"workspaceMount", approximated, "the workspace is a disk of its own at `/workspace`", (*devcontainerDecoder).workspaceMount},
		{"workspaceFolder", approximated, "the folder below `/workspace` that commands run in", (*devcontainerDecoder).workspaceFolder},
		{"image", honoured, "`image`", (*devcontainerDecoder).image},
		{"build", honoured, meansBuild, (*devcontainerDecoder).build},
		{"build.dockerfile", honoured, meansBuild, nil},
		{"build.context", honoured, meansBuild, nil},
		{"build.target", honoured, meansBuild, nil},
		{"build.args", honoured, meansBuild, nil},
		{"build.cacheFrom", honoured, "nothing: the image is made once", nil},
		{"build.options", approximated, "the image is made by buildah, without them", nil},
		{"dockerFile", honoured, meansBuild, (*devcontainerDecoder).dockerfile},
		{"context", honoured, meansBuild, (*devcontainerDecoder).context},
		{"dockerComposeFile", approximated, meansCompose, (*devcontainerDecoder).composeFile},
		{"service", honoured, meansCompose, (*devcontainerDecoder).composeService},
		{"runServices", honoured, "which of the other services start, with those that they need", (*devcontainerDecoder).runServices},
		{"features", approximated, "packages and `toolchain` of an `apt:` image, beside what a box has anyway", (*devcontainerDecoder).features},
		{"overrideFeatureInstallOrder", honoured, "nothing: all packages are installed together", nil},
		{"containerEnv", honoured, "`env`", (*devcontainerDecoder).env},
		{"remoteEnv", honoured, "`env`", (*devcontainerDecoder).env},
		{"secrets", refused, "secrets are never read from a repository: use agentbox secret set", nil},
		{"forwardPorts", honoured, "`ports`", (*devcontainerDecoder).forwardPorts},
		{"appPort", honoured, "`ports`", (*devcontainerDecoder).appPort},
		{"portsAttributes", honoured, meansEditor, nil},
		{"otherPortsAttributes", honoured, meansEditor, nil},
		{"mounts", refused, "a box mounts nothing of the host: use include in agentbox.yaml", nil},
		{"initializeCommand", refused, "a repository runs nothing on the host", nil},
		{"onCreateCommand", honoured, "`setup`", (*devcontainerDecoder).setup},
		{"updateContentCommand", honoured, "`setup`", (*devcontainerDecoder).setup},
		{"postCreateCommand", honoured, "`setup`", (*devcontainerDecoder).setup},
		{"postStartCommand", honoured, "`start`", (*devcontainerDecoder).start},
		{"postAttachCommand", refused, "boxes run nothing on attach: use postStartCommand", nil},
		{"waitFor", honoured, "nothing: `up` waits for all commands", nil},
		{"containerUser", honoured, "`user`, without `remoteUser`", (*devcontainerDecoder).user},
		{"remoteUser", honoured, "`user`", (*devcontainerDecoder).user},
		{"updateRemoteUserUID", honoured, "nothing: the workspace belongs to the user, whatever the id", nil},
		{"userEnvProbe", approximated, "commands get the environment of the box, not that of a login shell", (*devcontainerDecoder).userEnvProbe},
		{"hostRequirements", honoured, "the least that a box gets, as far as this machine has it", (*devcontainerDecoder).hostRequirements},
		{"hostRequirements.cpus", honoured, "the least `cpus`", nil},
		{"hostRequirements.memory", honoured, "the least `memory`", nil},
		{"hostRequirements.storage", honoured, "the least `disk`", nil},
		{"hostRequirements.gpu", refused, "a box has no GPU", nil},
		{"runArgs", approximated, "boxes do not use a container engine", (*devcontainerDecoder).runArgs},
		{"privileged", approximated, "root in a box is not restricted, but has no device of this machine", (*devcontainerDecoder).privileged},
		{"capAdd", honoured, meansMachine, nil},
		{"securityOpt", honoured, meansMachine, nil},
		{"init", honoured, "nothing: a box has one", nil},
		{"overrideCommand", approximated, "the image's own command is not run", (*devcontainerDecoder).overrideCommand},
		{"shutdownAction", approximated, "a box runs until it is paused or removed", (*devcontainerDecoder).shutdownAction},
		{"name", honoured, meansEditor, nil},
		{"customizations", honoured, meansEditor, nil},
		{"$schema", honoured, meansEditor, nil},
		{"additionalProperties", honoured, meansEditor, nil},
		// Older forms, which the format's own tool still reads.
		{"extensions", honoured, meansEditor, nil},
		{"settings", honoured, meansEditor, nil},
		{"devPort", honoured, meansEditor, nil},
	}
}

// devcontainerDecoder reads a devcontainer.json into a Config. Of a value that a box cannot take it
// makes a warning where it can, because the file was written for other tools too.
type devcontainerDecoder struct {
	*decoder
	base    string     // what the file applies to: a directory relative to root, "" for the root itself
	folder  string     // the workspace folder that the file names, below root; base without one
	mount   string     // where the file wants the root
	key     string     // that is being read
	asUser  *yaml.Node // names the user; nil for none
	built   unresolved
	compose composed
}

// parseDevcontainer parses a devcontainer.json. base is the directory that it applies to, relative
// to the root. A known key with a value of the wrong type is an error. An empty file is valid and
// asks for nothing.
func parseDevcontainer(data []byte, src source, base string) (*Config, error) {
	d := newDevcontainerDecoder(src, base)
	if len(strings.TrimSpace(string(data))) == 0 {
		return d.cfg, nil
	}
	// The specification allows comments, and editors write them.
	if doc, line, wrong := parseJSONC(data); wrong != "" {
		d.FailAt(line, wrong)
	} else {
		d.document(doc)
	}
	return d.result()
}

func newDevcontainerDecoder(src source, base string) *devcontainerDecoder {
	return &devcontainerDecoder{decoder: newDecoder(src), base: base, folder: base, built: unresolved{Build: Build{Args: map[string]string{}}}, compose: composed{runAll: true}}
}

func (d *devcontainerDecoder) document(doc *yaml.Node) {
	keys := devcontainerKeys()
	sortKeys(doc, keys)
	var known []key
	for _, k := range keys {
		known = append(known, key{k.name, func(_ *decoder, n *yaml.Node) { d.read(k, n) }})
	}
	d.record(doc, known, func(k *yaml.Node) {
		d.warn(k, "unknown key `%s` is ignored%s", agentbox.Clip(k.Value), yamlfile.Nearest(k.Value, keyNames(known)))
	})
	d.resolveCompose()
	d.resolveBuild()
	d.ownUser()
}

func (d *devcontainerDecoder) read(k devcontainerKey, n *yaml.Node) {
	d.key = k.name
	switch {
	case k.read != nil:
		k.read(d, n)
	case k.outcome != honoured && asks(n):
		d.warn(n, "`%s` is ignored: %s", k.name, k.means)
	}
}

// asks tells whether a value asks for anything: false, and empty texts, lists and objects do not.
func asks(n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode {
		return n.Value != "" && n.Value != "false"
	}
	return len(n.Content) > 0
}

// approximate warns of a value that a box follows in part.
func (d *devcontainerDecoder) approximate(n *yaml.Node, what string) {
	keys := devcontainerKeys()
	i := slices.IndexFunc(keys, func(k devcontainerKey) bool { return k.name == d.key })
	d.warn(n, "`%s`: %s%s", d.key, what, strings.ReplaceAll(keys[i].means, "`", ""))
}

// sortKeys puts the keys of an object into the order of the table, and unknown keys first.
func sortKeys(n *yaml.Node, keys []devcontainerKey) {
	rank := func(k *yaml.Node) int {
		return slices.IndexFunc(keys, func(known devcontainerKey) bool { return known.name == k.Value })
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	pairs := slices.Collect(slices.Chunk(n.Content, 2))
	slices.SortStableFunc(pairs, func(a, b []*yaml.Node) int { return rank(a[0]) - rank(b[0]) })
	n.Content = slices.Concat(pairs...)
}

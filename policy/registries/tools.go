package registries

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// aptConf are the files that may configure apt's proxies.
var aptConf = []string{"etc/apt/apt.conf", "etc/apt/apt.conf.d/*"}

// apt reads the sources in both of their forms, and the proxy: a box that uses it too needs no
// other host for packages.
func (c *collector) apt(m Machine) {
	for name, line := range m.lines(m.glob("etc/apt/sources.list", "etc/apt/sources.list.d/*.list", "etc/apt/sources.list.d/*.sources")) {
		if strings.HasPrefix(line, "deb ") || strings.HasPrefix(line, "deb-src ") || strings.HasPrefix(strings.ToLower(line), "uris:") {
			c.addURLs("apt: "+name, line)
		}
	}
	for name, line := range m.lines(m.glob(aptConf...)) {
		if strings.Contains(strings.ToLower(line), "proxy") && !strings.HasPrefix(line, "//") {
			c.addURLs("apt: "+name, line)
		}
	}
}

// AptProxies is the configuration of apt's proxies for boxes: the lines that set one, in apt.conf's
// form. Those with credentials are left out, and loopback has the name that it has in a box.
func AptProxies(m Machine) string {
	var out strings.Builder
	for _, line := range m.lines(m.glob(aptConf...)) {
		if aptProxy().MatchString(line) && !strings.Contains(line, "@") {
			out.WriteString(RewriteLoopback(line) + "\n")
		}
	}
	return out.String()
}

// aptProxy matches directives in one line only: one that spans several could be cut.
var aptProxy = agentbox.Pattern(`^(?i:Acquire::[a-z:]*proxy[^\s{}]*)\s+"[^"]*"\s*;$`)

// golang asks the tool, which knows its own defaults and those of the distribution.
func (c *collector) golang(ctx context.Context, m Machine) {
	if proxy, sumdb, ok := strings.Cut(c.output(ctx, m, "go", "env", "GOPROXY", "GOSUMDB"), "\n"); ok {
		c.goProxy(proxy, sumdb)
	}
}

// goProxy reads both settings in Go's form: a list of proxies with commas and bars, and the name of
// a checksum database with its key and perhaps a URL.
func (c *collector) goProxy(proxy, db string) {
	c.addSetting("go: GOPROXY", proxy, "GOPROXY", proxy)
	if strings.TrimSpace(db) == "off" {
		return
	}
	text := db
	if name := strings.Fields(db); len(name) > 0 && !strings.Contains(db, "://") {
		host, _, _ := strings.Cut(name[0], "+") // the rest is its key
		text = "https://" + host
	}
	c.addSetting("go: GOSUMDB", text, "GOSUMDB", db)
}

// npm asks the tool, which merges its files, variables and default.
func (c *collector) npm(ctx context.Context, m Machine) {
	registry := c.output(ctx, m, "npm", "config", "get", "registry")
	c.addSetting("npm: registry", registry, npmVariable, registry)
}

// Where npm and, since version 2, Yarn look for their registries.
const (
	npmVariable  = "NPM_CONFIG_REGISTRY"
	yarnVariable = "YARN_NPM_REGISTRY_SERVER"
)

// yarn is asked in boxes only: here its name may belong to a program that downloads it first.
func (c *collector) yarn(m Machine) {
	if registry := strings.TrimSpace(m.Answers[strings.Join(yarnQuestion, " ")]); anyURL().FindString(registry) == registry {
		c.addURLs("yarn: registry", registry)
	}
}

// cargoDefault finds the index in cargo's output about what it gets, or cannot get.
func (c *collector) cargoDefault(m Machine) {
	for _, match := range anyURL().FindAllString(m.Answers[strings.Join(cargoQuestion, " ")], -1) {
		match = strings.TrimRight(match, "`.")
		if index, ok := strings.CutSuffix(match, "config.json"); ok {
			c.addURLs("cargo: its default index", "sparse+"+index)
		}
	}
}

// npmrc reads npm's files, in which scopes have their own registries, and Yarn's variable.
func (c *collector) npmrc(m Machine) {
	for name, line := range m.lines([]string{path.Join(m.Home, ".npmrc"), "etc/npmrc"}) {
		switch key, value, _ := strings.Cut(line, "="); {
		case strings.TrimSpace(key) == "registry":
			c.addSetting("npm: "+name, line, npmVariable, value)
		case strings.Contains(key, "registry"):
			c.addURLs("npm: "+name, line)
		}
	}
	c.addSetting("yarn: "+yarnVariable, m.Env[yarnVariable], yarnVariable, m.Env[yarnVariable])
}

// pip asks for the configuration, else for the default index, which pip prints in its help.
func (c *collector) pip(ctx context.Context, m Machine) {
	configured := m.Env["PIP_INDEX_URL"] != ""
	for line := range strings.Lines(c.output(ctx, m, "pip", "config", "list")) {
		key, value, _ := strings.Cut(line, "=")
		if strings.Contains(key, "index-url") || strings.Contains(key, "find-links") {
			c.addSetting("pip: "+strings.TrimSpace(key), value, pipVariable(key), strings.Trim(strings.TrimSpace(value), "'"))
			configured = configured || strings.HasSuffix(strings.TrimSpace(key), ".index-url")
		}
	}
	if configured {
		return
	}
	help := strings.Join(strings.Fields(c.output(ctx, m, "pip", "install", "--help")), " ")
	if _, after, ok := strings.Cut(help, "Base URL of the Python Package Index (default"); ok {
		index, _, _ := strings.Cut(after, ")")
		c.addURLs("pip: its default index", index)
	}
}

// pipVariable is the variable of a key as pip config lists it: global.index-url is PIP_INDEX_URL.
func pipVariable(key string) string {
	_, name, _ := strings.Cut(strings.TrimSpace(key), ".")
	return "PIP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// pipEnv reads the variables of pip and of uv, which serves the same packages.
func (c *collector) pipEnv(m Machine) {
	for _, name := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		c.addSetting("pip: "+name, m.Env[name], name, m.Env[name])
	}
}

// cargo reads configuration files: what it uses without one is said nowhere on the machine.
func (c *collector) cargo(m Machine) {
	home := cmp.Or(m.Env["CARGO_HOME"], path.Join(m.Home, ".cargo"))
	for name, line := range m.lines([]string{path.Join(home, "config.toml"), path.Join(home, "config")}) {
		key, value, _ := strings.Cut(line, "=")
		switch strings.TrimSpace(key) {
		case "registry", "index", "proxy", "dl":
			c.addURLs("cargo: "+name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		if strings.HasPrefix(name, "CARGO_REGISTR") && strings.HasSuffix(name, "_INDEX") {
			c.addURLs("cargo: "+name, m.Env[name])
		}
	}
}

// FromRemotes lists the hosts of the repository's git remotes, which a box fetches from and pushes
// to.
func FromRemotes(ctx context.Context, m Machine) []Found {
	var l collector
	l.git(ctx, m)
	return l.found
}

// git asks git for the URLs. An address in the form user@host:path implies ssh, and also https: the
// same hosts serve both, and a token for https is the usual way in a box.
func (c *collector) git(ctx context.Context, m Machine) {
	text := c.output(ctx, m, "git", "-C", m.Directory, "config", "--get-regexp", `^remote\..*\.(push)?url$`)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		from := "git: " + key
		if strings.Contains(value, "::") {
			continue // a transport of its own, as that of our boxes
		}
		if strings.Contains(value, "://") {
			c.addURL(from, value)
			continue
		}
		// user@host:path, unless a slash before the colon makes it a path of this machine.
		host, _, ok := strings.Cut(value, ":")
		if !ok || strings.Contains(host, "/") {
			continue
		}
		if _, after, at := strings.Cut(host, "@"); at {
			host = after
		}
		c.addURL(from, "ssh://"+host)
		c.addURL(from, "https://"+host)
	}
}

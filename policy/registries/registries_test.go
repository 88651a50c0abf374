package registries

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func machine(files map[string]string, outputs map[string]string) Machine {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return Machine{
		Root: root, Home: "home/ada", Directory: "/src/app", Env: map[string]string{},
		Run: func(_ context.Context, argv ...string) (string, error) {
			if out, ok := outputs[strings.Join(argv, " ")]; ok {
				return out, nil
			}
			return "", errors.New("not installed")
		},
	}
}

// tools are what the tools say that have answered.
func tools(m Machine) []Found {
	found, _ := FromTools(context.Background(), m)
	return found
}

func TestDetect(t *testing.T) {
	m := machine(map[string]string{
		"etc/apt/sources.list":             "deb http://apt.example/debian stable main\n# deb http://commented.example/ x y\ndeb [arch=amd64 signed-by=/k] https://second.example:8443/apt stable main\ndeb cdrom:[x]/ stable main\n",
		"etc/apt/sources.list.d/a.sources": "Types: deb\n# http://commented.example/\nURIs: http://third.example/debian https://apt.example/again\nSuites: x\n",
		"etc/apt/apt.conf.d/01proxy":       "Acquire::http::Proxy \"http://127.0.0.1:3142\";\n// Acquire::http::Proxy \"http://commented.example\";\n",
		"home/ada/.npmrc":                  "@org:registry=https://npm.corp.example/\n//npm.corp.example/:_authToken=secret\n",
		"home/ada/.cargo/config.toml":      "[source.mirror]\nregistry = \"sparse+https://crates.corp.example/index/\"\n",
	}, map[string]string{
		"go env GOPROXY GOSUMDB":  "https://goproxy.example,direct\nsum.example+abcd+key\n",
		"npm config get registry": "https://npm.example/\n",
		"pip config list":         "global.extra-index-url='https://user:pass@extra.example/simple'\n",
		"pip install --help":      "  -i, --index-url <url>       Base URL of the Python Package Index (default\n                              https://pip.example/simple). This\n",
		`git -C /src/app config --get-regexp ^remote\..*\.(push)?url$`: "remote.origin.url git@code.example:org/app.git\nremote.up.url https://code2.example/org/app\n" +
			"remote.box.url agentbox::abc\nremote.disk.url /srv/a:b.git\nremote.s.url ssh://git@code3.example:2222/x\n",
	})
	var got []string
	for _, f := range slices.Concat(FromFiles(m), tools(m), FromRemotes(context.Background(), m)) {
		got = append(got, f.Rule.String()+" "+f.From)
	}
	want := []string{
		"apt.example apt: /etc/apt/sources.list", "second.example:8443 apt: /etc/apt/sources.list", "third.example apt: /etc/apt/sources.list.d/a.sources", "apt.example apt: /etc/apt/sources.list.d/a.sources",
		"[127.0.0.1]:3142 apt: /etc/apt/apt.conf.d/01proxy", "npm.corp.example npm: /home/ada/.npmrc", "crates.corp.example cargo: /home/ada/.cargo/config.toml",
		"goproxy.example go: GOPROXY", "sum.example go: GOSUMDB", "npm.example npm: registry",
		"extra.example pip: global.extra-index-url", "pip.example pip: its default index",
		"code.example:22 git: remote.origin.url", "code.example git: remote.origin.url",
		"code2.example git: remote.up.url", "code3.example:2222 git: remote.s.url",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestVariablesAndProxiesForBoxes(t *testing.T) {
	m := machine(map[string]string{
		"etc/apt/apt.conf.d/01proxy": "Acquire::http::Proxy \"http://127.0.0.1:3142\";\nAcquire::https::Proxy \"http://user:pass@x.example\";\nDPkg::Post-Invoke {\"proxy\"};\n",
	}, map[string]string{
		"go env GOPROXY GOSUMDB": "http://localhost:3000|https://goproxy.example,direct\noff\n", "npm config get registry": "https://npm.example/\n",
		"pip config list": "global.index-url='https://user:pass@pip.example/simple'\nglobal.extra-index-url='https://extra.example/simple'\n",
	})
	got := Variables(slices.Concat(FromFiles(m), tools(m)))
	want := map[string]string{
		"GOPROXY": "http://host.agentbox.internal:3000|https://goproxy.example,direct", "NPM_CONFIG_REGISTRY": "https://npm.example/",
		"YARN_NPM_REGISTRY_SERVER": "https://npm.example/", "PIP_EXTRA_INDEX_URL": "https://extra.example/simple", "PIP_INDEX_URL": "https://pip.example/simple",
	}
	if !maps.Equal(got, want) {
		t.Errorf("variables %q, want %q", got, want)
	}
	if got, want := AptProxies(m), "Acquire::http::Proxy \"http://host.agentbox.internal:3142\";\n"; got != want {
		t.Errorf("proxies %q, want %q", got, want)
	}
}

func TestDetectOnEmptyMachine(t *testing.T) {
	if got := slices.Concat(FromFiles(machine(nil, nil)), tools(machine(nil, nil))); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

func TestConfiguredIndexReplacesDefault(t *testing.T) {
	m := machine(nil, map[string]string{"pip config list": "global.index-url='https://corp.example/simple'\n", "pip install --help": "Base URL of the Python Package Index (default https://pip.example/simple)"})
	if got := tools(m); len(got) != 1 || got[0].Rule.String() != "corp.example" {
		t.Errorf("found %v", got)
	}
}

func TestSlowToolTimesOut(t *testing.T) {
	m := machine(nil, map[string]string{"go env GOPROXY GOSUMDB": "https://goproxy.example\noff\n"})
	if found, answered := FromTools(context.Background(), m); len(found) != 1 || !answered {
		t.Errorf("with tools that are missing: %v, answered %v", found, answered)
	}
	run := m.Run
	m.Run = func(ctx context.Context, argv ...string) (string, error) {
		if argv[0] == "npm" {
			return "", context.DeadlineExceeded
		}
		return run(ctx, argv...)
	}
	if found, answered := FromTools(context.Background(), m); len(found) != 1 || answered {
		t.Errorf("with one that is slow: %v, answered %v", found, answered)
	}
}

func TestHostReportsTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := HostMachine("", []string{"PATH=/usr/bin:/bin"}).Run(ctx, "sleep", "100"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a tool that was too slow: %v", err)
	}
}

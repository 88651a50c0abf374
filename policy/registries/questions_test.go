package registries

import (
	"context"
	"strings"
	"testing"
)

// Where this machine has no tool, what the distribution's said in a clean box counts; where it has
// one, that one speaks, and be it with an error.
func TestCleanBoxAnswersForMissingTool(t *testing.T) {
	m := machine(nil, nil)
	m.Run = func(_ context.Context, argv ...string) (string, error) {
		if argv[0] == "go" {
			return "", context.Canceled
		}
		return "", ErrNoTool
	}
	m.Answers = map[string]string{
		"npm config get registry": "https://npm.example/\n", "go env GOPROXY GOSUMDB": "https://goproxy.example\noff\n",
		"env -u NPM_CONFIG_REGISTRY yarn config get registry": "https://yarn.example\n",
	}
	var got []string
	for _, f := range tools(m) {
		got = append(got, f.Rule.String()+" "+f.From)
	}
	if want := "npm.example npm: registry, yarn.example yarn: registry"; strings.Join(got, ", ") != want {
		t.Errorf("found %q, want %q", got, want)
	}
	m.Answers["env -u NPM_CONFIG_REGISTRY yarn config get registry"] = "error: see https://docs.example/yarn\n"
	if got := tools(m); len(got) != 1 {
		t.Errorf("a mistake of yarn's is taken for a registry: %v", got)
	}
}

func TestNpmrcRegistry(t *testing.T) {
	m := machine(map[string]string{"home/ada/.npmrc": "@org:registry=https://npm.corp.example/\nregistry = https://npm.example/\n"}, nil)
	if got := Variables(FromFiles(m)); len(got) != 2 || got["NPM_CONFIG_REGISTRY"] != "https://npm.example/" {
		t.Errorf("boxes are told %q", got)
	}
}

// Cargo names its index in the error of a package that it cannot get, and the index where its files
// are.
func TestCargoIndexFromError(t *testing.T) {
	m, _ := asking(machine(nil, nil), map[string]string{"https://crates.example/config.json": `{"dl": "https://static.example/crates"}`})
	const docs = "error: failed to get `any`, see https://docs.example/\n"
	for _, says := range []string{
		"Caused by:\n  failed to download from `https://crates.example/config.json`\n",
		"0.01s DEBUG main:exec: network::fetch: url=\"https://crates.example/config.json\"\n",
	} {
		m.Answers = map[string]string{strings.Join(cargoQuestion, " "): docs + says}
		var got []string
		for _, f := range tools(m) {
			got = append(got, f.Rule.String()+" "+f.From)
		}
		want := "GET,HEAD static.example:443/**.crate cargo: files of crates.example, GET,HEAD static.example:443/**/download cargo: files of crates.example, crates.example cargo: its default index"
		if strings.Join(got, ", ") != want {
			t.Errorf("found %q", got)
		}
	}
	m.Answers = map[string]string{strings.Join(cargoQuestion, " "): docs}
	if got := tools(m); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

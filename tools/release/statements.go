package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"text/template"
)

// subject is one file of the release, as in-toto names it.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// subjects are the files that are there, in the order of their names.
func (r *release) subjects() ([]subject, error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	var all []subject
	for _, e := range entries {
		b, err := os.ReadFile(r.path(e.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		all = append(all, subject{e.Name(), map[string]string{"sha256": hex.EncodeToString(sum[:])}})
	}
	return all, nil
}

// provenance writes in-toto's statement with SLSA's predicate: which commit and which Go made the
// files.
func (r *release) provenance() error {
	subjects, err := r.subjects()
	if err != nil {
		return err
	}
	compiler, err := r.output("go", "env", "GOVERSION")
	if err != nil {
		return err
	}
	type object = map[string]any
	b, err := indented(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          "urn:agentbox:make-release:v1",
				"externalParameters": object{"version": r.version, "url": r.url},
				"internalParameters": object{"go": compiler},
				"resolvedDependencies": []object{
					{"name": "source", "digest": map[string]string{"gitCommit": r.commit}},
				},
			},
			"runDetails": object{"builder": object{"id": "urn:agentbox:make-release"}},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(r.statement()), b, 0o644)
}

// statement is the name of the file with the provenance.
func (r *release) statement() string { return "agentbox-" + r.version + ".intoto.json" }

// checksums writes the file that sha256sum -c reads.
func (r *release) checksums() error {
	subjects, err := r.subjects()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, s := range subjects {
		fmt.Fprintf(&b, "%s  %s\n", s.Digest["sha256"], s.Name)
	}
	return os.WriteFile(r.path("SHA256SUMS"), []byte(b.String()), 0o644)
}

var brew = template.Must(template.New("").Parse(`class Agentbox < Formula
  desc "Isolated, resettable workstations for coding agents"
  homepage "{{.URL}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{range .Systems}}
  on_{{.OS}} do
{{range .Archives}}    on_{{.CPU}} do
      url "{{$.URL}}/{{.Name}}"
      sha256 "{{.Sum}}"
    end
{{end}}  end
{{end}}
  def install
    bin.install "agentbox"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/agentbox.bash" => "agentbox"
    zsh_completion.install "completions/agentbox.zsh" => "_agentbox"
    fish_completion.install "completions/agentbox.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/agentbox version")
  end
end
`))

// formula writes the one for Homebrew, which takes the archives from the address of the release.
func (r *release) formula() error {
	type archive struct{ CPU, Name, Sum string }
	type system struct {
		OS       string
		Archives []archive
	}
	systems := []system{{OS: "linux"}, {OS: "macos"}}
	for _, t := range targets {
		name := r.name(t) + ".tar.gz"
		b, err := os.ReadFile(r.path(name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		i, cpu := 0, "arm"
		if t.os == "darwin" {
			i = 1
		}
		if t.arch == "amd64" {
			cpu = "intel"
		}
		systems[i].Archives = append(systems[i].Archives, archive{cpu, name, hex.EncodeToString(sum[:])})
	}
	var b bytes.Buffer
	if err := brew.Execute(&b, map[string]any{"URL": r.url, "Version": r.version, "Systems": systems}); err != nil {
		return err
	}
	return os.WriteFile(r.path("agentbox.rb"), b.Bytes(), 0o644)
}

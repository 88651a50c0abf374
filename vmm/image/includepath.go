package image

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// variables resolves the variables in From of a list of includes.
type variables struct {
	ctx   context.Context
	home  string
	goEnv map[string]string // of `go env`, which is run once
}

// goVariables are those that `go env` has if the environment does not.
var goVariables = []string{"GOROOT", "GOPATH", "GOMODCACHE", "GOCACHE", "GOTOOLDIR"}

// expand returns the absolute path that from means on this host. A variable that is not set is an
// error, since the path would be another one without it.
func (v *variables) expand(from string) (string, error) {
	if from == "" {
		return "", agentbox.Errorf(agentbox.Invalid, "include names nothing to copy")
	}
	if from == "~" || strings.HasPrefix(from, "~/") {
		from = v.home + from[1:]
	}
	var failed error
	p := os.Expand(from, func(name string) string {
		value, err := v.value(name)
		if err == nil && value == "" {
			err = agentbox.Errorf(agentbox.Invalid, "include of %s: $%s is not set", from, name)
		}
		if failed == nil {
			failed = err
		}
		return value
	})
	if failed != nil {
		return "", failed
	}
	if !filepath.IsAbs(p) {
		return "", agentbox.Errorf(agentbox.Invalid, "include of %s: %q is not an absolute path", from, p).
			WithHint("begin it with /, ~ or a variable such as $GOROOT")
	}
	return filepath.Clean(p), nil
}

// value returns a variable of the environment or of `go env`.
func (v *variables) value(name string) (string, error) {
	if name == "HOME" {
		return v.home, nil
	}
	if value := os.Getenv(name); value != "" || !slices.Contains(goVariables, name) {
		return value, nil
	}
	if v.goEnv == nil {
		if err := v.askGo(); err != nil {
			return "", err
		}
	}
	return v.goEnv[name], nil
}

// goProgram returns go in the PATH, else where Go's instructions install it: a daemon has the PATH
// of the session that started it.
func goProgram() string {
	const usual = "/usr/local/go/bin/go"
	if path, err := exec.LookPath("go"); err == nil {
		return path
	}
	if _, err := os.Stat(usual); err == nil {
		return usual
	}
	return "go" // whose absence exec reports
}

// askGo runs `go env` outside of any module, so that no repository chooses the toolchain.
func (v *variables) askGo() error {
	cmd := exec.CommandContext(v.ctx, goProgram(), append([]string{"env", "-json"}, goVariables...)...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "include needs to ask go for its directories: %w %s", err, strings.TrimSpace(stderr.String())).
			WithHint("install Go, or write the directory instead of the variable")
	}
	if err := json.Unmarshal(out, &v.goEnv); err != nil {
		return agentbox.Errorf(agentbox.Internal, "go env: %w", err)
	}
	return nil
}

// secrets are files and directories below a home directory with credentials. They are never copied
// into an image, which every box reads and peers get. A directory is listed if anything in it is
// secret.
var secrets = []string{
	".ssh", ".aws", ".azure", ".gnupg", ".config", ".netrc", "_netrc", ".docker", ".kube", ".npmrc", ".yarnrc.yml", ".pypirc",
	".git-credentials", ".gitconfig", ".password-store", ".local/share/keyrings", ".pki", ".mozilla", ".terraform.d", ".vault-token",
	".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
	".gem/credentials", ".bundle/config", ".composer/auth.json", ".pgpass", ".my.cnf", ".boto", ".s3cfg", ".oci", ".claude", ".claude.json",
	".codex", ".gemini", ".qwen", ".local/share/opencode", ".aider.conf.yml", ".cursor", ".copilot", ".bash_history", ".zsh_history", ".history",
}

// logins are names under which programs keep credentials, wherever they do. Names that libraries
// use for their own files are not among them: a directory without one of those would be broken.
var logins = []string{".credentials.json", "oauth_creds.json", ".git-credentials", ".netrc", "_netrc", ".pypirc", ".pgpass", ".vault-token", ".claude.json"}

// loginsIn are names that mean credentials only in directories of these names.
var loginsIn = map[string][]string{"auth.json": {".codex", "codex", "opencode", ".composer", "composer"}}

// hostOnly are directories with secrets of this host, or of no use elsewhere.
var hostOnly = []string{"/etc", "/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/var/lib/agentbox"}

// hostCertificates may be included, since boxes need a company's own authorities, too.
const hostCertificates = "/etc/ssl/certs"

// refuseSecret fails with code Invalid for a path that must not be included. asked is the path in
// the recipe, real has its links resolved, and home is the user's home directory.
func refuseSecret(asked, real, home string) error {
	switch {
	case real == "/" || inside(home, real):
		return agentbox.Errorf(agentbox.Invalid, "include of %s would copy the home directory into the image", asked).
			WithHint("name the directories below it that the box needs")
	case secret(real, home):
		return agentbox.Errorf(agentbox.Invalid, "include of %s would copy credentials into the image", asked).
			WithHint("give a box credentials as secrets instead")
	}
	for _, dir := range hostOnly {
		if inside(real, dir) && !inside(real, hostCertificates) {
			return agentbox.Errorf(agentbox.Invalid, "include of %s: %s belongs to this host only", asked, dir)
		}
	}
	return nil
}

// secret tells whether a path is, or is below, a place for credentials. Outside of the home
// directory only the names of files tell.
func secret(p, home string) bool {
	dir, name := filepath.Split(p)
	if slices.Contains(logins, name) || slices.Contains(loginsIn[name], filepath.Base(dir)) {
		return true
	}
	rel, ok := strings.CutPrefix(p, home+"/")
	if !ok {
		return false
	}
	return slices.ContainsFunc(secrets, func(s string) bool { return inside(rel, s) })
}

func inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

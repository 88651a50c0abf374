package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/toolchain"
)

// explained is what the box of a directory will be made from, and what says so.
type explained struct {
	Source    string          `json:"source"` // agentbox.yaml, or what was detected
	Image     string          `json:"image"`
	Packages  []string        `json:"packages,omitempty"`
	Toolchain toolchain.Needs `json:"toolchain,omitempty"`
	Lockfiles []string        `json:"lockfiles,omitempty"`
	Write     string          `json:"write,omitempty"` // an agentbox.yaml that says the same, where nobody wrote one
}

// explain shows what was found, from which file, and what to write to change it. It makes nothing.
func (a *app) explain(ctx context.Context) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	cfg, err := config.Load(ctx, dir)
	if err != nil {
		return err
	}
	e := explained{Source: cfg.Source, Image: cfg.Image, Packages: cfg.Packages, Toolchain: cfg.Toolchain, Lockfiles: cfg.Lockfiles}
	if cfg.Path == "" {
		e.Write = config.Write(cfg)
	}
	return a.report(facts{value: e, text: e.text()})
}

func (e explained) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "configuration  %s\nimage          %s\n", e.Source, e.Image)
	if len(e.Packages) > 0 {
		fmt.Fprintf(&b, "packages       %s\n", strings.Join(e.Packages, " "))
	}
	for _, n := range e.Toolchain {
		fmt.Fprintf(&b, "tool           %-10s %-14s %s\n", n.Tool, versionText(n), sourceText(n))
	}
	for _, name := range e.Lockfiles {
		fmt.Fprintf(&b, "lockfile       %s\n", name)
	}
	if e.Write != "" {
		fmt.Fprintf(&b, "\nTo change it, `agentbox init` writes this as agentbox.yaml:\n\n%s", e.Write)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func versionText(n toolchain.Need) string {
	switch {
	case n.Refused != "":
		return fmt.Sprintf("%q?", n.Refused)
	case n.Constraint == "":
		return "any"
	}
	return n.Constraint
}

func sourceText(n toolchain.Need) string {
	if n.Key == "" {
		return n.File
	}
	return n.File + " (" + n.Key + ")"
}

func (a *app) initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Category: catHost, Usage: "write what was detected in this repository as agentbox.yaml",
		Description: "agentbox needs no configuration. This writes down what it would do without one, to change from there.",
		Action: func(ctx context.Context, _ *cli.Command) error {
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			cfg, err := config.Load(ctx, dir)
			if err != nil {
				return err
			}
			if cfg.Path != "" {
				return agentbox.Errorf(agentbox.Exists, "%s governs this directory already", cfg.Source).WithHint("agentbox up --explain shows what it says")
			}
			path := filepath.Join(cfg.Root, "agentbox.yaml")
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err != nil {
				return agentbox.Errorf(agentbox.Conflict, "cannot write %s: %w", path, err)
			}
			if _, err := f.WriteString(config.Write(cfg)); err != nil {
				f.Close()
				return agentbox.Errorf(agentbox.Conflict, "cannot write %s: %w", path, err)
			}
			if err := f.Close(); err != nil {
				return agentbox.Errorf(agentbox.Conflict, "cannot write %s: %w", path, err)
			}
			return a.report(facts{value: map[string]string{"path": path}, text: path})
		},
	}
}

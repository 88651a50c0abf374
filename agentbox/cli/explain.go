package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/toolchain"
)

// explained is what the box of a directory will be made from, and the sources of these decisions.
// It is the JSON of `up --explain`.
type explained struct {
	Source string `json:"source"` // agentbox.yaml, or what was detected
	// Build makes the image. Where it fails, Image, Packages and Toolchain are what boxes have.
	Build     *config.Build   `json:"build,omitempty"`
	Image     string          `json:"image"`
	Packages  []string        `json:"packages,omitempty"`
	Toolchain toolchain.Needs `json:"toolchain,omitempty"`
	Lockfiles []string        `json:"lockfiles,omitempty"`
	// What the configuration says of the box; zero values leave it to agentbox.
	User   string                    `json:"user,omitempty"`
	CPUs   int                       `json:"cpus,omitempty"`
	Memory int64                     `json:"memory,omitempty"` // bytes
	Disk   int64                     `json:"disk"`             // bytes
	Least  config.Least              `json:"requirements"`
	Env    map[string]string         `json:"env,omitempty"` // ${containerEnv:NAME} is the image's
	Ports  []agentbox.ConfiguredPort `json:"ports,omitempty"`
	// Compose are the other services of a Compose file, without what their images say.
	Compose []config.Composed `json:"compose,omitempty"`
	Setup   []string          `json:"setup,omitempty"`
	Start   []string          `json:"start,omitempty"`
	// Warnings tell what of a devcontainer.json boxes do not do as it says.
	Warnings []string `json:"warnings,omitempty"`
	// Write is an agentbox.yaml with the same content, if the repository has none.
	Write string     `json:"write,omitempty"`
	Plan  api.UpPlan `json:"plan"`
	// Bench is how its commands compared with the machine when `bench` ran here last.
	Bench []string `json:"bench,omitempty"`
}

// explain is `up --explain`: it shows what was detected, from which file, what to write to change
// it, and the daemon's plan for up. It makes nothing. It reads the configuration itself, by the
// same code as the daemon, but the plan comes from the daemon, because only it knows the boxes and
// what is cached. --json prints an explained.
func (a *app) explain(ctx context.Context, req api.UpRequest) error {
	dir, cfg, err := loadConfig(ctx, req.Devcontainer)
	if err != nil {
		return err
	}
	e := newExplained(cfg)
	// Suggest a configuration only if there is none. Otherwise it would contradict the user's own.
	if cfg.Path == "" {
		e.Write = config.Write(cfg)
	}
	c, err := a.checkout(ctx)
	if err != nil {
		return err
	}
	req.Directory, req.Source, req.Environ = c.directory, c.source, a.environ()
	if e.Plan, err = call(ctx, a, api.PlanUp, req); err != nil {
		return err
	}
	e.Bench = benchLines(dir)
	return a.report(facts{value: e, text: e.text()})
}

func newExplained(cfg *config.Config) explained {
	e := explained{
		Source: cfg.Source, Build: cfg.Build, Image: cfg.Image, Packages: cfg.Packages, Toolchain: cfg.Toolchain, Lockfiles: cfg.Lockfiles,
		User: cfg.User, CPUs: cfg.CPUs, Memory: cfg.Memory, Disk: cfg.Disk, Least: cfg.Least, Ports: cfg.Ports,
		Setup: cfg.Setup, Start: cfg.Start, Warnings: cfg.Warnings, Env: maps.Clone(cfg.Env), Compose: cfg.Compose,
	}
	maps.Copy(e.Env, cfg.Derived)
	return e
}

func loadConfig(ctx context.Context, devcontainer string) (dir string, cfg *config.Config, err error) {
	if dir, err = currentDir(); err == nil {
		cfg, err = config.LoadAt(ctx, config.Place{Directory: dir, Devcontainer: devcontainer})
	}
	return dir, cfg, err
}

// text returns aligned columns, then a configuration to start from if there is none.
func (e explained) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "configuration  %s\n", e.Source)
	if e.Build != nil {
		fmt.Fprintf(&b, "dockerfile     %s (image, packages and tools are for a box without it)\n", agentbox.Printable(e.Build.Dockerfile))
	}
	fmt.Fprintf(&b, "image          %s\n", e.Image)
	if len(e.Packages) > 0 {
		fmt.Fprintf(&b, "packages       %s\n", strings.Join(e.Packages, " "))
	}
	for _, n := range e.Toolchain {
		fmt.Fprintf(&b, "tool           %-10s %-14s %s\n", n.Tool, versionText(n), sourceText(n))
	}
	for _, name := range e.Lockfiles {
		fmt.Fprintf(&b, "lockfile       %s\n", name)
	}
	e.boxText(&b)
	box := "a new one"
	if e.Plan.Box != "" {
		box = e.Plan.Box
	}
	fmt.Fprintf(&b, "box            %s\nisolation      %s: %s\n", box, e.Plan.Isolation, e.Plan.Reason)
	for _, other := range e.Plan.Alternatives {
		fmt.Fprintf(&b, "%-14s %s\n", other.Relation(), other)
	}
	for _, line := range e.Bench {
		fmt.Fprintf(&b, "measured       %s\n", line)
	}
	if text := agentbox.LacksText(e.Plan.Isolation, e.Plan.Lacks); text != "" {
		fmt.Fprintf(&b, "warning        %s\n", text)
	}
	for i, step := range e.Plan.Steps {
		fmt.Fprintf(&b, "%-14s %s\n", fmt.Sprintf("step %d", i+1), stepText(step))
	}
	if e.Write != "" {
		fmt.Fprintf(&b, "\nTo change it, `agentbox init` writes this as agentbox.yaml:\n\n%s", e.Write)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (e explained) boxText(b *strings.Builder) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-14s %s\n", name, agentbox.Printable(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")))
	}
	if e.User != "" {
		line("user", "%s", e.User)
	}
	switch {
	case e.CPUs != 0:
		line("cpus", "%d", e.CPUs)
	case e.Least.CPUs != 0:
		line("cpus", "at least %d", e.Least.CPUs)
	}
	switch {
	case e.Memory != 0:
		line("memory", "%s", config.FormatSize(e.Memory))
	case e.Least.Memory != 0:
		line("memory", "at least %s", config.FormatSize(e.Least.Memory))
	}
	if e.Disk != config.DefaultDisk {
		line("disk", "%s", config.FormatSize(e.Disk))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		line("env", "%s=%s", name, e.Env[name])
	}
	for _, p := range e.Ports {
		line("port", "%d of the box, %d here", p.Box, p.Host)
	}
	for _, s := range e.Compose {
		from := s.Image
		if s.Build != nil {
			from = s.Build.Dockerfile
		}
		line("service", "%-10s %s", s.Name, from)
	}
	for _, command := range e.Setup {
		line("setup", "%s", command)
	}
	for _, command := range e.Start {
		line("start", "%s", command)
	}
	for _, w := range e.Warnings {
		line("warning", "%s", w)
	}
}

// stepTexts describes the steps of up in words. The daemon sends steps as API constants. A step of
// a newer daemon that is missing here is shown only by its How.
var stepTexts = map[api.UpAction]string{
	api.UpApproval:      "report what waits for approval: agentbox policy show",
	api.UpImage:         "get the image",
	api.UpKernel:        "get the guest kernel",
	api.UpAccount:       "use a directory of the account on the other machine",
	api.UpTools:         "add the repository's tools to it",
	api.UpSetup:         "add the setup result for its lock files",
	api.UpTemplate:      "open the template, a saved machine",
	api.UpBox:           "create the box: its machine and its workspace",
	api.UpChanges:       "report what has changed in the configuration: the next reset applies it",
	api.UpPolicy:        "apply what is approved now to the box",
	api.UpEnsureRunning: "make sure that the box runs",
	api.UpAgent:         "install the agent's program in the box",
	api.UpRunSetup:      "run setup in the box",
	api.UpRunStart:      "run the start commands",
	api.UpRecall:        "restore the agent's conversations",
	api.UpServices:      "wait for the services",
}

// howTexts describes how a step is done.
var howTexts = map[string]string{
	api.UpPresent: "present", api.UpMissing: "not present yet", api.UpPartial: "the other steps continue", api.UpStop: "the other steps wait for it",
	api.UpIfFailed: "only if it failed in a clean one", api.UpRestore: "restored from the template", api.UpBoot: "booted",
}

// stepText describes a step for people. How is an API constant, or a state of a box.
func stepText(s api.UpStep) string {
	text := stepTexts[s.Action]
	if how := howTexts[s.How]; how != "" {
		return text + " (" + how + ")"
	} else if s.How != "" {
		return text + " (it is " + s.How + " now)"
	}
	return text
}

// versionText is the version that a file asks for, with a question mark if nothing satisfies it.
func versionText(n toolchain.Need) string {
	switch {
	case n.Refused != "":
		return fmt.Sprintf("%q?", n.Refused)
	case n.Constraint == "":
		return "any"
	}
	return n.Constraint
}

// sourceText names the file that asks for a tool, and the key in it if the file has several.
func sourceText(n toolchain.Need) string {
	if n.Key == "" {
		return n.File
	}
	return n.File + " (" + n.Key + ")"
}

// initCommand is `init`: it writes down as a configuration what up would do without one. It never
// replaces a file. If a configuration already governs the directory, perhaps from a parent
// directory, that is an error.
func (a *app) initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Category: catHost, Usage: "write an agentbox.yaml with what was detected in this repository",
		Description: "agentbox needs no configuration. This writes what it does without one to a file that you can edit.",
		Action: func(ctx context.Context, _ *cli.Command) error {
			_, cfg, err := loadConfig(ctx, "")
			if err != nil {
				return err
			}
			if cfg.Path != "" {
				return agentbox.Errorf(agentbox.Exists, "%s already applies to this directory", cfg.Source).WithHint("agentbox up --explain shows its effect")
			}
			path := filepath.Join(cfg.Root, "agentbox.yaml")
			// O_EXCL never replaces a file, even if another init or an editor has just written one.
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err != nil {
				return agentbox.Errorf(agentbox.Conflict, "cannot write %s: %w", path, err)
			}
			_, err = f.WriteString(config.Write(cfg))
			if err = errors.Join(err, f.Close()); err != nil {
				return agentbox.Errorf(agentbox.Conflict, "cannot write %s: %w", path, err)
			}
			return a.report(facts{value: map[string]string{"path": path}, text: path})
		},
	}
}

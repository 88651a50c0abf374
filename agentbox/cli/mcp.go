package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

// mcpCommand is `mcp`: like serve, the daemon's program.
func (a *app) mcpCommand() *cli.Command {
	var scope string
	return &cli.Command{
		Name: "mcp", Category: catFaces, Usage: "serve boxes to an agent outside by MCP; or give boxes the MCP servers of this machine",
		Description: "An agent's program starts it, and speaks on standard input and output. Its directory's checkout is what boxes are made of, unless a call names another.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "scope", Usage: "what the agent may do: read, run, or admin", Value: string(api.ScopeRun), Destination: &scope},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			if !slices.Contains(api.Scopes, api.Scope(scope)) {
				return agentbox.Errorf(agentbox.Invalid, "%q is no scope", scope).WithHint("it is read, run or admin")
			}
			client, err := a.daemon(ctx) // starts one
			if err != nil {
				return err
			}
			client.Close()
			return a.become("mcp", "-scope", scope)
		},
		Commands: []*cli.Command{a.mcpInstallCommand(), a.mcpAddCommand(), a.mcpLoginCommand(), a.mcpLsCommand(), a.mcpRmCommand()},
	}
}

// mcpInstallCommand is `mcp install`. --json prints where it wrote.
func (a *app) mcpInstallCommand() *cli.Command {
	return &cli.Command{
		Name: "install", Usage: "write the configuration of an agent, so that it starts `agentbox mcp`", ArgsUsage: "claude|codex|gemini",
		Description: "claude: .mcp.json in this directory; gemini: .gemini/settings.json in this directory; codex: config.toml in $CODEX_HOME or ~/.codex. What else is in the file stays.",
		Action: func(_ context.Context, cmd *cli.Command) error {
			file, err := installMCP(cmd.Args().First(), a.here.Environ())
			if err != nil {
				return err
			}
			return a.report(facts{value: map[string]string{"file": file}, ids: []string{file}, text: "wrote the server agentbox into " + file})
		},
	}
}

// mcpServer is how agents start the server.
type mcpServer struct {
	Command string            `json:"command" toml:"command"`
	Args    []string          `json:"args" toml:"args"`
	Env     map[string]string `json:"env,omitempty" toml:"env,omitempty"`
}

func installMCP(agent string, environ []string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	server := mcpServer{Command: self, Args: []string{"mcp"}, Env: map[string]string{}}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		server.Env[name] = value
	}
	var file string
	edit := addToJSON
	switch agent {
	case "claude":
		file = ".mcp.json"
	case "gemini":
		file = filepath.Join(".gemini", "settings.json")
	case "codex":
		edit = addToTOML
		dir := os.Getenv("CODEX_HOME")
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", agentbox.Errorf(agentbox.Missing, "no home directory: %w", err).WithHint("set CODEX_HOME")
			}
			dir = filepath.Join(home, ".codex")
		}
		file = filepath.Join(dir, "config.toml")
	default:
		return "", agentbox.Errorf(agentbox.Invalid, "no agent %q is known here", agent).WithHint("it is claude, codex or gemini; others: command %s, argument mcp", self)
	}
	if agent != "codex" {
		// These are in a checkout, whose links may lead anywhere.
		for _, name := range []string{filepath.Dir(file), file} {
			if info, err := os.Lstat(name); err == nil && info.Mode().Type()&^fs.ModeDir != 0 {
				return "", agentbox.Errorf(agentbox.Invalid, "%s is a link, and the checkout says where it leads", name).WithHint("replace it by a file, or add the server by hand: command %s, argument mcp", self)
			}
		}
	}
	was, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	now, err := edit(was, server)
	if err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "%s: %w", file, err).WithHint("nothing was written; mend the file, or add the server by hand: command %s, argument mcp", self)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // people keep such files elsewhere, behind links
	}
	return file, durable.WriteFile(file, now, mode)
}

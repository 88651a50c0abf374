package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// toolsRule is what boxes with a server are allowed: each request is decided about, and so logged.
const toolsRule = "http://" + policy.ToolsName + "/**"

// mcpAddCommand is `mcp add`. --json prints an api.ToolServer.
func (a *app) mcpAddCommand() *cli.Command {
	req := api.ToolServerRequest{}
	var env, headers map[string]string
	return &cli.Command{
		Name: "add", Usage: "let the boxes of this repository use an MCP server of this machine, or one at a URL", ArgsUsage: "NAME [URL] | NAME -- CMD...",
		Description: "CMD runs on this machine, outside of any box, in this directory. Boxes reach all servers at http://" + policy.ToolsName + "/; the name\n" +
			"of a tool there is NAME__TOOL. Credentials stay here; SOURCE is as for secret set: file:PATH, keyring:NAME, command:LINE, env:VARIABLE.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "tool", Usage: "offer tools that match this `GLOB` only; can be repeated", Destination: &req.Server.Tools},
			&cli.StringSliceFlag{Name: "arg", Usage: "an argument must match: `TOOL.ARGUMENT=GLOB`; can be repeated", Destination: &req.Server.Args},
			variables{&cli.StringMapFlag{Name: "env", Aliases: []string{"e"}, Usage: "set a variable of CMD from a source: `NAME=SOURCE`; can be repeated", Destination: &env}},
			variables{&cli.StringMapFlag{Name: "header", Usage: "send a header to URL, from a source: `NAME=SOURCE`; can be repeated", Destination: &headers}},
			&cli.BoolFlag{Name: "everywhere", Usage: "apply to the boxes of all repositories", Destination: &req.Everywhere},
		},
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			if n := cmd.Args().Len(); n < 1 || n > 2 || n == 2 && a.command != nil {
				return agentbox.Errorf(agentbox.Invalid, "mcp add takes a name, and a URL or a command after --").WithHint("agentbox mcp add NAME -- CMD..., or agentbox mcp add NAME https://HOST/PATH")
			}
			s := &req.Server
			s.Name, s.URL, s.Command = cmd.Args().First(), cmd.Args().Get(1), a.command
			if s.Env, err = references(env); err == nil {
				s.Headers, err = references(headers)
			}
			if err != nil {
				return err
			}
			if s.Directory, err = os.Getwd(); err != nil {
				return err
			}
			if req.PolicyRef, err = a.policyRef(ctx, ""); err != nil && !req.Everywhere {
				return err
			}
			added, err := call(ctx, a, api.AddToolServer, req)
			if err != nil {
				return err
			}
			change := api.ChangeRequest{PolicyRef: req.PolicyRef, Everywhere: req.Everywhere, List: "allow", Rules: []string{toolsRule}}
			if _, err := call(ctx, a, api.ChangePolicy, change); err != nil {
				return err
			}
			return a.report(facts{value: added, ids: []string{added.Name}, text: fmt.Sprintf("boxes of %s may use %s at http://%s/", projectText(added.Project), added.Name, policy.ToolsName)})
		},
	}
}

func projectText(project string) string {
	if project == "" {
		return "all repositories"
	}
	return "this repository"
}

func references(of map[string]string) (map[string]secrets.Reference, error) {
	out := map[string]secrets.Reference{}
	for name, source := range of {
		r, err := secrets.Parse(source)
		if err != nil {
			return nil, agentbox.Errorf(agentbox.Invalid, "%s: a value does not belong on the command line, but where it is kept: %w", name, err)
		}
		out[name] = r
	}
	return out, nil
}

// mcpLsCommand is `mcp ls`. --json prints a list of api.ToolServer.
func (a *app) mcpLsCommand() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the MCP servers that boxes of this repository may use",
		Action: func(ctx context.Context, _ *cli.Command) error {
			ref, _ := a.policyRef(ctx, "") // outside of a checkout, those of all repositories
			return callAndReport(ctx, a, api.ListToolServers, ref, func(all []api.ToolServer) facts {
				return listed(all, []string{"NAME", "SERVER", "TOOLS", "ARGUMENTS", "CREDENTIALS", "FOR"}, func(s api.ToolServer) (string, []string) {
					server, tools := s.URL, "all"
					if server == "" {
						server = strings.Join(s.Command, " ")
					}
					if len(s.Tools) > 0 {
						tools = strings.Join(s.Tools, ", ")
					}
					names := slices.Sorted(maps.Keys(s.Env))
					names = append(names, slices.Sorted(maps.Keys(s.Headers))...)
					return s.Name, []string{s.Name, server, tools, strings.Join(s.Args, ", "), strings.Join(names, ", "), projectText(s.Project)}
				})
			})
		},
	}
}

// mcpLoginCommand is `mcp login`. A page that the server names is opened, as it is http or https.
func (a *app) mcpLoginCommand() *cli.Command {
	var clientID string
	return &cli.Command{
		Name: "login", Usage: "log in at an MCP server with a URL, by OAuth, in your browser", ArgsUsage: "SERVER",
		Description: "The tokens stay on this machine, and boxes never see them. They are renewed as long as the server allows.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "client-id", Usage: "`ID` that the server gave you for agentbox, if it registers no programs by itself", Destination: &clientID},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ref, _ := a.policyRef(ctx, "")
			client, err := a.daemon(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			name := cmd.Args().First()
			_, err = api.Call(ctx, client, api.LoginToolServer, api.ToolLogin{ToolServerRef: api.ToolServerRef{PolicyRef: ref, Name: name}, ClientID: clientID}, func(e agentbox.Event) {
				if e.Step == api.LoginStep && !e.Ended {
					fmt.Fprintln(a.stderr, "log in at "+agentbox.Printable(e.Detail))
					showPage(e.Detail)
				}
			})
			if err != nil {
				return err
			}
			return a.report(facts{value: map[string]string{"name": name}, ids: []string{name}, text: "logged in at " + name + "; boxes use it from now on"})
		},
	}
}

func showPage(page string) {
	if os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" {
		_ = exec.Command("xdg-open", page).Start()
	}
}

// mcpRmCommand is `mcp rm`. A box that uses the server is refused from its next call on.
func (a *app) mcpRmCommand() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "take an MCP server from the boxes of this repository", ArgsUsage: "SERVER",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ref, _ := a.policyRef(ctx, "")
			_, err := call(ctx, a, api.RemoveToolServer, api.ToolServerRef{PolicyRef: ref, Name: cmd.Args().First()})
			return err
		},
	}
}

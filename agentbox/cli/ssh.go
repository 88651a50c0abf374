package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"al.essio.dev/pkg/shellescape"
	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

// sshSuffix ends the host names of boxes for ssh, so that they cannot hide a host of the user's.
const sshSuffix = ".agentbox"

// proxyVerb is the verb that stock ssh runs to reach a box.
const proxyVerb = "ssh-proxy"

// sshCommand is `ssh`: this program becomes the machine's own ssh, with settings that reach the
// box. It ignores the user's ssh configuration (-F /dev/null), because a global option in it, such
// as a ProxyJump, would break the connection.
func (a *app) sshCommand() *cli.Command {
	var user string
	return &cli.Command{
		Name: "ssh", Category: catInside, Usage: "enter a box with the ssh program of this machine", ArgsUsage: "[BOX] [-- SSH ARGUMENTS]",
		StopOnNthArg: a.commandFollows(),
		Description:  "Words after -- are passed to ssh: a command, or options such as -L 8080:localhost:80.",
		Flags:        []cli.Flag{&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "log in as `USER` of the box", Value: sshUser, Destination: &user}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ssh, err := exec.LookPath("ssh")
			if err != nil {
				return agentbox.Errorf(agentbox.Missing, "there is no ssh on this machine").
					WithHint("install it (apt-get install openssh-client), or use agentbox shell, which needs none")
			}
			c, err := a.connect(ctx, cmd.Args().First())
			if err != nil {
				return err
			}
			settings, err := a.sshSettings(c.Box, c.Name, user)
			if err != nil {
				return err
			}
			// Options on the command line take precedence over those of a file, and there is no
			// file.
			argv := []string{"ssh", "-F", "/dev/null"}
			for _, s := range settings {
				argv = append(argv, "-o", s[0]+"="+s[1])
			}
			argv = append(append(argv, c.Name+sshSuffix), cmd.Args().Tail()...)
			// From here on this program is ssh: the streams, signals and exit code are ssh's own.
			if err := syscall.Exec(ssh, append(argv, a.command...), os.Environ()); err != nil {
				return agentbox.Errorf(agentbox.Missing, "cannot run %s: %w", ssh, err)
			}
			return nil
		},
	}
}

// sshSettings returns the ssh settings for entering a box. No path in them changes while the box
// exists, so a configuration stays valid once it was written. Agents are not forwarded, because the
// box could then use the user's keys.
func (a *app) sshSettings(id agentbox.BoxID, name, user string) ([][2]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	key, knownHosts := a.here.SSHFiles(a.host, id)
	proxy := shellescape.QuoteCommand([]string{self, proxyVerb, id.String()})
	// ssh runs the proxy from its own environment, which may differ from ours if the configuration
	// was written to a file.
	if env := a.proxyEnviron(); env != nil {
		proxy = shellescape.QuoteCommand(append([]string{"env"}, env...)) + " " + proxy
	}
	return [][2]string{
		{"HostName", name + sshSuffix},
		{"User", user},
		{"ProxyCommand", strings.ReplaceAll(proxy, "%", "%%")},
		{"IdentityFile", sshPath(key)},
		{"IdentitiesOnly", "yes"},
		{"HostKeyAlias", hostKeyAlias},
		{"UserKnownHostsFile", sshPath(knownHosts)},
		{"StrictHostKeyChecking", "yes"},
		{"ForwardAgent", "no"},
		{"LogLevel", "ERROR"},
	}, nil
}

// sshUser stands for the box's user, whatever its name: a box maps every name but root to it.
const sshUser = "agentbox"

// hostKeyAlias is the name under which a supervisor writes its box's host key. With it, one line of
// known_hosts fits all names of a box.
const hostKeyAlias = "agentbox"

// sshPath quotes a file name for ssh's configuration, in which ssh expands % and splits at spaces.
func sshPath(path string) string { return `"` + strings.ReplaceAll(path, "%", "%%") + `"` }

// sshConfigCommand is `ssh-config`, for the boxes that exist now: ssh cannot ask for more.
func (a *app) sshConfigCommand() *cli.Command {
	var install bool
	return &cli.Command{
		Name: "ssh-config", Category: catInside, Usage: "print a configuration with which ssh, sftp, rsync and editors reach boxes", ArgsUsage: "[BOX...]",
		Description: "Without BOX it covers all boxes of this machine. The host name of a box is NAME" + sshSuffix + ".\n" +
			"With --install it adds an Include to ~/.ssh/config; run it again after you create boxes.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "install", Usage: "include the configuration in ~/.ssh/config", Destination: &install}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			boxes, err := a.sshBoxes(ctx, cmd.Args().Slice())
			if err != nil {
				return err
			}
			config, err := a.sshConfig(boxes)
			if err != nil {
				return err
			}
			if install {
				return a.installSSH(config)
			}
			_, err = io.WriteString(a.stdout, config)
			return err
		},
	}
}

// sshConfig is the configuration with which stock ssh reaches boxes.
func (a *app) sshConfig(boxes []agentbox.Box) (string, error) {
	var b strings.Builder
	for _, box := range boxes {
		settings, err := a.sshSettings(box.ID, box.Name, sshUser)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "Host %s%s %s%s\n", box.Name, sshSuffix, box.ID, sshSuffix)
		for _, s := range settings {
			fmt.Fprintf(&b, "  %s %s\n", s[0], s[1])
		}
	}
	return b.String(), nil
}

// suffix tells the configuration for the boxes of another machine from that for those of this one.
func suffix(host string) string {
	if host == "" {
		return ""
	}
	return "." + host
}

// sshBoxes returns the boxes to configure: the named ones, or all without a name.
func (a *app) sshBoxes(ctx context.Context, args []string) ([]agentbox.Box, error) {
	if len(args) == 0 {
		all, err := call(ctx, a, api.ListBoxes, api.ListRequest{})
		if err == nil {
			err = a.here.DropKeys(a.host, all)
		}
		return all, err
	}
	var boxes []agentbox.Box
	for _, arg := range args {
		b, err := call(ctx, a, api.ShowBox, a.ref(arg))
		if err != nil {
			return nil, err
		}
		boxes = append(boxes, b)
	}
	return boxes, nil
}

// installSSH writes the configuration into agentbox's home, and one line into the user's own file.
// The line goes to the top, because ssh uses the first value that it reads. The user's file is
// replaced as a whole, following links. If the line is already there, the file stays unchanged.
func (a *app) installSSH(config string) error {
	ownConfig := filepath.Join(a.here.Dir(), "ssh_config"+suffix(a.host))
	if err := replaceFile(ownConfig, []byte(config)); err != nil {
		return err
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "no home directory: %w", err)
	}
	userConfig := filepath.Join(user, ".ssh", "config")
	// A configuration that is a link to a file elsewhere stays a link.
	if real, err := filepath.EvalSymlinks(userConfig); err == nil {
		userConfig = real
	}
	include := "Include " + sshPath(ownConfig) + "\n"
	before, err := os.ReadFile(userConfig)
	if err != nil && !os.IsNotExist(err) {
		return agentbox.Errorf(agentbox.Missing, "cannot read %s: %w", userConfig, err)
	}
	// Match whole lines, because a comment may also contain the line.
	if strings.Contains("\n"+string(before), "\n"+include) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(userConfig), 0o700); err != nil {
		return agentbox.Errorf(agentbox.Missing, "cannot create %s: %w", filepath.Dir(userConfig), err)
	}
	return replaceFile(userConfig, append([]byte(include), before...))
}

// replaceFile writes a file that only the user may read. After a failure, the old one is unchanged.
func replaceFile(path string, b []byte) error {
	if err := durable.WriteFile(path, b, 0o600); err != nil {
		return agentbox.Errorf(agentbox.Missing, "cannot %w", err)
	}
	return nil
}

// sshProxyCommand is what ssh runs for its connection (ProxyCommand). It wakes the box and copies
// bytes; the SSH session is between ssh and the supervisor.
func (a *app) sshProxyCommand() *cli.Command {
	return &cli.Command{
		Name: proxyVerb, Hidden: true, Usage: "connect standard input and output to the SSH server of a box", ArgsUsage: "BOX",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// Our configuration passes the ID. A ProxyCommand of the user's own may pass %h, the
			// name with our suffix.
			c, err := a.connect(ctx, strings.TrimSuffix(cmd.Args().First(), sshSuffix))
			if err != nil {
				return err
			}
			// ssh reads the keys once this end has answered.
			if err := a.here.KeepKeys(a.host, c); err != nil {
				return err
			}
			conn, err := a.dialBox(ctx, c)
			if err != nil {
				return err
			}
			defer conn.Close()
			// ssh ends its proxy by a signal. Closing the connection then ends the copying.
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			if err := splice(conn, a.stdin, a.stdout); ctx.Err() == nil {
				return err
			}
			return nil // ssh sends SIGHUP when it no longer needs us
		},
	}
}

// splice copies between a connection and a pair of streams until the box's side ends, even if in
// has more data. A read from in cannot be interrupted, so it is left to the end of the program.
func splice(conn net.Conn, in io.Reader, out io.Writer) error {
	go func() {
		io.Copy(conn, in)
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			c.CloseWrite()
		}
	}()
	if _, err := io.Copy(out, conn); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "the connection to the box was lost: %w", err)
	}
	return nil
}

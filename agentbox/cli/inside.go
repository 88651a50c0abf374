package cli

import "github.com/urfave/cli/v3"

// insideCommands are the verbs that reach into a box.
func (a *app) insideCommands() []*cli.Command {
	return []*cli.Command{
		a.execCommand(), a.attachCommand(), a.jobsCommand(), a.shellCommand(), a.cpCommand(), a.diffCommand(), a.pullCommand(),
		a.logsCommand(), a.portsCommand(), a.sshCommand(), a.sshConfigCommand(),
	}
}

// hiddenCommands are run by other programs: our daemon, ssh, git. They are no part of what is
// promised to people, and may change with any build.
func (a *app) hiddenCommands() []*cli.Command {
	return []*cli.Command{a.superviseCommand(), a.sshProxyCommand(), a.gitServeCommand()}
}

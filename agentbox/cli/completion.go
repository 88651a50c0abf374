package cli

import (
	"context"
	"io"

	"github.com/urfave/cli/v3"
)

// completionFlag is what a shell adds to the words so far to learn how they may go on.
const completionFlag = "--generate-shell-completion"

// bashCompletion needs nothing but bash. The library's own wants the package bash-completion, and
// evaluates the words that are being typed: a substitution or a redirection among them would take
// place at every TAB. A name that is completed may come from a repository, so nothing of it may be
// evaluated.
const bashCompletion = `_agentbox() {
	local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
	[[ $cur == -* ]] && words+=("$cur")
	COMPREPLY=($(compgen -W "$(agentbox "${words[@]}" ` + completionFlag + ` 2>/dev/null | cut -d: -f1)" -- "$cur"))
}
complete -o bashdefault -o default -F _agentbox agentbox
`

// completionCommand makes the library's verb one of ours.
func (a *app) completionCommand(cmd *cli.Command) {
	cmd.Hidden, cmd.Category, cmd.Usage = false, catHost, "print the completion for a shell: bash, zsh, fish or pwsh"
	for _, sub := range cmd.Commands {
		if sub.Name == "bash" {
			sub.Action = func(context.Context, *cli.Command) error {
				_, err := io.WriteString(a.stdout, bashCompletion)
				return err
			}
		}
	}
}

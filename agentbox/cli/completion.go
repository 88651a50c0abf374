package cli

import (
	"context"
	"io"

	"github.com/urfave/cli/v3"
)

// completionFlag is what a shell appends to a line to ask for completions.
const completionFlag = "--generate-shell-completion"

// bashCompletion needs only bash. The library's own script needs the package bash-completion, and
// it evaluates the words being typed: every TAB would carry out a substitution or redirection among
// them. A completed name may come from a repository, so none of it may be evaluated.
const bashCompletion = `_agentbox() {
	local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
	[[ $cur == -* ]] && words+=("$cur")
	COMPREPLY=($(compgen -W "$(agentbox "${words[@]}" ` + completionFlag + ` 2>/dev/null | cut -d: -f1)" -- "$cur"))
}
complete -o bashdefault -o default -F _agentbox agentbox
`

// completionCommand adapts the library's completion verb to our conventions.
func (a *app) completionCommand(cmd *cli.Command) {
	cmd.Hidden, cmd.Category, cmd.Usage = false, catHost, "print the completion script for a shell: bash, zsh, fish or pwsh"
	cmd.Description = "For bash, put `source <(agentbox completion bash)` into ~/.bashrc; for zsh, the same with zsh into ~/.zshrc.\n" +
		"For fish: agentbox completion fish >~/.config/fish/completions/agentbox.fish. For PowerShell, run the output of agentbox completion pwsh."
	for _, sub := range cmd.Commands {
		sub.Usage = "print the completion script for " + sub.Name
		if sub.Name == "bash" {
			sub.Action = func(context.Context, *cli.Command) error {
				_, err := io.WriteString(a.stdout, bashCompletion)
				return err
			}
		}
	}
}

package git

import (
	"strings"

	"agentbox/agentbox"
)

// programKey matches the keys whose value is a program, a command line, the name of a configured
// tool, or a place where git looks for programs: git-config(1) of git 2.55, the manuals of its
// commands, and that of Git LFS. Keys are in canonical form. Aliases, submodule.*.update and
// filters are not here; see Setting.RunsProgram.
var programKey = agentbox.Pattern(`^(?:` + strings.Join([]string{
	`core\.(alternaterefscommand|askpass|editor|fsmonitor|gitproxy|hookspath|pager|sshcommand)`, `pager\..*`,
	`(sequence\.editor|interactive\.difffilter|init\.templatedir|imap\.tunnel|svn\.authorsprog|svn-remote\..*\.authorsprog)`,
	`credential\.(.*\.)?helper`, `gpg\.(.*\.)?(program|defaultkeycommand)`, `hook\..*`,
	`diff\.(external|tool|guitool)`, `diff\..*\.(command|textconv)`, `difftool\..*\.(cmd|path)`,
	`merge\.(tool|guitool)`, `merge\..*\.driver`, `mergetool\..*\.(cmd|path)`, `guitool\..*\.cmd`,
	`(browser|man)\..*`, `(help|web|instaweb)\.(browser|httpd|modulepath)`,
	`sendemail\.(.*\.)?(cccmd|headercmd|tocmd|sendmailcmd|smtpserver)`,
	`remote\..*\.(receivepack|uploadpack|vcs)`, `uploadpack\.packobjectshook`, `gc\.recentobjectshook`,
	`tar\..*\.command`, `trailer\..*\.(cmd|command)`,
	`lfs\.(customtransfer\..*\.(path|args)|extension\..*\.(clean|smudge))`, `lfs\.(standalonetransferagent|.*\.standalonetransferagent)`,
}, "|") + `)$`)

// RunsProgram reports whether git, or a tool of it, may start a program because of this setting. A
// filter does not count: without it, the repository's content means something else.
func (s Setting) RunsProgram() bool {
	shell := strings.HasPrefix(s.Value, "!")
	switch {
	case strings.HasPrefix(s.Key, "alias."), strings.HasPrefix(s.Key, "submodule.") && strings.HasSuffix(s.Key, ".update"):
		return shell
	}
	return programKey().MatchString(s.Key)
}

// hookEvents lists the events of githooks(5), git 2.55. Since 2.54 a configuration may have hooks
// of its own for them, which core.hooksPath does not switch off.
var hookEvents = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg",
	"post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive",
	"post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate",
	"fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit", "post-index-change",
}

package git

import (
	"os"
	"slices"
	"strings"
)

// userConfigVariables lists the variables that locate the user's own configuration. All other
// variables of git are dropped, since they point to another repository or name programs.
var userConfigVariables = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}

// baseEnvironment is part of the environment of every git that we run. It sets English messages,
// and disables prompts, locks on the user's index, fetching over any protocol, and every program
// that git would start.
var baseEnvironment = []string{
	"LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none",
	"GIT_PROTOCOL_FROM_USER=0", "GIT_SSH_COMMAND=false", "GIT_PROXY_COMMAND=false", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
	"GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false", "GIT_PAGER=cat", "PAGER=cat", "GIT_MERGE_AUTOEDIT=no",
	"GIT_TRACE2=0", "GIT_TRACE2_EVENT=0", "GIT_TRACE2_PERF=0", "GIT_ADVICE=0",
}

// noUserConfig hides every configuration except the repository's.
var noUserConfig = []string{"HOME=/dev/null", "XDG_CONFIG_HOME=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
	"GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1"}

// overrides take precedence over all configuration files. They cover the keys that start a program
// or reach another machine, and that the environment cannot control. Locks of refs are waited for,
// in milliseconds: the git of a killed daemon may hold one for a moment longer.
var overrides = []string{
	"core.fsmonitor=false", "core.hooksPath=/dev/null", "core.sshCommand=false", "core.gitProxy=", "core.alternateRefsCommand=false",
	"core.askPass=false", "core.pager=cat", "core.editor=false", "credential.helper=", "protocol.allow=never",
	"protocol.ext.allow=never", "protocol.file.allow=never", "gpg.program=false", "gpg.x509.program=false", "gpg.ssh.program=false",
	"gpg.ssh.defaultKeyCommand=", "log.showSignature=false", "diff.external=", "interactive.diffFilter=", "sequence.editor=false",
	"uploadpack.packObjectsHook=", "submodule.recurse=false", "fetch.recurseSubmodules=false", "gc.auto=0", "maintenance.auto=false",
	"fetch.fsckObjects=true", "transfer.fsckObjects=true", "core.untrackedCache=keep",
	"core.filesRefLockTimeout=10000", "core.packedRefsTimeout=10000",
}

// environment returns the environment of one git process. If a variable appears several times, the
// last value counts, so ours take precedence.
func environment(withPersonal bool) []string {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); isAllowedVariable(name, withPersonal) {
			env = append(env, kv)
		}
	}
	env = append(env, baseEnvironment...)
	if !withPersonal {
		env = append(env, noUserConfig...)
	}
	return env
}

// isAllowedVariable reports whether git may see a variable of this process.
func isAllowedVariable(name string, withPersonal bool) bool {
	if withPersonal && slices.Contains(userConfigVariables, name) {
		return true
	}
	switch name {
	case "LANGUAGE", "EDITOR", "VISUAL", "PAGER", "LESS", "LV", "SSH_ASKPASS":
		return false
	}
	return !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "LC_")
}

// options returns the arguments that precede git's subcommand.
func options() []string {
	args := []string{"--no-pager", "--no-replace-objects"}
	for _, kv := range overrides {
		args = append(args, "-c", kv)
	}
	for _, event := range hookEvents {
		args = append(args, "-c", "hook."+event+".enabled=false")
	}
	return args
}

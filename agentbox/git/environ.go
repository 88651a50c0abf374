package git

import (
	"os"
	"slices"
	"strings"
)

// personal are the variables that say where the user's own configuration is. All other variables of
// git's stay out: they point at another repository, or name programs.
var personal = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}

// always is the environment of every git that we run: English, no questions, no lock on the user's
// index, nothing fetched over any protocol, and no program in any of the places where git would
// start one.
var always = []string{
	"LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none",
	"GIT_PROTOCOL_FROM_USER=0", "GIT_SSH_COMMAND=false", "GIT_PROXY_COMMAND=false", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
	"GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false", "GIT_PAGER=cat", "PAGER=cat", "GIT_MERGE_AUTOEDIT=no",
	"GIT_TRACE2=0", "GIT_TRACE2_EVENT=0", "GIT_TRACE2_PERF=0",
}

// nobody's configuration is read but the repository's.
var nobody = []string{"HOME=/dev/null", "XDG_CONFIG_HOME=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
	"GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1"}

// overrides win over every file of configuration, for the keys that start a program or lead to
// another machine and that the environment does not settle.
var overrides = []string{
	"core.fsmonitor=false", "core.hooksPath=/dev/null", "core.sshCommand=false", "core.gitProxy=", "core.alternateRefsCommand=false",
	"core.askPass=false", "core.pager=cat", "core.editor=false", "credential.helper=", "protocol.allow=never",
	"protocol.ext.allow=never", "protocol.file.allow=never", "gpg.program=false", "gpg.x509.program=false", "gpg.ssh.program=false",
	"gpg.ssh.defaultKeyCommand=", "log.showSignature=false", "diff.external=", "interactive.diffFilter=", "sequence.editor=false",
	"uploadpack.packObjectsHook=", "submodule.recurse=false", "fetch.recurseSubmodules=false", "gc.auto=0", "maintenance.auto=false",
	"fetch.fsckObjects=true", "transfer.fsckObjects=true", "core.untrackedCache=keep",
}

// environment is that of one git. Of several values of one variable the last counts, so ours win.
func environment(withPersonal bool) []string {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); keeps(name, withPersonal) {
			env = append(env, kv)
		}
	}
	env = append(env, always...)
	if !withPersonal {
		env = append(env, nobody...)
	}
	return env
}

// keeps tells whether git may see a variable of this process.
func keeps(name string, withPersonal bool) bool {
	if withPersonal && slices.Contains(personal, name) {
		return true
	}
	switch name {
	case "LANGUAGE", "EDITOR", "VISUAL", "PAGER", "LESS", "LV", "SSH_ASKPASS":
		return false
	}
	return !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "LC_")
}

// options are the arguments before git's verb.
func options() []string {
	args := []string{"--no-pager", "--no-replace-objects"}
	for _, kv := range overrides {
		args = append(args, "-c", kv)
	}
	return args
}

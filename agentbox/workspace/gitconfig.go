package workspace

import (
	"context"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// leftBehind matches the keys a copy does not get: credentials and where to find them, what runs
// programs of the host, what leads to other files, and the signatures no box can make without a
// key. Keys are in canonical form. The last two are for tools that keep tokens in git's
// configuration, each under a name of its own (git-town.github-token): a key that only sounds like
// one is no loss.
var leftBehind = agentbox.Pattern(`^(?:` + strings.Join([]string{
	`credential\..*`, `http\.(.*\.)?(extraheader|cookiefile|proxyauthmethod|sslkey|sslcert|sslcertpasswordprotected|proxysslkey|proxysslcert|.*password.*)`,
	`include\..*`, `includeif\..*`, `sendemail\..*`, `imap\..*`, `gpg\..*`, `(commit|tag|push)\.gpgsign`, `user\.signingkey`, `uploadpack\..*hook`,
	`core\.(hookspath|sshcommand|fsmonitor|askpass|gitproxy|worktree|bare|alternaterefscommand|alternaterefsprefixes|ignorecase|precomposeunicode)`,
	`core\.(checkstat|trustctime)`, `receive\.denycurrentbranch`, `safe\..*`,
	`.*\.[^.]*(token|passw(or)?d|passphrase|secret|api-?key)[^.]*`, `.*\.[^.]*pass`,
}, "|") + `)$`)

// carried are the keys of the user's own configuration that decide what git says about this work
// tree, or who commits.
const carried = `^(user\.(name|email)|core\.(autocrlf|eol|safecrlf|excludesfile))$`

// fixed is what every copy gets. Its files have other inodes and times of change than the index
// remembers, and may have lost the fractions of their seconds on the way to a disk: git must
// compare what did survive, the second and the size. And it may be pushed to while its branch is
// checked out, as long as nothing in it is lost by that.
var fixed = []git.Setting{
	{Key: "core.bare", Value: "false"},
	{Key: "core.checkstat", Value: "minimal"},
	{Key: "core.trustctime", Value: "false"},
	{Key: "receive.denycurrentbranch", Value: "updateInstead"},
}

// keepWorktree as the worktree of a target keeps what the original says, for submodules not checked
// out. A NUL is in no path, so it is none of a user's.
const keepWorktree = "\x00keep"

// config writes the configuration of the copy, and returns that of the original. It is written anew
// and not copied, so that nothing gets through that was not understood.
func (s *stager) config(ctx context.Context, repo Repo, to target) (local []git.Setting, err error) {
	// The user's settings go into submodules, too, but are asked for once.
	if repo == s.top {
		if s.carry, err = carriedSettings(ctx, repo); err != nil {
			return nil, err
		}
	}
	if local, err = readConfig(filepath.Join(repo.CommonDir, "config")); err != nil {
		return nil, err
	}
	own, err := readConfig(filepath.Join(repo.GitDir, "config.worktree"))
	if err != nil {
		return nil, err
	}
	// An untracked cache is bound to the machine and directory it was made in; unless the
	// repository wants one anyway, git is told to drop it, or it would complain at every status.
	carry := append([]git.Setting{{Key: "core.untrackedcache", Value: "false"}}, without(s.carry, "core.excludesfile")...)
	// What the repository says of itself wins over what is the user's; fixed, which comes last,
	// over both.
	settings := append(missing(carry, local), sanitise(local)...)
	settings = append(settings, fixed...)
	switch to.worktree {
	case "":
	case keepWorktree:
		for _, kept := range local {
			if kept.Key == "core.worktree" && !filepath.IsAbs(kept.Value) {
				settings = append(settings, kept)
			}
		}
	default:
		settings = append(settings, git.Setting{Key: "core.worktree", Value: to.worktree})
	}
	err = writeText(filepath.Join(to.git, "config"), git.FormatConfig(settings))
	if err == nil && own != nil {
		err = writeText(filepath.Join(to.git, "config.worktree"), git.FormatConfig(sanitise(own)))
	}
	return append(local, own...), err
}

// maxConfig bounds a configuration file: a repository with a hundred thousand branches has one of
// this size.
const maxConfig = 64 << 20

// readConfig reads one file as git does, without what it includes. A file that is absent is no
// settings. No link decides which file it is.
func readConfig(file string) ([]git.Setting, error) {
	data, err := git.ReadPlain(file, maxConfig)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(file, err)
	}
	return git.ParseConfig(string(data)), nil
}

// parseConfig reads what git config --null --list prints.
func parseConfig(out string) []git.Setting {
	var settings []git.Setting
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		key, value, ok := strings.Cut(entry, "\n")
		if key != "" {
			settings = append(settings, git.Setting{Key: key, Value: value, Bare: !ok})
		}
	}
	return settings
}

// carriedSettings asks git, because the user's configuration may depend on where the repository is.
// What the repository's own file includes from outside of it is not the user's word.
func carriedSettings(ctx context.Context, repo Repo) ([]git.Setting, error) {
	out, _, err := answer(ctx, repo.Root, "config", "--includes", "--show-scope", "--show-origin", "--null", "--get-regexp", carried)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(out, "\x00")
	var settings []git.Setting
	for i := 0; i+2 < len(fields); i += 3 {
		file, isFile := strings.CutPrefix(fields[i+1], "file:")
		path := absolute(file, repo.Root)
		local := fields[i] == "local" || fields[i] == "worktree"
		found := parseConfig(fields[i+2])
		switch {
		case !local:
			settings = append(settings, found...)
		case isFile && (within(repo.Root, path) || within(repo.CommonDir, path)):
			settings = append(settings, without(found, "core.excludesfile")...) // looks.excludes judges that
		}
	}
	return settings, nil
}

// missing is those of the settings that have does not decide; of several for one key, the last one
// counts.
func missing(settings, have []git.Setting) []git.Setting {
	known := map[string]bool{}
	for _, h := range have {
		known[h.Key] = true
	}
	var out []git.Setting
	for i := len(settings) - 1; i >= 0; i-- {
		if !known[settings[i].Key] {
			known[settings[i].Key] = true
			out = append(out, settings[i])
		}
	}
	return out
}

// sanitise is the settings a copy may have: no credentials, no programs of the host, none of
// agentbox's own remotes. A url.BASE section whose BASE has a password goes with its name.
func sanitise(settings []git.Setting) []git.Setting {
	ours := map[string]bool{}
	for _, s := range settings {
		if name, ok := strings.CutSuffix(s.Key, "."+markKey); ok {
			ours[name+"."] = true
		}
	}
	var out []git.Setting
	for _, s := range settings {
		section := s.Key[:strings.LastIndexByte(s.Key, '.')+1]
		if leftBehind().MatchString(s.Key) || ours[section] || strings.HasPrefix(section, "url.") && redact(section) != section {
			continue
		}
		s.Key, s.Value = redact(s.Key), redact(s.Value)
		// The address of a proxy needs no scheme: [user[:password]@]host[:port].
		if at := strings.LastIndexByte(s.Value, '@'); strings.HasSuffix(s.Key, ".proxy") && !strings.Contains(s.Value, "://") {
			s.Value = s.Value[at+1:]
		}
		out = append(out, s)
	}
	return out
}
